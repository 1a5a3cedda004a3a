/** Pairs of models: which gaps the cases can resolve, how large they are, and which slices make them. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, charts, controls } = rb;

  const FIRST = 45;

  /** Which side of a pair is ahead, as a shape and a word; a claim only where the sentence makes it too. */
  const verdict = (pair, lower) => (!pair.resolved ? (pair.undone ? `○ ${pair.undone} could undo it` : "○ cannot resolve") : (lower ? pair.gap < 0 : pair.gap > 0) ? "▲ ahead" : "▼ behind");

  /** The pair seen from the other side; a slice's share of the gap stays. */
  function turned(pair) {
    const drivers = pair.drivers.map((one) => ({ ...one, gap: one.gap === null ? null : -one.gap }));
    return { ...pair, turned: !pair.turned, first: pair.second, second: pair.first, gap: -pair.gap, effect: pair.effect === null ? null : -pair.effect, ci95: pair.ci95 && [-pair.ci95[1], -pair.ci95[0]], drivers };
  }

  /** Models by the sum of their gaps, so that what is resolved gathers in the corners. */
  function bestFirst(ctx, pairs) {
    const sums = new Map();
    for (const { first, second, gap } of pairs) {
      sums.set(first, (sums.get(first) ?? 0) + gap);
      sums.set(second, (sums.get(second) ?? 0) - gap);
    }
    const sign = ctx.measure.better === "lower" ? 1 : -1;
    return [...sums.keys()].sort((a, b) => sign * (sums.get(a) - sums.get(b)) || a - b);
  }

  /** The pair that most people ask about: the best two. */
  function leaders(ctx, pairs) {
    const two = bestFirst(ctx, pairs).slice(0, 2);
    return pairs.find((pair) => two.includes(pair.first) && two.includes(pair.second)) ?? pairs[0];
  }

  function matrix(ctx, pairs, chosen) {
    const models = bestFirst(ctx, pairs);
    const { digits } = ctx.measure;
    const find = (row, column) => {
      const pair = pairs.find((one) => (one.first === row && one.second === column) || (one.first === column && one.second === row));
      return pair && (pair.first === row ? pair : turned(pair));
    };
    const lower = ctx.measure.better === "lower";
    const cell = (row, column) => {
      const pair = find(row, column);
      if (!pair) {
        return row === column ? h("span", { class: "self", "aria-hidden": "true" }) : format.NONE;
      }
      const sure = pair.resolved;
      const ahead = lower ? pair.gap < 0 : pair.gap > 0;
      const now = chosen && [chosen.first, chosen.second].includes(row) && [chosen.first, chosen.second].includes(column);
      return h("a", {
        class: `gap ${sure ? (ahead ? "ahead" : "behind") : "open"}`, href: route.changed({ pair: `${pair.first}-${pair.second}` }), "aria-current": now ? "true" : null,
        title: `${rb.modelName(ctx, row)} minus ${rb.modelName(ctx, column)}: ${format.signed(pair.gap, digits)}, ${sure ? "resolved" : verdict(pair, lower).slice(2)}`,
      }, format.signed(pair.gap, digits), h("span", { class: "shape", "aria-hidden": "true" }, sure ? (ahead ? "▲" : "▼") : "○"));
    };
    return h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": "Matrix of pairs" }, h("table", { class: "matrix" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "row minus column"), models.map((model) => h("th", { scope: "col", class: "num", title: rb.modelName(ctx, model) }, rb.badge(ctx, model))))),
      h("tbody", {}, models.map((row) => h("tr", {}, h("th", { scope: "row", title: rb.modelName(ctx, row) }, rb.label(ctx, row)),
        models.map((column) => h("td", { class: "num" }, cell(row, column))))))));
  }

  function driverTable(ctx, pair) {
    const shared = pair.drivers.some((one) => typeof one.share === "number");
    const columns = [{ title: "Slice" }, { title: "Gap there", number: true }, shared && { title: "Share of the gap", number: true }, { title: "Cases", number: true }];
    const rows = pair.drivers.map((one) => [
      typeof one.slice === "string" ? one.slice : h("span", {}, format.sliceName(one.slice), h("small", {}, format.words(one.slice.level))), format.signed(one.gap, ctx.measure.digits),
      shared && (typeof one.share === "number" ? format.percent(one.share) : format.NONE), format.whole(one.n ?? 0),
    ].filter((cell) => cell !== false));
    return rb.table(columns.filter(Boolean), rows, { caption: "Slices that make the gap" });
  }

  function detail(ctx, given) {
    const pair = given.turned ? turned(given) : given; // as its sentence has it: one sign for one gap
    const names = [pair.first, pair.second].map((model) => rb.modelName(ctx, model));
    const loss = pair.gap * (ctx.measure.better === "lower" ? -1 : 1) > 0 ? [pair.second, pair.first] : [pair.first, pair.second];
    return h("section", { class: "pair", "aria-label": `${names[0]} and ${names[1]}` },
      h("h2", {}, `${names[0]} and ${names[1]}`),
      h("blockquote", {}, h("p", {}, rb.said(ctx, pair.sentence)), rb.copyButton(pair.sentence, "sentence")),
      h("dl", { class: "facts" }, h("dt", {}, `gap, ${names[0]} minus ${names[1]}`), h("dd", {}, `${format.signed(pair.gap, ctx.measure.digits)} (95 % interval ${format.interval(pair.ci95, ctx.measure.digits)})`),
        h("dt", {}, "p, adjusted for all pairs"), h("dd", {}, format.pValue(pair.p_adjusted)), h("dt", {}, "p, this pair alone"), h("dd", {}, format.pValue(pair.p)),
        h("dt", {}, "effect size"), h("dd", {}, format.number(pair.effect, 2)), h("dt", {}, "cases both have"), h("dd", {}, format.whole(pair.n))),
      pair.drivers.length > 0 && [h("h3", {}, "Slices that make the gap"), driverTable(ctx, pair)],
      h("p", {}, h("a", { href: route.to("cases", { params: { filter: "loss", model: loss[0], against: loss[1] } }) }, `Cases that ${rb.modelName(ctx, loss[0])} loses to ${rb.modelName(ctx, loss[1])}`)));
  }

  function list(ctx, pairs) {
    const axis = charts.scale(pairs.flatMap((pair) => [pair.gap, ...(pair.ci95 ?? [])]), { zero: true });
    const { digits } = ctx.measure;
    const rows = pairs.map((pair) => h("tr", { role: "row" },
      h("th", { scope: "row", role: "rowheader", class: "name" }, h("a", { class: "of-pair", href: route.changed({ pair: `${pair.first}-${pair.second}` }) }, rb.label(ctx, pair.first), h("span", { class: "less" }, " − ", rb.label(ctx, pair.second)))),
      h("td", { class: "num main", role: "cell" }, format.signed(pair.gap, digits)),
      h("td", { class: "chart", role: "cell" }, charts.intervalRow(axis, { value: pair.gap, ci95: pair.ci95, zero: true, strong: pair.resolved, label: `${format.signed(pair.gap, digits)}, 95 % interval ${format.interval(pair.ci95, digits)}` })),
      h("td", { class: "num small", role: "cell", "data-title": "95 % interval" }, format.interval(pair.ci95, digits)),
      h("td", { class: "num small", role: "cell", "data-title": "adjusted p" }, format.pValue(pair.p_adjusted)),
      h("td", { class: "num small", role: "cell", "data-title": "effect" }, format.number(pair.effect, 2)),
      h("td", { class: "num small", role: "cell", "data-title": "cases" }, format.whole(pair.n)),
      h("td", { class: "verdict", role: "cell" }, verdict(pair, ctx.measure.better === "lower"))));
    const th = (text, className) => h("th", { scope: "col", role: "columnheader", class: className }, text);
    const node = h("table", { class: "leaderboard pairs", role: "table", "aria-label": "Pairs" },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, th("Pair", ""), th("Gap", "num"), h("th", { scope: "col", role: "columnheader", class: "chart", "aria-label": "drawn" }, charts.axisRow(axis)), th("95 % interval", "num"), th("Adjusted p", "num"), th("Effect", "num"), th("Cases", "num"), th("", ""))),
      h("tbody", { role: "rowgroup" }, rows));
    return h("div", { class: "taken" }, h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": "Pairs" }, node), rb.takeAway(node, "pairs"));
  }

  async function build(ctx) {
    const chunk = await rb.load(`${ctx.board.id}/compare`);
    const there = chunk.pairs.filter((pair) => pair.protocol === ctx.protocol);
    const metrics = [...new Set(there.map((pair) => pair.metric))];
    const metric = metrics.includes(ctx.params.get("measure")) ? ctx.params.get("measure") : metrics.includes(ctx.summary) ? ctx.summary : metrics[0];
    const pairs = rb.judged(ctx, there.filter((pair) => pair.metric === metric)).map((pair) => (rb.placeOf(ctx, pair.first) < rb.placeOf(ctx, pair.second) ? pair : turned(pair)))
      .sort((a, b) => rb.placeOf(ctx, a.first) - rb.placeOf(ctx, b.first) || rb.placeOf(ctx, a.second) - rb.placeOf(ctx, b.second));
    const about = { ...ctx, measure: rb.measureOf(ctx, metric ?? ctx.summary) };
    const key = ctx.params.get("pair") ?? "";
    const chosen = pairs.find((pair) => `${pair.first}-${pair.second}` === key) ?? pairs.find((pair) => `${pair.second}-${pair.first}` === key) ?? leaders(about, pairs);
    const shown = ctx.params.get("all") === "yes" ? pairs : pairs.slice(0, FIRST);
    const settled = pairs.filter((pair) => pair.resolved).length;
    const node = h("div", { class: "page" }, h("h1", { class: "offscreen" }, "Compare"),
      pairs.length > 0 && h("p", { class: "headline" }, `${settled} of ${format.count(pairs.length, "pair")} can be told apart in `, h("strong", {}, format.words(metric)), " at the 5 % level, corrected for all pairs."),
      controls.bar(controls.protocols(ctx), controls.judges(ctx), controls.choice("measure", "Measure", metrics.map((value) => ({ value, text: format.words(value) })), metric, { otherwise: ctx.summary })),
      h("p", { class: "measured" }, rb.measuredBy(ctx, pairs)),
      pairs.length ? [
        h("div", { class: "two" }, h("div", {}, matrix(about, pairs, chosen), h("ul", { class: "legend" }, h("li", {}, "▲ ahead, resolved"), h("li", {}, "▼ behind, resolved"), h("li", {}, "○ not resolved: chance could explain it, or what failed could undo it, as the sentence of the pair says"))), chosen && detail(about, chosen)),
        rb.section("All pairs", list(about, shown),
          shown.length < pairs.length && h("p", {}, h("a", { href: route.changed({ all: "yes" }) }, `Show all ${format.count(pairs.length, "pair")}`))),
      ] : rb.note("There are no two models with shared cases under this protocol and judge."),
      chunk.limits.length > 0 && rb.section("Before you believe a pair", h("ul", { class: "remarks" }, chunk.limits.map((text) => h("li", {}, rb.said(ctx, text))))));
    return { node };
  }

  rb.pages.compare = { title: "Compare", build };
})();
