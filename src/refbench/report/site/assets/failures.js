/** What has no value and why: by kind, by slice, whether it depends on the model, and outputs that only copy. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, charts, controls } = rb;
  const FLAGGED = { near_source: "nearly equal to the source", near_reference: "nearly equal to a reference" };
  const FIRST = 20;
  const MOST_NAMED = 40;
  const MOST_MODELS = 8;

  function byKind(ctx, rows) {
    const kinds = [...new Set(rows.filter((row) => row.n > 0).map((row) => row.kind))];
    const models = [...new Set(rows.map((row) => row.model))].sort((a, b) => rb.placeOf(ctx, a) - rb.placeOf(ctx, b));
    if (!kinds.length) {
      return rb.note("Nothing failed.");
    }
    const body = models.map((model) => {
      const mine = rows.filter((row) => row.model === model);
      const expected = Math.max(...mine.map((row) => row.n_expected));
      const total = mine.reduce((sum, row) => sum + row.n, 0);
      return [rb.label(ctx, model), ...kinds.map((kind) => {
        const n = mine.find((row) => row.kind === kind)?.n ?? 0;
        return n ? h("a", { href: route.to("cases", { params: { filter: "failures", model, kind } }) }, format.whole(n)) : h("span", { class: "quiet" }, "0");
      }), h("strong", {}, `${format.whole(total)} of ${format.whole(expected)}`)];
    });
    return [
      rb.table([{ title: "Model" }, ...kinds.map((kind) => ({ title: format.words(kind), number: true })), { title: "failed", number: true }], body, { caption: "Failures by kind" }),
      rb.more("What the kinds mean", h("dl", { class: "facts" }, kinds.map((kind) => [h("dt", {}, format.words(kind)), h("dd", {}, ctx.site.failure_kinds[kind] ?? "")]))),
    ];
  }

  function bySlice(ctx, rows) {
    const levels = [...new Set(rows.map((row) => row.level))].filter((level) => level !== "overall");
    if (!levels.length) {
      return null;
    }
    const level = levels.includes(ctx.params.get("level")) ? ctx.params.get("level") : levels[0];
    const here = rows.filter((row) => row.level === level);
    const models = [...new Set(here.map((row) => row.model))].sort((a, b) => rb.placeOf(ctx, a) - rb.placeOf(ctx, b));
    const names = [...new Set(here.map((row) => row.name))];
    const body = names.map((name) => [name, ...models.map((model) => {
      const row = here.find((one) => one.model === model && one.name === name);
      return row ? charts.coverage(row) : format.NONE;
    })]);
    return rb.section("Coverage by slice",
      controls.bar(controls.choice("level", "Level", levels.map((value) => ({ value, text: format.words(value) })), level, { otherwise: levels[0] })),
      rb.table([{ title: format.words(level) }, ...models.map((model) => ({ title: rb.label(ctx, model) }))], body, { caption: `Scored of expected by ${format.words(level)}` }));
  }

  function flags(ctx, list, unchecked) {
    const there = list.filter((one) => one.n > 0);
    const rest = unchecked ? rb.note(unchecked) : null;
    if (!there.length) {
      return list.length || rest ? rb.section("Outputs that copy", list.length > 0 && rb.note("No output is nearly equal to its source or to a reference."), rest) : null;
    }
    return rb.section("Outputs that copy", rest, there.map((one) => h("div", { class: "flag" },
      h("p", {}, h("strong", {}, h("bdi", {}, rb.modelName(ctx, one.model))), `: ${format.whole(one.n)} of ${format.whole(one.of)} outputs ${FLAGGED[one.flag] ?? format.words(one.flag)}. `,
        h("a", { href: route.to("cases", { params: { filter: one.flag, model: one.model } }) }, "See them")),
      h("p", { class: "links" }, one.cases.slice(0, MOST_NAMED).map((id) => h("a", { href: route.to("case", { rest: id, params: { filter: one.flag, model: one.model } }) }, id)),
        one.cases.length > MOST_NAMED && h("span", { class: "quiet" }, `and ${format.whole(one.cases.length - MOST_NAMED)} more`)))));
  }

  /** One cause: how often and of which models, and one example with its detail folded. */
  function cause(ctx, one) {
    const [first] = one.models;
    const several = one.detail.trim() !== one.cause.trim();
    return h("article", { class: "cause" },
      h("h3", {}, h("span", { class: "count" }, format.whole(one.n)), h("span", { class: "kind" }, format.words(one.kind)), h("span", { class: "detail", dir: "auto" }, one.cause || ctx.site.failure_kinds[one.kind] || "no detail")),
      h("p", { class: "links" }, one.models.slice(0, MOST_MODELS).map(([model, n]) => h("a", { href: route.to("cases", { params: { filter: "failures", model, kind: one.kind } }) }, rb.label(ctx, model), " ", h("span", { class: "times" }, format.whole(n)))),
        one.models.length > MOST_MODELS && h("span", { class: "quiet" }, `and ${format.count(one.models.length - MOST_MODELS, "model")} more`)),
      h("p", { class: "example" }, "For example ", h("a", { href: route.to("case", { rest: one.case, params: { filter: "failures", model: one.model, at: one.model } }) }, one.case), ` of `, h("bdi", {}, rb.shortName(ctx, first ? one.model : 0)), `, ${rb.judgeName(ctx, one.judge)}, seed ${one.seed}: `,
        one.metrics.length > 3 ? format.count(one.metrics.length, "measure") : one.metrics.map(format.words).join(", ")),
      several && rb.more(/^Traceback /m.test(one.detail) ? "Traceback" : "The whole of it", rb.verbatim(one.detail)));
  }

  function causes(ctx, list, total) {
    const rows = list.filter((one) => one.protocol === ctx.protocol && (one.judge === ctx.judge || one.judge === ctx.mute));
    if (!rows.length) {
      return null;
    }
    const kinds = [...new Set(rows.map((one) => one.kind))];
    const kind = kinds.includes(ctx.params.get("kind")) ? ctx.params.get("kind") : "";
    const chosen = rows.filter((one) => !kind || one.kind === kind);
    const all = ctx.params.get("all") === "yes";
    const shown = chosen.slice(0, all ? undefined : FIRST);
    return rb.section("By cause",
      controls.bar(controls.choice("kind", "Kind", [{ value: "", text: "all" }, ...kinds.map((value) => ({ value, text: format.words(value) }))], kind, { otherwise: "" })),
      rb.note(`Failures of the same kind and with the same words stand together, most first; one example of each. Counts are of pictures, under ${ctx.protocol}.`, total > list.length && ` ${format.count(total - list.length, "rarer cause")} not shown.`),
      h("div", { class: "causes" }, shown.map((one) => cause(ctx, one))),
      chosen.length > shown.length && h("p", {}, h("a", { href: route.changed({ all: "yes" }) }, `Show all ${format.whole(chosen.length)}`)));
  }

  async function build(ctx) {
    const chunk = await rb.load(`${ctx.board.id}/failures`);
    const mine = (rows) => rb.judged(ctx, rows.filter((row) => row.protocol === ctx.protocol));
    const metrics = [...new Set(mine(chunk.by_kind).map((row) => row.metric))];
    const metric = metrics.includes(ctx.params.get("measure")) ? ctx.params.get("measure") : metrics.includes(ctx.summary) ? ctx.summary : metrics[0];
    const tests = mine(chunk.test);
    const node = h("div", { class: "page" },
      h("h1", { class: "offscreen" }, "Failures"),
      h("p", { class: "headline" }, "A failure is a state, never a number: it lowers coverage and widens the bounds, and no average contains it."),
      controls.bar(controls.protocols(ctx), controls.judges(ctx), controls.choice("measure", "Measure", metrics.map((value) => ({ value, text: format.words(value) })), metric, { otherwise: ctx.summary })),
      h("p", { class: "measured" }, rb.measuredBy(ctx, mine(chunk.by_slice))),
      rb.section("By kind", byKind(ctx, mine(chunk.by_kind).filter((row) => row.metric === metric))),
      causes(ctx, chunk.causes, chunk.n_causes),
      tests.length > 0 && rb.section("Do failures depend on the model?", tests.map((one) => h("p", {}, rb.said(ctx, format.label(one.statement)), one.p !== null && one.p !== undefined && !/\bp [=<]/.test(one.statement) && h("span", { class: "quiet" }, ` p ${one.p < 0.001 ? "" : "= "}${format.pValue(one.p)}`)))),
      bySlice(ctx, mine(chunk.by_slice)), flags(ctx, chunk.flags, chunk.unchecked));
    return { node };
  }

  rb.pages.failures = { title: "Failures", build };
})();
