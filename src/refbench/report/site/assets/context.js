/** What a page is about: board, protocol, judge and measure, read from the address or chosen by a stated rule. */
"use strict";

(() => {
  const rb = window.refbench;

  function chosen(options, wanted, otherwise) {
    return options.includes(wanted) ? wanted : otherwise;
  }

  /** `corrected` and the first named judge, unless the address says otherwise. */
  function context(site, route) {
    const board = site.boards.find((one) => one.id === route.board) ?? site.boards[0];
    const { params } = route;
    const protocol = chosen(board.protocols, params.get("protocol"), chosen(board.protocols, "corrected", board.protocols[0]));
    const named = board.judges.map((_, number) => number).filter((number) => board.judges[number] !== null);
    const numbers = named.length ? named : board.judges.map((_, number) => number);
    const judge = chosen(numbers, Number(params.get("judge") ?? NaN), numbers[0] ?? 0);
    const measures = board.measures[protocol] ?? [];
    const summary = board.summary[protocol] ?? measures.at(-1)?.name ?? "";
    const names = measures.map((measure) => measure.name);
    const name = chosen(names, params.get("measure"), summary);
    return {
      site, board, route, params, protocol, judge, judges: numbers, measures, summary,
      measure: measures.find((one) => one.name === name) ?? { name, low: null, high: null, better: "higher", digits: 2 },
      mute: board.judges.indexOf(null),
    };
  }

  /** Whether rows of this judge count here: the chosen one, else those measured without a judge. */
  function judged(ctx, rows) {
    const mine = rows.filter((row) => row.judge === ctx.judge);
    return mine.length || ctx.mute < 0 ? mine : rows.filter((row) => row.judge === ctx.mute);
  }

  function judgeName(ctx, judge) {
    return ctx.board.judges[judge] ?? "measured without a judge";
  }

  /** A model by number or, where a chunk carries names, as it is. */
  function modelName(ctx, model) {
    return typeof model === "number" ? (ctx.board.models[model]?.name ?? `model ${model}`) : String(model);
  }

  function measureOf(ctx, name) {
    return ctx.measures.find((one) => one.name === name) ?? { name, low: null, high: null, better: "higher", digits: 2 };
  }

  Object.assign(rb, { context, judged, judgeName, modelName, measureOf });
})();
