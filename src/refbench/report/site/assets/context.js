/** What a page is about: board, protocol, judge and measure, read from the address or chosen by a stated rule. */
"use strict";

(() => {
  const rb = window.refbench;

  const unknown = (name) => ({ name, low: null, high: null, better: "higher", digits: 2, factor: 1, about: "" });

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
      measure: measures.find((one) => one.name === name) ?? unknown(name),
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

  const LONG = 22;
  const MOST = 34;
  const names = new WeakMap();

  /** Whole and parts of a name: words and what separates them. */
  const parts = (name) => name.match(/[^/_\-.\s:@]+|[/_\-.\s:@]+/g) ?? [name];

  function shared(lists) {
    let n = 0;
    while (lists.every((list) => n < list.length - 1 && list[n] === lists[0][n])) {
      n += 1;
    }
    return n;
  }

  /** What differs between names that begin alike: their common beginning and end are left out. Where only numbers
   * differ, the word before them stays: step-500, not 500. */
  function differing(alike) {
    const lists = alike.map(parts);
    const before = shared(lists);
    const after = shared(lists.map((list) => list.slice(before).reverse()));
    const kept = (list, from) => list.slice(from, list.length - after).join("").replace(/^[/_\-.\s:@]+|[/_\-.\s:@]+$/g, "");
    const from = lists.every((list) => /^[\d\W_]*$/.test(kept(list, before))) ? Math.max(0, before - 2) : before;
    return lists.map((list, i) => (kept(list, before) ? `${from ? "…" : ""}${kept(list, from)}` : alike[i]));
  }

  function cutInside(name) {
    const signs = [...name];
    return signs.length <= MOST ? name : `${signs.slice(0, 15).join("")}…${signs.slice(-16).join("")}`;
  }

  /** Names short enough for columns, no two alike: long ones that begin alike without their common parts. */
  function shortened(all) {
    const families = new Map();
    for (const name of all) {
      const family = name.length > LONG ? parts(name)[0] : name;
      families.set(family, [...(families.get(family) ?? []), name]);
    }
    const found = new Map();
    for (const family of families.values()) {
      const short = family.length > 1 ? differing(family) : family;
      family.forEach((name, i) => found.set(name, cutInside(short[i])));
    }
    const count = (text) => [...found.values()].filter((one) => one === text).length;
    const clash = new Set([...found.values()].filter((text) => count(text) > 1));
    return all.map((name) => (clash.has(found.get(name)) ? name : found.get(name)));
  }

  /** A model by number or, where a chunk carries names, as it is. */
  function modelName(ctx, model) {
    return rb.isolated(typeof model === "number" ? (ctx.board.models[model]?.name ?? `model ${model}`) : model);
  }

  /** The same where there is little room; the whole name belongs into a title beside it. */
  function shortName(ctx, model) {
    if (!names.has(ctx.board)) {
      names.set(ctx.board, shortened(ctx.board.models.map((one) => one.name)));
    }
    return rb.isolated(names.get(ctx.board)[model] ?? modelName(ctx, model));
  }

  /** Where a model stands on the board that the site begins with. */
  const placeOf = (ctx, model) => ctx.board.models[model]?.place ?? model;

  /** The models as the board has them, best first. */
  const ordered = (ctx) => ctx.board.models.map((_, model) => model).sort((a, b) => placeOf(ctx, a) - placeOf(ctx, b));

  const letterOf = (ctx, model) => ctx.board.models[model]?.letter ?? "";

  /** The class that has the colour of a model. */
  const colourOf = (ctx, model) => `m${ctx.board.models[model]?.colour ?? 0}`;

  const markOf = (ctx, model) => ctx.board.models[model]?.mark;

  /** A model's sign: its shape in its colour, and its letter. */
  function badge(ctx, model) {
    return rb.h("span", { class: `letter ${colourOf(ctx, model)}`, "aria-hidden": "true" },
      rb.s("svg", { viewBox: "-6 -6 12 12", width: "10", height: "10" }, rb.charts.shape(markOf(ctx, model))), letterOf(ctx, model));
  }

  /** Badge and short name, with the whole name in the title. */
  function label(ctx, model) {
    const [name, short] = [modelName(ctx, model), shortName(ctx, model)];
    return rb.h("span", { class: "who", title: name === short ? null : name }, badge(ctx, model), rb.h("bdi", { class: "name" }, short));
  }

  /** The same for a model that a chunk has by its name. */
  function labelOf(ctx, model) {
    const number = typeof model === "number" ? model : ctx.board.models.findIndex((one) => one.name === model);
    return number < 0 ? modelName(ctx, model) : label(ctx, number);
  }

  /** A sentence that Python wrote about models of this board, with what stands between backticks as code. */
  const said = (ctx, text) => rb.prose(rb.sentence(text, ctx.board.models.map((model) => model.name)));

  function measureOf(ctx, name) {
    return ctx.measures.find((one) => one.name === name) ?? unknown(name);
  }

  /** What a measure is, in words for a title: what it measures, its range and which way is better. */
  function measureTitle(measure) {
    const range = measure.low !== null && measure.high !== null ? `${rb.format.plain(measure.low)} to ${rb.format.plain(measure.high)}, ` : "";
    return [measure.about, `${rb.format.label(`${range}${measure.better} is better`)}.`].filter(Boolean).join(" ");
  }

  Object.assign(rb, { context, judged, judgesSaid, judgeName, measuredBy, modelName, shortName, placeOf, ordered, letterOf, colourOf, markOf, badge, label, labelOf, said, measureOf, measureTitle });
})();
