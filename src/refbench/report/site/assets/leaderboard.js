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

  /**
   * Own lines, the ranked ones best first, and published ones. A published figure stands beside a model's own only
   * where it is the same measurement; the others are given apart, with what they differ in.
   */
  function lines(ctx, chunk, slice = { level: "overall" }) {
    const here = rowsOn(ctx, chunk, slice);
    const own = ctx.board.models.map((_, model) => {
      const mine = here.filter((row) => row.model === model);
      const of = (name) => rb.judged(ctx, mine.filter((row) => row.metric === name))[0] ?? null;
      return { model, main: of(ctx.measure.name), of };
    }).filter((line) => line.main !== null);
    const printed = chunk.published.filter((one) => one.metric === ctx.measure.name && same(one.slice, slice));
    const judge = own[0]?.main.judge ?? ctx.judge;
    const differs = (one) => chunk.sources[one.source].differs[`${ctx.protocol}/${judge}`];
    const mine = new Set(own.map((line) => line.model));
    const beside = (model) => printed.filter((one) => one.model === model && !differs(one));
    const others = ctx.params.get("published") === "no" ? [] : printed.filter((one) => !mine.has(one.model) || differs(one));
    const sign = ctx.measure.better === "lower" ? 1 : -1;
    const last = (line) => (line.main.rank === null ? Infinity : line.main.rank);
    const better = (a, b) => (a.value === null) - (b.value === null) || sign * ((a.value ?? 0) - (b.value ?? 0));
    return [
      ...own.map((line) => ({ ...line, value: line.main.value, published: beside(line.model) })).sort((a, b) => (last(a) === last(b) ? better(a, b) : last(a) - last(b))),
      ...others.map((one) => ({ printed: one, value: one.value, judge: chunk.sources[one.source].judge, differs: differs(one) })).sort((a, b) => a.differs.length - b.differs.length || (a.differs < b.differs ? -1 : a.differs > b.differs ? 1 : 0) || better(a, b)),
    ];
  }

  /** Lines under their headings: the ranked have none. */
  function groups(all) {
    const found = new Map();
    for (const line of all) {
      const title = line.printed
        ? line.differs ? `Published, with ${line.differs}: not the same measurement` : "Published, measured in the same way"
        : line.main.rank === null ? "Not ranked" : "";
      found.set(title, [...(found.get(title) ?? []), line]);
    }
    return [...found];
  }

  function axisOf(ctx, all) {
    const values = all.flatMap((line) => line.printed
      ? [line.value]
      : [line.value, ...(line.main.ci95 ?? []), ...line.published.map((one) => one.value)]);
    return charts.scale(values.filter((value) => value !== null), ctx.measure);
  }

  const tableOf = (one, judge = "") => `${format.table(one.table)}${judge === "human" ? ", people" : judge ? `, judge ${judge}` : ""}`;

  function source(ctx, one, judge = "") {
    return `${ctx.board.paper}, ${tableOf(one, judge)}`;
  }

  function severalRuns(ctx) {
    return new Set(ctx.board.models.map((model) => model.run)).size > 1;
  }

  function ownRow(ctx, axis, line, measures) {
    const { main } = line;
    const digits = ctx.measure.digits;
    const [name, short] = [rb.modelName(ctx, line.model), rb.shortName(ctx, line.model)];
    const head = ctx.board.models[line.model];
    const said = `${name}: ${format.number(main.value, digits)}, 95 % interval ${format.interval(main.ci95, digits)}`;
    const row = charts.intervalRow(axis, {
      ...main, ...charts.of(ctx, line.model), label: said, published: line.published.map((one) => ({ value: one.value, title: source(ctx, one) })),
    });
    return h("tr", { class: "own", role: "row" },
      h("td", { class: "place num", role: "cell" }, ctx.board.audit ? "" : main.rank ?? format.NONE),
      h("th", { scope: "row", role: "rowheader", class: "name" }, h("div", {},
        rb.badge(ctx, line.model),
        h("span", { class: "names" }, h("a", { href: route.to("cases", { params: { model: line.model, sort: "worst" } }), title: name === short ? null : name }, h("bdi", {}, short)),
          severalRuns(ctx) && h("small", {}, `run ${head.run}`), main.unranked && h("small", { class: "unranked" }, main.unranked)))),
      h("td", { class: "num main", role: "cell" }, format.number(main.value, digits),
        main.value === null && h("small", {}, "no value")),
      h("td", { class: "chart", role: "cell" }, row),
      h("td", { class: "num small interval", role: "cell", "data-title": "95 % interval" }, format.interval(main.ci95, digits),
        main.bounds && leftOpen(main) > 0 && h("small", { title: main.n_imputed > 0 ? `whatever the other ${leftOpen(main)} that failed had scored` : "whatever the cases that failed had scored" }, `bounds ${format.interval(main.bounds, digits)}`)),
      h("td", { class: "num small rank", role: "cell", "data-title": "rank" }, main.rank95 ? (main.rank95[0] === main.rank95[1] ? main.rank95[0] : `${main.rank95[0]} to ${main.rank95[1]}`) : format.NONE),
      measures.map((measure) => h("td", { class: "num small other", role: "cell", "data-title": format.words(measure.name) },
        format.number(line.of(measure.name)?.value, measure.digits))),
      h("td", { class: "covered", role: "cell" }, charts.coverage(main),
        main.n_seeds > 1 && h("small", {}, `${format.count(main.n_cases, "case")}, ${main.n_seeds} seeds`),
        main.n_imputed > 0 && h("small", {}, `${format.whole(main.n_imputed)} of the failed count with a value, and are not in the bounds`),
        main.n_not_applicable > 0 && h("small", {}, `${format.whole(main.n_not_applicable)} do not apply`)),
      h("td", { class: "num small paper", role: "cell", "data-title": "published" }, line.published.map((one) => h("span", { title: source(ctx, one) }, `◇ ${format.number(one.value, digits)}`, h("small", {}, format.table(one.table))))));
  }

  function publishedRow(ctx, axis, line, measures) {
    const { printed } = line;
    const digits = ctx.measure.digits;
    const title = source(ctx, printed, line.judge);
    const row = charts.intervalRow(axis, { published: [{ value: printed.value, title }], label: `${printed.label}, published: ${format.number(printed.value, digits)}` });
    return h("tr", { class: "published", role: "row" },
      h("td", { class: "place num", role: "cell" }, "◇"),
      h("th", { scope: "row", role: "rowheader", class: "name" }, h("div", {}, h("span", { class: "names" }, h("em", {}, printed.label), h("small", { title }, tableOf(printed, line.judge))))),
      h("td", { class: "num main", role: "cell" }, format.number(printed.value, digits)),
      h("td", { class: "chart", role: "cell" }, row),
      h("td", { class: "num small interval", role: "cell" }, "none given"),
      h("td", { class: "num small rank", role: "cell" }),
      measures.map(() => h("td", { class: "other", role: "cell" })),
      h("td", { class: "covered", role: "cell" }, h("small", {}, "not stated")),
      h("td", { class: "paper", role: "cell" }));
  }

  function heading(ctx, measure) {
    return h("a", { title: rb.measureTitle(measure), href: route.changed({ measure: measure.name === ctx.summary ? null : measure.name }) }, format.words(measure.name));
  }

  /** The table itself; `all` are the lines. */
  function draw(ctx, all) {
    const axis = axisOf(ctx, all);
    const measures = ctx.measures.filter((one) => one.name !== ctx.measure.name).slice(0, MOST_MEASURES);
    const printed = all.some((line) => line.published?.length);
    const ranked = !ctx.board.audit && all.some((line) => line.main?.rank95);
    const th = (text, className, title = null) => h("th", { scope: "col", role: "columnheader", class: className, title }, text);
    const width = 8 + measures.length;
    const bodies = groups(all).map(([title, some]) => h("tbody", { role: "rowgroup" },
      title && h("tr", { class: "group", role: "row" }, h("th", { scope: "rowgroup", role: "rowheader", colspan: width }, title)),
      some.map((line) => (line.printed ? publishedRow(ctx, axis, line, measures) : ownRow(ctx, axis, line, measures)))));
    const node = h("table", { class: `leaderboard${printed ? "" : " unprinted"}${ranked ? "" : " unranked"}`, role: "table", "aria-label": `Leaderboard by ${ctx.measure.name}` },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" },
        th("", "place"), th("Model", ""), th(format.words(ctx.measure.name), "num", rb.measureTitle(ctx.measure)), h("th", { scope: "col", role: "columnheader", class: "chart", "aria-label": "drawn" }, charts.axisRow(axis)),
        th("95 % interval", "num interval", "Where the number would lie in 19 of 20 such samples of cases."), th("Rank (95 %)", "num rank", "The ranks that the model could hold, for all models together in 19 of 20 such samples."),
        measures.map((measure) => th(heading(ctx, measure), "num other")),
        th("Scored", "covered", "Pictures with a value, of those that were asked for."), th("Published", "num paper", "What the paper prints for the same model under the same measurement."))),
      bodies);
    return h("div", { class: "taken" }, h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": "Leaderboard" }, node), rb.takeAway(node, "leaderboard"));
  }

  /** How many failures have no value, and so may have scored anything. */
  function leftOpen(main) {
    return Object.values(main.failures).reduce((sum, n) => sum + n, 0) - main.n_imputed;
  }

  /** What the table says about its leader, in a sentence. */
  function headline(ctx, all) {
    const own = all.filter((line) => !line.printed && line.main.rank !== null);
    if (!own.length) {
      return all.some((line) => !line.printed && line.value !== null) ? h("p", { class: "headline" }, "No model is ranked: none has enough scores.") : null;
    }
    const { main, model } = own[0];
    const way = ctx.measure.better === "lower" ? "lowest" : "highest";
    const name = h("strong", {}, h("bdi", {}, rb.modelName(ctx, model)));
    const ranks = main.rank95 && main.first !== null && own.length > 1
      ? ` It comes first in ${format.percent(main.first)} of resamples of the cases${main.rank95[1] > 1 ? `; ranks ${main.rank95[0]} to ${main.rank95[1]} fit the data: the lead is not settled` : ""}.`
      : "";
    const tied = own.filter((line) => line.main.rank === 1).length;
    if (tied > 1) {
      return h("p", { class: "headline" }, `${format.count(tied, "model")} share the ${way} ${format.words(ctx.measure.name)}, `, h("span", { class: "figure" }, format.number(main.value, ctx.measure.digits)), ".");
    }
    return h("p", { class: "headline" }, name, own.length > 1 ? ` has the ${way} ${format.words(ctx.measure.name)}, ` : ` has ${format.words(ctx.measure.name)} `,
      h("span", { class: "figure" }, format.number(main.value, ctx.measure.digits)),
      main.ci95 && ` (95 % interval ${format.interval(main.ci95, ctx.measure.digits)})`, ".", ranks);
  }

  rb.leaderboard = { lines, draw, headline, leftOpen, same };
})();
