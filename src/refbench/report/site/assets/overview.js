/** The overview: who leads and how surely, what was not scored, where models differ, what the corrections changed. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, controls, leaderboard } = rb;

  function legend(ctx, printed, bounded) {
    return h("ul", { class: "legend" },
      h("li", {}, h("span", { class: "key dotkey" }), "value with its 95 % interval"),
      bounded && h("li", {}, h("span", { class: "key boundkey" }), "where it could lie, whatever the failures had scored"),
      printed.length > 0 && h("li", {}, h("span", { class: "key diamondkey" }),
        `published figure: ${ctx.board.paper}, ${[...new Set(printed.map((one) => format.table(one.table)))].join(", ")}`));
  }

  function changes(ctx, chunk) {
    const steps = chunk.changes.filter((one) => one.items);
    if (!steps.length) {
      return null;
    }
    const names = [...new Map(chunk.changes.map((one) => [one.change, one.what])).entries()];
    const judge = ctx.board.judges[ctx.judge];
    const here = chunk.changes.filter((one) => (one.judge ?? null) === (typeof one.judge === "number" ? ctx.judge : judge));
    const places = new Map(ctx.board.models.map((one) => [one.name, one.place]));
    const models = [...new Set(here.map((one) => one.model))].sort((a, b) => (places.get(a) ?? Infinity) - (places.get(b) ?? Infinity));
    const measure = ctx.measure.name in (here[0]?.delta ?? {}) ? ctx.measure.name : ctx.summary;
    const { digits } = rb.measureOf(ctx, measure);
    const rows = models.map((model) => {
      const deltas = names.map(([name]) => here.find((one) => one.model === model && one.change === name)?.delta?.[measure] ?? null);
      const total = deltas.includes(null) ? null : deltas.reduce((sum, delta) => sum + delta, 0);
      return [rb.labelOf(ctx, model), ...deltas.map((delta) => format.signed(delta, digits)), h("strong", {}, format.signed(total, digits))];
    });
    if (!rows.length) {
      return null;
    }
    return rb.section("From paper to corrected",
      rb.note(`Change of ${format.words(measure)}, step by step in this order; the steps add up.`),
      rb.table([{ title: "Model" }, ...names.map(([name]) => ({ title: format.words(name), number: true })), { title: "total", number: true }], rows, { caption: "Change by cause" }),
      rb.more("What each step is", h("dl", { class: "facts" }, names.map(([name, what]) => [h("dt", {}, format.words(name)), h("dd", {}, rb.prose(what))]))));
  }

  function painting(ctx, chunk) {
    if (!chunk.painting.some((one) => one.n || one.refusals)) {
      return null;
    }
    const known = (name) => chunk.painting.some((one) => one[name] !== null);
    const rows = [...chunk.painting].sort((a, b) => rb.placeOf(ctx, a.model) - rb.placeOf(ctx, b.model)).map((one) => [rb.label(ctx, one.model), format.whole(one.n), format.seconds(one.seconds), format.dollars(one.cost_usd), format.whole(one.refusals ?? 0)]);
    return rb.section("Making the pictures",
      rb.table([{ title: "Model" }, { title: "Pictures", number: true }, { title: "Seconds a picture", number: true }, { title: "Dollars a picture", number: true }, { title: "Refused", number: true }], rows, { caption: "Time, money, refusals" }),
      !known("seconds") && !known("cost_usd") && rb.note("Time and price are not known: nothing was recorded when the pictures were made."));
  }

  function ends(text) {
    return /[.!?]$/.test(text) ? text : `${text}.`;
  }

  /** Adds to the headline what could undo the lead that it names; pairs are of the summary only, and may take a while. */
  async function addDoubt(ctx, all, headline) {
    const own = all.filter((line) => !line.printed && line.main.rank !== null);
    if (!headline || own.length < 2 || ctx.measure.name !== ctx.summary) {
      return;
    }
    const first = own[0].model;
    const chunk = await rb.load(`${ctx.board.id}/compare`);
    const sign = ctx.measure.better === "lower" ? -1 : 1;
    const leads = (pair) => sign * pair.gap * (pair.first === first ? 1 : pair.second === first ? -1 : 0) > 0;
    const pairs = rb.judged(ctx, chunk.pairs.filter((pair) => pair.protocol === ctx.protocol)).filter((pair) => pair.undone && leads(pair));
    for (const what of [...new Set(pairs.map((pair) => pair.undone))].sort()) {
      const over = pairs.filter((pair) => pair.undone === what).map((pair) => rb.modelName(ctx, pair.first === first ? pair.second : pair.first));
      headline.append(` ${what[0].toUpperCase()}${what.slice(1)} could undo its lead over ${over.join(", ")}.`);
    }
  }

  /** The board, and where it leaves other measures than the summary apart, those too when one is chosen. */
  async function boardOf(ctx) {
    const chunk = await rb.load(`${ctx.board.id}/board`);
    if (!ctx.board.rows_apart || ctx.measure.name === ctx.summary) {
      return chunk;
    }
    const apart = await rb.load(`${ctx.board.id}/rows`);
    return { ...chunk, rows: [...chunk.rows, ...apart.rows] };
  }

  async function build(ctx) {
    const chunk = await boardOf(ctx);
    const all = leaderboard.lines(ctx, chunk);
    const printed = all.flatMap((line) => (line.printed ? [line.printed] : line.published));
    const elsewhere = chunk.published.some((one) => one.metric === ctx.measure.name && one.slice.level === "overall");
    const remarks = [...new Set(all.map((line) => line.main?.remark).filter(Boolean))]
      .map((remark) => {
        const about = all.filter((line) => line.main?.remark === remark).map((line) => rb.modelName(ctx, line.model));
        return `${about.length > 3 && about.length === ctx.board.models.length ? "all models" : about.join(", ")}: ${remark}`;
      });
    const bounded = all.some((line) => line.main?.bounds && leaderboard.leftOpen(line.main) > 0);
    const headline = ctx.board.audit ? null : leaderboard.headline(ctx, all); // a change that leads is nobody's merit
    addDoubt(ctx, all, headline);
    const scored = all.some((line) => !line.printed && line.value !== null);
    const papers = all.filter((line) => line.printed);
    const node = h("div", { class: "page overview" }, h("h1", { class: "offscreen" }, "Overview"),
      ctx.board.audit && h("p", { class: "callout" }, "This run is an audit of judges: its models are clean and changed outputs. ", h("a", { href: route.to("audit") }, "What the judges see, and what fools them")),
      headline, !ctx.board.audit && rb.looks(ctx, chunk),
      controls.bar(controls.protocols(ctx), controls.judges(ctx), controls.measures(ctx),
        elsewhere && controls.choice("published", "Published", [{ value: "yes", text: "shown" }, { value: "no", text: "hidden" }], ctx.params.get("published") ?? "yes", { otherwise: "yes" })),
      h("p", { class: "measured" }, rb.measuredBy(ctx, all.map((line) => line.main).filter(Boolean))),
      scored ? [leaderboard.draw(ctx, all), legend(ctx, printed, bounded)] : [rb.nothingScored(ctx, all, chunk), papers.length > 0 && leaderboard.draw(ctx, papers)],
      remarks.length > 0 && h("ul", { class: "remarks" }, remarks.map((text) => h("li", {}, rb.said(ctx, ends(text))))),
      scored && rb.plots(ctx, chunk), changes(ctx, chunk), painting(ctx, chunk),
      chunk.notes.length > 0 && rb.section("Notes", h("ul", { class: "remarks" }, chunk.notes.map((text) => h("li", {}, rb.said(ctx, ends(text)))))),
      h("p", { class: "next" }, h("a", { href: route.to("cases") }, `Look at the ${format.count(ctx.board.n_cases, "case")} behind these numbers`)));
    return { node };
  }

  rb.pages.overview = { title: "Overview", build };
})();
