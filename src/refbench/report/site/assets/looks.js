/** Pictures first: the best, the worst and the most disputed case; and what to say where nothing has a value. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format } = rb;
  const WHY = { best: ["Best case", "highest mean of these models"], worst: ["Worst case", "lowest mean of these models"], disputed: ["Most disputed", "widest gap between these models, of the other cases"] };
  const SIDE = 320;

  /** A thumbnail in a square of its own; what is not there says why. */
  function tile(picture, alt, missing) {
    if (!picture?.thumb) {
      return h("span", { class: "tile none" }, h("span", {}, missing));
    }
    const scale = Math.min(1, SIDE / Math.max(picture.width, picture.height, 1));
    return h("span", { class: "tile" }, h("img", { src: picture.thumb, alt, width: Math.round(picture.width * scale), height: Math.round(picture.height * scale), loading: "lazy", decoding: "async" }));
  }

  function ofModel(ctx, one, digits) {
    const name = rb.modelName(ctx, one.model);
    const said = one.failed ? `✕ ${format.words(one.failed)}` : format.number(one.value, digits);
    return h("li", { title: `${name}: ${said}` }, tile(one.picture, `${name}: ${said}`, one.failed ? format.words(one.failed) : "no picture"),
      h("span", { class: "under" }, rb.badge(ctx, one.model), h("span", { class: one.failed ? "bad" : "value" }, one.failed ? "✕ failed" : said), h("bdi", { class: "name" }, rb.shortName(ctx, one.model))));
  }

  function card(ctx, look, digits) {
    const [title, why] = WHY[look.why];
    const address = route.to("case", { rest: look.case, params: { sort: { best: "best", worst: "worst", disputed: "models" }[look.why] } });
    return h("a", { class: "look", href: address },
      h("span", { class: "why" }, h("strong", {}, title), h("small", {}, why)),
      h("span", { class: "instruction", dir: "auto" }, look.instruction || "(no instruction)"),
      h("ul", {}, look.n_given > 0 && h("li", { class: "given" }, tile(look.given, "what the models were given", "not at hand"), h("span", { class: "under" }, h("span", { class: "quiet" }, look.n_given > 1 ? `given, 1 of ${look.n_given}` : "given"))),
        look.models.map((one) => ofModel(ctx, one, digits))));
  }

  /** Cases to look at first; none where there is no picture to show. */
  function looks(ctx, chunk) {
    const found = chunk.looks?.[`${ctx.protocol}/${ctx.judge}`] ?? chunk.looks?.[`${ctx.protocol}/${ctx.mute}`] ?? [];
    if (!found.some((look) => look.models.some((one) => one.picture))) {
      return null;
    }
    const { digits } = rb.measureOf(ctx, ctx.summary);
    const rest = ctx.board.models.length - found[0].models.length;
    return h("section", { class: "looks-area", "aria-label": "Cases to look at first" }, h("h2", { class: "offscreen" }, "Cases to look at first"),
      h("div", { class: "looks" }, found.map((look) => card(ctx, look, digits))),
      rest > 0 && rb.note(`By ${format.words(ctx.summary)}, of the ${found[0].models.length} models that lead; ${format.count(rest, "other")} in each case.`));
  }

  const REMEDY = {
    missing_reply: "Nobody has judged the pictures: run the same command again with a judge (--judge), or read replies that are there with refbench rescore.",
    not_measured: "The metric has not run: refbench doctor says which network is missing, refbench fetch brings it; then run the same command again.",
    missing_output: "The models have given no pictures: check the folder or the model that --model names.",
    api_error: "The endpoint could not be reached or answered with an error: refbench doctor tries one call; the same command tries again what failed.",
    timeout: "No answer came in time: the same command tries again what failed.",
    worker_died: "The process that worked on it died: the same command tries again what failed.",
    budget: "The budget was spent before: run again with a larger --budget.",
    machine_error: "This machine could not read it: mend what the detail says; the same command tries again.",
    refused: "Judge or model declined: look at the replies, or ask another judge.",
    unparsable: "There are replies, but no answer can be read from them: look at one, and choose a judge or wording that keeps to the form.",
    unsupported: "The models cannot take such requests: give --references collage or truncate, or leave these cases out.",
    unreadable_picture: "The pictures are empty or broken: refbench verify names them.",
  };

  /** What happened where there is no value at all, and what to do. */
  function nothingScored(ctx, all, chunk) {
    const own = all.filter((line) => !line.printed);
    const failures = {};
    let waiting = 0;
    for (const { main } of own) {
      waiting += main.n_not_asked;
      Object.entries(main.failures).forEach(([kind, n]) => { failures[kind] = (failures[kind] ?? 0) + n; });
    }
    const kinds = Object.entries(failures).sort((a, b) => b[1] - a[1]);
    const pictures = chunk.painting.reduce((sum, one) => sum + one.n, 0);
    const expected = own.reduce((sum, { main }) => sum + main.n_expected, 0);
    const what = [
      pictures > 0 ? `${format.count(pictures, "picture")} ${pictures === 1 ? "is" : "are"} there` : "there are no pictures yet",
      waiting > 0 && `${format.whole(waiting)} ${waiting === 1 ? "has" : "have"} not been asked for yet`,
      kinds.length > 0 && format.failures(failures),
    ].filter(Boolean).join("; ");
    return h("section", { class: "panel nothing" }, h("h2", {}, "Nothing has a value yet"),
      h("p", {}, own.length ? `Of ${format.count(expected, "picture")} of ${format.count(own.length, "model")} none has ${format.words(ctx.measure.name)}: ${what}.` : `Nothing has been scored under ${ctx.protocol} by this judge: ${what}.`),
      h("dl", { class: "facts" }, kinds.map(([kind, n]) => [h("dt", {}, `${format.whole(n)} ${format.words(kind)}`), h("dd", {}, REMEDY[kind] ?? ctx.site.failure_kinds[kind] ?? "")]),
        waiting > 0 && [h("dt", {}, `${format.whole(waiting)} not asked yet`), h("dd", {}, "The run goes on with the same command: nothing that is there is asked for or paid for again.")]),
      h("p", {}, kinds.length > 0 && [h("a", { href: route.to("failures") }, "See what failed"), " · "], h("a", { href: route.to("cases") }, "Look at the cases")),
      own.length > 1 && rb.more("By model", rb.table([{ title: "Model" }, { title: "Scored" }], own.map(({ model, main }) => [rb.label(ctx, model), rb.charts.coverage(main)]), { caption: "Scored by model" })));
  }

  Object.assign(rb, { looks, nothingScored });
})();
