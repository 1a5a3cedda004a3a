/** How the numbers came about: fingerprint and its parts, prompts as sent, faults of released code, versions. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, format } = rb;

  function value(one) {
    if (one === null || one === undefined || one === "") {
      return h("span", { class: "quiet" }, "none");
    }
    if (Array.isArray(one)) {
      return one.length === 0 ? h("span", { class: "quiet" }, "none")
        : one.every((item) => typeof item !== "object") ? one.join(", ")
          : h("ol", { class: "parts" }, one.map((item) => h("li", {}, value(item))));
    }
    if (typeof one === "object") {
      if (!Object.keys(one).length) {
        return h("span", { class: "quiet" }, "none");
      }
      return h("dl", { class: "facts" }, Object.entries(one).map(([name, inner]) => [h("dt", {}, format.words(name)), h("dd", { dir: "auto" }, value(inner))]));
    }
    return String(one);
  }

  const paperOf = (board) => (board.address ? h("a", { href: board.address, rel: "noreferrer" }, board.paper) : board.paper);

  async function build(ctx) {
    const chunk = await rb.load(`${ctx.board.id}/board`);
    const { board, site } = ctx;
    const runs = [...new Set(board.models.map((model) => model.run))].filter(Boolean);
    const node = h("div", { class: "page methods" }, h("h1", { class: "offscreen" }, "Methods"),
      rb.section("What these numbers are", h("dl", { class: "facts" },
        h("dt", {}, "benchmark"), h("dd", {}, board.title), board.paper && [h("dt", {}, "paper"), h("dd", {}, paperOf(board))],
        h("dt", {}, "cases"), h("dd", {}, format.whole(board.n_cases) + (board.subset ? `, subset ${board.subset}` : "")),
        h("dt", {}, "models"), h("dd", {}, rb.ordered(ctx).map((model) => rb.modelName(ctx, model)).join(", ")), runs.length > 0 && [h("dt", {}, "runs"), h("dd", {}, runs.join(", "))],
        h("dt", {}, "judges"), h("dd", {}, rb.judgesSaid(board) || "none"), h("dt", {}, "protocols"), h("dd", {}, board.protocols.join(", ")),
        h("dt", {}, "written by"), h("dd", {}, `RefBench ${site.version}`))),
      board.bibtex && rb.section("To cite", rb.note("Whoever publishes these numbers cites the benchmark's paper, with the fingerprint and the protocol."), h("p", {}, rb.copyButton(board.bibtex, "BibTeX")), rb.verbatim(board.bibtex)),
      rb.section("Measures", rb.table([{ title: "Measure" }, { title: "What it is", wide: true }, { title: "Range" }, { title: "Better" }], ctx.measures.map((one) => [
        format.words(one.name), one.about || h("span", { class: "quiet" }, "not described"), one.low === null || one.high === null ? "open" : `${format.plain(one.low)} to ${format.plain(one.high)}`, one.better,
      ]), { caption: "Measures", className: "prose" })),
      rb.section("Fingerprint", h("p", {}, h("code", { class: "fingerprint" }, board.fingerprint), " ", rb.copyButton(board.fingerprint, "fingerprint")),
        rb.note("Two tables may be compared as they are only where their fingerprints are equal."), value(chunk.fingerprint_parts)),
      chunk.faults.length > 0 && rb.section("Faults of the released code that “corrected” avoids", rb.table([{ title: "Fault", wide: true }, { title: "paper" }, { title: "corrected" }], chunk.faults.map((one) => [h("span", {}, rb.prose(one.fault)), one.paper === null || one.paper === undefined ? format.NONE : h("span", {}, rb.prose(one.paper)), h("span", {}, rb.prose(one.effect))]), { caption: "Faults", className: "prose" })),
      chunk.cards.length > 0 && rb.section("Judge cards", rb.note("What an audit of each judge in these words found. ", h("code", {}, "refbench audit show"), " has the whole card, and ", h("code", {}, "refbench view"), " of the audit's folder the pictures."),
        h("dl", { class: "facts" }, chunk.cards.map((one) => [h("dt", {}, h("bdi", {}, one.judge)), h("dd", { dir: "auto" }, `${one.said} `, h("code", {}, one.path))]))),
      chunk.prompts.length > 0 && rb.section("What the judges were asked", chunk.prompts.map((one) => rb.more(one.title, rb.copyButton(one.text, "prompt"), rb.verbatim(one.text)))),
      rb.section("Kinds of failure", h("dl", { class: "facts" }, Object.entries(site.failure_kinds).map(([kind, said]) => [h("dt", {}, format.words(kind)), h("dd", {}, said)]))));
    return { node };
  }

  Object.assign(rb, { paperOf });
  rb.pages.methods = { title: "Methods", build };
})();
