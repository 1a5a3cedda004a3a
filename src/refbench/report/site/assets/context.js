/** What a page is about: board, protocol, judge and measure, read from the address or chosen by a stated rule. */
"use strict";

(() => {
  const rb = window.refbench;

  function chosen(options, wanted, otherwise) {
    return options.includes(wanted) ? wanted : otherwise;
  }

  /** The first protocol, and the judge that the site begins with (as the brief does), unless the address says otherwise. */
  function context(site, route) {
    const board = site.boards.find((one) => one.id === route.board) ?? site.boards[0];
    const { params } = route;
    const protocol = chosen(board.protocols, params.get("protocol"), board.protocols[0]);
    const first = board.judge[protocol] ?? 0;
    const numbers = board.judges.map((_, number) => number).filter((number) => board.judges[number] !== null || number === first);
    const judge = chosen(numbers, Number(params.get("judge") ?? NaN), first);
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

  /** Who judged; the mean of the judges is no judge. */
  function judgesSaid(board) {
    const names = board.judges.filter((judge, n) => judge !== null && board.judge_titles[n] === judge);
    const mean = board.judges.some((judge, n) => judge !== null && board.judge_titles[n] !== judge);
    const said = names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join("");
    return mean && names.length > 1 ? `${said}, mean of ${names.length === 2 ? "both" : "all"}` : said;
  }

  function judgeName(ctx, judge) {
    return ctx.board.judge_titles[judge] ?? "measured without a judge";
  }

  /** Whose numbers rows are: judge, wording and protocol. Rows of a measure that no judge gives say so. */
  function measuredBy(ctx, rows) {
    const judges = [...new Set(rows.map((row) => row.judge))].sort((a, b) => a - b);
    const by = (judges.length ? judges : [ctx.judge]).map((judge) => (ctx.board.judge_titles[judge] ? `judge ${ctx.board.judge_titles[judge]}, ${ctx.board.wording}` : "measured without a judge"));
    const empty = rows.length > 0 && rows.every((row) => row.value === null);
    return `${empty ? "nothing scored yet" : by.join("; ")} · protocol ${ctx.protocol}`;
  }

  /** A model by number or, where a chunk carries names, as it is. */
  function modelName(ctx, model) {
    return typeof model === "number" ? (ctx.board.models[model]?.name ?? `model ${model}`) : String(model);
  }

  function measureOf(ctx, name) {
    return ctx.measures.find((one) => one.name === name) ?? { name, low: null, high: null, better: "higher", digits: 2 };
  }

  Object.assign(rb, { context, judged, judgesSaid, judgeName, measuredBy, modelName, measureOf });
})();
