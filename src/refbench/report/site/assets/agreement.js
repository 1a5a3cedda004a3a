/** Whether judges agree with each other and with people, and what the spread of the scores is made of. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, format, controls } = rb;
  const FIGURES = ["pearson", "spearman", "kendall", "mse", "mae", "kappa", "qwk", "alpha", "icc"];
  const TITLES = { mse: "MSE", mae: "MAE", kappa: "Cohen’s κ", qwk: "κ, quadratic", alpha: "Krippendorff’s α", icc: "ICC", pearson: "Pearson", spearman: "Spearman", kendall: "Kendall" };

  /** A figure with its interval; where there is none, the reason is in the title. */
  function figure(one, missing) {
    return one === null || one === undefined || one.value === null ? h("span", { title: missing ?? null }, format.NONE)
      : h("span", {}, format.number(one.value, 3), one.ci95 && h("small", {}, format.interval(one.ci95, 2)));
  }

  function name(ctx, who) {
    return typeof who === "number" ? rb.judgeName(ctx, who) : String(who);
  }

  function pairs(ctx, list) {
    if (!list.length) {
      const judges = ctx.board.judges.filter((judge, n) => judge !== null && ctx.board.judge_titles[n] === judge).length;
      const there = judges === 0 ? "No judge was asked" : judges === 1 ? "There is one judge" : "No two judges have marked the same pictures";
      return rb.note(rb.prose(`${there}, and there is no table of people’s scores, so there is nothing to agree with. ${judges ? "A second judge" : "Two judges"}, or \`refbench agree\` with people’s scores, ${judges ? "fills" : "fill"} this page.`));
    }
    const pick = (key, title) => {
      const values = [...new Set(list.map((one) => one[key] ?? ""))];
      const now = values.includes(ctx.params.get(key) ?? "") && ctx.params.has(key) ? ctx.params.get(key) : values[0];
      return { key, now, control: controls.choice(key, title, values.map((value) => ({ value, text: format.words(value || "all") })), now, { otherwise: values[0] }) };
    };
    const picks = [pick("level", "Level")];
    const rows = list.filter((one) => picks.every(({ key, now }) => (one[key] ?? "") === now));
    const shown = FIGURES.filter((key) => rows.some((one) => one[key] !== null && one[key] !== undefined));
    const grouped = rows.some((one) => one.group);
    return [
      controls.bar(picks.map((one) => one.control)),
      rb.table([{ title: "Between" }, { title: "Measure" }, grouped && { title: "Group" }, { title: "n", number: true }, ...shown.map((key) => ({ title: TITLES[key], number: true }))].filter(Boolean),
        rows.map((one) => [`${name(ctx, one.first)} and ${name(ctx, one.second)}`, format.words(one.metric ?? "all"), grouped && (one.group || "all"), format.whole(one.n), ...shown.map((key) => figure(one[key], one.missing?.[key]))].filter((cell) => cell !== false)), { caption: "Agreement, with 95 % intervals" }),
      rb.note("Small figures are 95 % intervals.", shown.includes("kappa") && rows.some((one) => one.bins) && ` For κ, scores are put into ${[...new Set(rows.map((one) => one.bins).filter(Boolean))].join("; ")}.`),
    ];
  }

  function components(ctx, list) {
    if (!list.length) {
      return null;
    }
    const rows = list.map((one) => [
      [one.model === null || one.model === undefined ? "all models" : rb.modelName(ctx, one.model), one.judge === null || one.judge === undefined ? "" : name(ctx, one.judge)].filter(Boolean).join(", "),
      format.words(one.metric ?? ""), format.words(one.source),
      h("span", { class: "coverage" }, h("span", { class: "figures" }, format.percent(one.share ?? 0)), h("span", { class: "bar", "aria-hidden": "true" }, h("span", { style: { width: `${100 * Math.min(1, Math.max(0, one.share ?? 0))}%` } }))),
      typeof one.variance === "number" ? one.variance.toPrecision(3) : format.NONE, typeof one.buys === "number" ? format.percent(one.buys) : (one.buys ?? format.NONE),
    ]);
    return rb.section("Where the spread comes from",
      rb.note("Shares of the variance of single scores, and by how much one more of each would narrow the interval."),
      rb.table([{ title: "Of" }, { title: "Measure" }, { title: "Source" }, { title: "Share" }, { title: "Variance", number: true }, { title: "One more buys", number: true }], rows, { caption: "Variance components" }));
  }

  async function build(ctx) {
    const chunk = await rb.load(`${ctx.board.id}/agreement`);
    const node = h("div", { class: "page" }, h("h1", { class: "offscreen" }, "Agreement"),
      rb.section("Judges and people", pairs(ctx, chunk.pairs)), components(ctx, chunk.components),
      chunk.notes.length > 0 && rb.section("Notes", h("ul", { class: "remarks" }, chunk.notes.filter((text) => chunk.pairs.length || !/needs at least two/.test(text)).map((text) => h("li", {}, rb.said(ctx, text))))));
    return { node };
  }

  rb.pages.agreement = { title: "Agreement", build };
})();
