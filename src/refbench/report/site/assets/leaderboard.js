/** The leaderboard: own models with intervals, coverage and rank, published figures beside them as another kind of row. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, charts } = rb;
  const MOST_MEASURES = 6;

  const same = (one, other) => {
    const keys = Object.keys(one);
    return keys.length === Object.keys(other).length && keys.every((key) => one[key] === other[key]);
  };

  /** Rows of the chosen protocol and judge on a slice, by metric. */
  function rowsOn(ctx, chunk, slice) {
    return chunk.rows.filter((row) => row.protocol === ctx.protocol && same(row.slice, slice));
  }

  /** Own lines and published ones, best first; models without a value come last. */
  function lines(ctx, chunk, slice = { level: "overall" }) {
    const here = rowsOn(ctx, chunk, slice);
    const own = ctx.board.models.map((_, model) => {
      const mine = here.filter((row) => row.model === model);
      const of = (name) => rb.judged(ctx, mine.filter((row) => row.metric === name))[0] ?? null;
      return { model, main: of(ctx.measure.name), of };
    }).filter((line) => line.main !== null);
    const printed = chunk.published.filter((one) => one.metric === ctx.measure.name && same(one.slice, slice));
    const judge = (ctx.board.judges[ctx.judge] ?? "").toLowerCase();
    const mine = new Set(own.map((line) => line.model));
    const beside = (model) => printed.filter((one) => one.model === model && one.judge.toLowerCase() === judge);
    const others = ctx.params.get("published") === "no" ? [] : printed.filter((one) => one.model === null || !mine.has(one.model) || one.judge.toLowerCase() !== judge);
    const sign = ctx.measure.better === "lower" ? 1 : -1;
    const all = [
      ...own.map((line) => ({ ...line, value: line.main.value, published: beside(line.model) })),
      ...others.map((one) => ({ printed: one, value: one.value })),
    ];
    return all.sort((a, b) => (a.value === null) - (b.value === null) || sign * ((a.value ?? 0) - (b.value ?? 0)));
  }

  function axisOf(ctx, all) {
    const values = all.flatMap((line) => line.printed
      ? [line.value]
      : [line.value, ...(line.main.ci95 ?? []), ...line.published.map((one) => one.value)]);
    return charts.scale(values.filter((value) => value !== null), ctx.measure);
  }

  function source(ctx, one) {
    return `${ctx.board.paper}, Table ${one.table}${one.judge ? `, judge ${one.judge}` : ""}`;
  }

  function severalRuns(ctx) {
    return new Set(ctx.board.models.map((model) => model.run)).size > 1;
  }

  function ownRow(ctx, axis, line, place, measures) {
    const { main } = line;
    const digits = ctx.measure.digits;
    const name = rb.modelName(ctx, line.model);
    const head = ctx.board.models[line.model];
    const said = `${name}: ${format.number(main.value, digits)}, 95 % interval ${format.interval(main.ci95, digits)}`;
    const row = charts.intervalRow(axis, {
      ...main, label: said, published: line.published.map((one) => ({ value: one.value, title: source(ctx, one) })),
    });
    return h("tr", { class: "own", role: "row" },
      h("td", { class: "place num", role: "cell" }, main.value === null ? format.NONE : place),
      h("th", { scope: "row", role: "rowheader", class: "name" }, h("div", {},
        h("span", { class: "letter", "aria-hidden": "true" }, format.letter(line.model)),
        h("span", { class: "names" }, h("a", { href: route.to("cases", { params: { model: line.model, sort: "worst" } }) }, name),
          severalRuns(ctx) && h("small", {}, `run ${head.run}`)))),
      h("td", { class: "num main", role: "cell" }, format.number(main.value, digits),
        main.value === null && h("small", {}, "no value")),
      h("td", { class: "chart", role: "cell" }, row),
      h("td", { class: "num small interval", role: "cell", "data-title": "95 % interval" }, format.interval(main.ci95, digits),
        main.bounds && main.n_scored < main.n_expected && h("small", { title: "whatever the cases that failed had scored" }, `bounds ${format.interval(main.bounds, digits)}`)),
      h("td", { class: "num small rank", role: "cell", "data-title": "rank" }, main.rank95 ? (main.rank95[0] === main.rank95[1] ? main.rank95[0] : `${main.rank95[0]} to ${main.rank95[1]}`) : format.NONE),
      measures.map((measure) => h("td", { class: "num small other", role: "cell", "data-title": format.words(measure.name) },
        format.number(line.of(measure.name)?.value, measure.digits))),
      h("td", { class: "covered", role: "cell" }, charts.coverage(main.n_scored, main.n_expected, main.failures)),
      h("td", { class: "num small paper", role: "cell", "data-title": "published" }, line.published.map((one) => h("span", { title: source(ctx, one) }, `◇ ${format.number(one.value, digits)}`, h("small", {}, `Table ${one.table}`)))));
  }

  function publishedRow(ctx, axis, line, measures) {
    const { printed } = line;
    const digits = ctx.measure.digits;
    const title = source(ctx, printed);
    const row = charts.intervalRow(axis, { published: [{ value: printed.value, title }], label: `${printed.label}, published: ${format.number(printed.value, digits)}` });
    return h("tr", { class: "published", role: "row" },
      h("td", { class: "place num", role: "cell" }, "◇"),
      h("th", { scope: "row", role: "rowheader", class: "name" }, h("div", {}, h("span", { class: "names" }, h("em", {}, printed.label), h("small", {}, `published: ${title}`)))),
      h("td", { class: "num main", role: "cell" }, format.number(printed.value, digits)),
      h("td", { class: "chart", role: "cell" }, row),
      h("td", { class: "num small interval", role: "cell" }, "none given"),
      h("td", { class: "num small rank", role: "cell" }),
      measures.map(() => h("td", { class: "other", role: "cell" })),
      h("td", { class: "covered", role: "cell" }, h("small", {}, "not stated")),
      h("td", { class: "paper", role: "cell" }));
  }

  function heading(ctx, measure) {
    return h("a", { href: route.changed({ measure: measure.name === ctx.summary ? null : measure.name }) }, format.words(measure.name));
  }

  /** The table itself; `all` are the lines. */
  function draw(ctx, all) {
    const axis = axisOf(ctx, all);
    const measures = ctx.measures.filter((one) => one.name !== ctx.measure.name).slice(0, MOST_MEASURES);
    const printed = all.some((line) => line.published?.length);
    const ranked = all.some((line) => line.main?.rank95);
    const th = (text, className) => h("th", { scope: "col", role: "columnheader", class: className }, text);
    let place = 0;
    const body = all.map((line) => {
      place += line.printed ? 0 : 1;
      return line.printed ? publishedRow(ctx, axis, line, measures) : ownRow(ctx, axis, line, place, measures);
    });
    return h("table", { class: `leaderboard${printed ? "" : " unprinted"}${ranked ? "" : " unranked"}`, role: "table", "aria-label": `Leaderboard by ${ctx.measure.name}` },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
        th("", "place"), th("Model", ""), th(format.words(ctx.measure.name), "num"), h("th", { scope: "col", role: "columnheader", class: "chart", "aria-label": "drawn" }, charts.axisRow(axis)),
        th("95 % interval", "num interval"), th("Rank (95 %)", "num rank"),
        measures.map((measure) => th(heading(ctx, measure), "num other")),
        th("Scored", "covered"), th("Published", "num paper"))),
      h("tbody", { role: "rowgroup" }, body));
  }

  /** What the table says about its leader, in a sentence. */
  function headline(ctx, all) {
    const own = all.filter((line) => !line.printed && line.value !== null);
    if (!own.length) {
      return null;
    }
    const { main, model } = own[0];
    const way = ctx.measure.better === "lower" ? "lowest" : "highest";
    const name = h("strong", {}, rb.modelName(ctx, model));
    const ranks = main.rank95 && own.length > 1
      ? main.rank95[1] === 1
        ? " It keeps first place in 95 % of resamples."
        : ` In 95 % of resamples its rank is ${main.rank95[0]} to ${main.rank95[1]}: the lead is not settled.`
      : "";
    return h("p", { class: "headline" }, name, own.length > 1 ? ` has the ${way} ${format.words(ctx.measure.name)}, ` : ` has ${format.words(ctx.measure.name)} `,
      h("span", { class: "figure" }, format.number(main.value, ctx.measure.digits)),
      main.ci95 && ` (95 % interval ${format.interval(main.ci95, ctx.measure.digits)})`, ".", ranks);
  }

  rb.leaderboard = { lines, draw, headline, same };
})();
