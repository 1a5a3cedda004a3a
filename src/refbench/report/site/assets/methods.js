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

  async function build(ctx) {
    const chunk = await rb.load(`${ctx.board.id}/board`);
    const { board, site } = ctx;
    const runs = [...new Set(board.models.map((model) => model.run))].filter(Boolean);
    const node = h("div", { class: "page methods" }, h("h1", { class: "offscreen" }, "Methods"),
      rb.section("What these numbers are", h("dl", { class: "facts" },
        h("dt", {}, "benchmark"), h("dd", {}, board.title), board.paper && [h("dt", {}, "paper"), h("dd", {}, board.paper)],
        h("dt", {}, "cases"), h("dd", {}, format.whole(board.n_cases) + (board.subset ? `, subset ${board.subset}` : "")),
        h("dt", {}, "models"), h("dd", {}, board.models.map((model) => model.name).join(", ")), runs.length > 0 && [h("dt", {}, "runs"), h("dd", {}, runs.join(", "))],
        h("dt", {}, "judges"), h("dd", {}, rb.judgesSaid(board) || "none"), h("dt", {}, "protocols"), h("dd", {}, board.protocols.join(", ")),
        h("dt", {}, "written by"), h("dd", {}, `RefBench ${site.version}`))),
      rb.section("Fingerprint", h("p", {}, h("code", { class: "fingerprint" }, board.fingerprint), " ", rb.copyButton(board.fingerprint, "fingerprint")),
        rb.note("Two tables may be compared as they are only where their fingerprints are equal."), value(chunk.fingerprint_parts)),
      chunk.faults.length > 0 && rb.section("Faults of the released code that “corrected” avoids", rb.table([{ title: "Fault", wide: true }, { title: "paper" }, { title: "corrected" }], chunk.faults.map((one) => [one.fault, one.paper ?? format.NONE, one.effect]), { caption: "Faults", className: "prose" })),
      chunk.prompts.length > 0 && rb.section("What the judges were asked", chunk.prompts.map((one) => rb.more(one.title, rb.copyButton(one.text, "prompt"), rb.verbatim(one.text)))),
      rb.section("Kinds of failure", h("dl", { class: "facts" }, Object.entries(site.failure_kinds).map(([kind, said]) => [h("dt", {}, format.words(kind)), h("dd", {}, said)]))));
    return { node };
  }

  rb.pages.methods = { title: "Methods", build };
})();
