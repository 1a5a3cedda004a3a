/** One case: instruction and references on the left, the models across, scores and words under each picture. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, controls } = rb;

  /** Models that the address names, else all. */
  function chosenModels(ctx) {
    const all = rb.ordered(ctx);
    const wanted = (ctx.params.get("models") ?? "").split(",").filter((text) => /^\d+$/.test(text)).map(Number).filter((model) => model < all.length);
    return wanted.length ? all.filter((model) => wanted.includes(model)) : all;
  }

  const CHIPS = 6;

  /** Which models are shown: chips of a few, a menu of many. */
  function modelChips(ctx, models) {
    const all = rb.ordered(ctx);
    if (all.length < 2) {
      return null;
    }
    const link = (number) => {
      const on = models.includes(number);
      const next = on ? models.filter((one) => one !== number) : [...models, number].sort((a, b) => a - b);
      const every = next.length === 0 || next.length === all.length;
      return h("a", { id: `model-${number}`, href: route.changed({ models: every ? null : next.join(",") }), "aria-current": on ? "true" : null }, rb.label(ctx, number));
    };
    if (all.length <= CHIPS) {
      return h("div", { class: "chips models", role: "group", "aria-label": "Models shown" }, all.map(link));
    }
    const shut = () => { document.getElementById("models-menu").open = false; };
    const some = (number) => h("a", { on: { click: shut }, href: route.changed({ models: number === all.length ? null : all.slice(0, number).join(",") }) }, number === all.length ? "all" : `best ${number}`);
    return h("details", { class: "menu models", id: "models-menu", open: document.getElementById("models-menu")?.open ?? false },
      h("summary", { id: "models-summary" }, `Models: ${models.length === all.length ? "all" : `${models.length} of`} ${all.length}`),
      h("div", { class: "sheet" }, h("p", { class: "links" }, [4, 8, all.length].filter((n, i) => i === 2 || n < all.length).map(some)), h("div", { class: "chips", role: "group", "aria-label": "Models shown" }, all.map(link))));
  }

  function pictureList(title, list, prefix, hint) {
    const name = prefix === "ref" ? rb.givenName : (_, i) => `target ${i + 1}`;
    return list.length > 0 && h("div", { class: "references" }, h("h3", {}, title, hint && h("small", {}, hint)), h("ol", {}, list.map((picture, i) => h("li", {},
      rb.pictureButton(picture, name(picture, i), `${prefix}-${i}`, { sizes: list.length > 1 ? "150px" : "300px" }),
      h("p", {}, h("span", { class: "role" }, format.label(name(picture, i))), picture.name && h("small", { class: "file" }, picture.name))))));
  }

  function left(ctx, one, notes) {
    return h("aside", { class: "task" },
      h("h2", { class: "offscreen" }, "Task"),
      h("p", { class: "instruction", dir: "auto" }, one.instruction || h("em", {}, "(no instruction)")),
      h("p", { class: "groups" }, Object.entries(one.groups).map(([name, value]) => h("a", { class: "tag", title: format.words(name), href: route.to("cases", { params: { [`g.${name}`]: value } }) }, value)),
        one.tags.map((tag) => h("a", { class: "tag", href: route.to("cases", { params: { q: tag } }) }, tag))),
      pictureList(one.references.some((picture) => ["source", "mask"].includes(picture.role)) ? "Pictures given" : "References", one.references, "ref", ""),
      pictureList("Targets", one.targets, "target", "models do not see these"),
      notes.node);
  }

  /** Which references it uses and which one is missing, by who says so. */
  function references(output) {
    return Object.entries(output.references ?? {}).map(([by, said]) => h("p", { class: "references", dir: "auto" }, said, h("small", { class: "quiet" }, ` (${by})`)));
  }

  function made(output) {
    const facts = [output.seconds !== null && ["time", format.seconds(output.seconds)], output.cost_usd !== null && ["price", format.dollars(output.cost_usd)], ...Object.entries(output.provenance ?? {})].filter(Boolean);
    return facts.length > 0 && rb.more("How it was made", h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, format.words(name)), h("dd", { dir: "auto" }, value)])));
  }

  function pictures(ctx, output, name, sizes) {
    if (output.failure) {
      return rb.failureBox(ctx, output.failure, "No picture");
    }
    return output.pictures.map((picture, i) => rb.pictureButton(picture, output.pictures.length > 1 ? `${name}, picture ${i + 1}` : name, rb.pictureKey(output, i), { sizes }));
  }

  /** Small pictures in a row: the steps of an agent, or the other seeds. */
  function strip(ctx, title, outputs, label) {
    return outputs.length > 0 && h("div", { class: "strip" }, h("h4", {}, title), h("ol", {}, outputs.map((output) => h("li", {},
      output.failure ? h("span", { class: "absent small", title: output.failure.detail }, `✕ ${format.words(output.failure.kind)}`) : output.pictures.map((picture, i) => rb.pictureButton(picture, label(output), rb.pictureKey(output, i), { small: true })),
      h("small", {}, label(output))))));
  }

  function column(ctx, one, model, current, value, { pictured, shown }) {
    const sizes = `(max-width: 760px) 92vw, max(190px, calc((100vw - 420px) / ${shown}))`;
    const name = rb.modelName(ctx, model);
    const mine = one.outputs.filter((output) => output.model === model);
    const seeds = [...new Set(mine.map((output) => output.seed))].sort((a, b) => a - b);
    const asked = Number(ctx.params.get("seed") ?? NaN);
    const seed = seeds.includes(asked) ? asked : seeds[0];
    const main = mine.find((output) => output.seed === seed && output.step === null);
    const steps = mine.filter((output) => output.seed === seed && output.step !== null).sort((a, b) => a.step - b.step);
    const others = mine.filter((output) => output.seed !== seed && output.step === null);
    const { digits } = rb.measureOf(ctx, ctx.summary);
    return h("article", { class: current ? "model current" : "model", id: `column-${model}`, "aria-label": name },
      h("header", {}, h("h3", {}, rb.label(ctx, model)),
        h("p", { class: "total" }, h("span", { title: rb.measureTitle(rb.measureOf(ctx, ctx.summary)) }, format.words(ctx.summary)), value.failed ? h("strong", { class: "bad" }, `✕ ${format.words(value.failed)}`) : h("strong", {}, value.waits ? "not asked yet" : format.number(value.value, digits)))),
      pictured && h("div", { class: "pictures" }, main ? pictures(ctx, main, name, sizes) : h("div", { class: "absent" }, h("span", {}, "no picture of this model"))),
      main && references(main),
      strip(ctx, "Steps", steps, (output) => `step ${output.step + 1}`),
      strip(ctx, "Other seeds", others, (output) => `seed ${output.seed}`),
      rb.scoreList(ctx, one, model), rb.replies(ctx, one, model), main && made(main));
  }

  function switcher(models, current, ctx) {
    return models.length > 1 && h("nav", { class: "switch", "aria-label": "Model" }, models.map((model) => h("a", {
      id: `at-${model}`, href: route.changed({ at: model }), "aria-current": model === current ? "true" : null,
    }, rb.label(ctx, model))));
  }

  function beside(ctx, index, selection, position) {
    const place = selection.positions.indexOf(position);
    // Whoever looks closely keeps doing so from case to case.
    const keep = Object.fromEntries(ctx.params);
    const link = (at) => (selection.positions[at] === undefined ? null : route.to("case", { rest: index.ids[selection.positions[at]], params: keep }));
    return { place, before: place < 0 ? null : link(place - 1), after: place < 0 ? link(0) : link(place + 1), total: selection.positions.length };
  }

  function bar(ctx, id, around) {
    const back = Object.fromEntries([...ctx.params].filter(([name]) => !["models", "at", "seed", "zoom", "with", "mode"].includes(name)));
    const step = (address, text, label, key) => (address ? h("a", { href: address, class: "quiet", id: `go-${key}`, title: `${label} (${key})` }, text) : h("span", { class: "quiet off" }, text));
    return h("div", { class: "case-bar" },
      h("a", { href: route.to("cases", { params: back }), class: "back" }, "← Cases"), h("h1", { class: "id" }, id),
      h("span", { class: "around" }, step(around.before, "‹ Previous", "Previous case", "k"),
        h("span", { class: "tally" }, around.place < 0 ? "not in this list" : `${format.whole(around.place + 1)} of ${format.whole(around.total)}`), step(around.after, "Next ›", "Next case", "j")),
      h("button", { type: "button", class: "quiet", id: "copy-link", on: { click: () => rb.copy(location.href, "link") } }, "Copy link"));
  }

  function scoreOf(ctx, value) {
    const text = value.failed ? `✕ ${format.words(value.failed)}` : value.waits ? "not asked yet" : format.number(value.value, rb.measureOf(ctx, ctx.summary).digits);
    return `${format.words(ctx.summary)} ${text}`;
  }

  async function build(ctx) {
    const id = ctx.route.rest;
    const index = await rb.caseIndex(ctx.board);
    const position = index.at.get(id);
    if (position === undefined) {
      return { node: h("div", { class: "page" }, h("h1", {}, "No such case"), rb.note(`There is no case ${id} here. `, h("a", { href: route.to("cases") }, "See all cases"))) };
    }
    const one = await rb.caseAt(ctx.board, position);
    const notes = rb.caseNotes(ctx, id);
    let said = () => "";
    const viewer = new rb.Viewer(rb.gallery(ctx, one), one.instruction, (model) => said(model));
    const node = h("div", { class: "page one-case" });
    let around = null;

    function update(next) {
      const selection = rb.select(next, index);
      const models = chosenModels(next);
      const at = Number(next.params.get("at") ?? NaN);
      const current = models.includes(at) ? at : models[0];
      around = beside(next, index, selection, position);
      const pictured = one.outputs.some((output) => models.includes(output.model));
      const valueOf = (model) => ({ value: selection.found.values[model]?.[position] ?? null, failed: selection.found.failed[model]?.[position] ?? null, waits: selection.found.waiting[model]?.has(position) ?? false });
      rb.keepingFocus(() => node.replaceChildren(bar(next, id, around),
        ...[controls.bar(controls.protocols(next), controls.judges(next), modelChips(next, models))].filter(Boolean), h("p", { class: "measured" }, rb.measuredBy(next, [])),
        h("div", { class: "side-by-side" }, left(next, one, notes), h("div", { class: "models-area" }, switcher(models, current, next),
          !pictured && rb.note("The run has what the judges said, not the pictures themselves."),
          h("div", { class: pictured ? "columns" : "columns wordy", tabindex: "0", role: "region", "aria-label": "Models side by side", style: { "--shown": String(models.length) } }, models.map((model) => column(next, one, model, model === current, valueOf(model), { pictured, shown: models.length }))))),
        ...[rb.questionTable(next, one, models)].filter(Boolean)));
      said = (model) => scoreOf(next, valueOf(model));
      viewer.follow(next.params, models);
      rb.caseAt(ctx.board, selection.positions[around.place + 1] ?? position).catch(() => {});
    }

    node.addEventListener("click", (event) => {
      const button = event.target.closest("[data-picture]");
      if (button) {
        route.replace(route.changed({ zoom: button.dataset.picture, with: null, mode: null }));
      }
    });

    /** The two pictures to flip: the first two models shown, or a model and a reference. */
    function flip() {
      if (viewer.dialog.open) {
        viewer.flip();
        return;
      }
      const shown = chosenModels(rb.context(ctx.site, route.read()));
      const of = shown.map((model) => viewer.entries.find((entry) => entry.model === model)).filter(Boolean);
      const pair = [...new Set([...of, ...viewer.entries])].slice(0, 2);
      if (pair.length === 2) {
        route.replace(route.changed({ zoom: pair[0].key, with: pair[1].key, mode: "flip" }));
      }
    }

    const keys = {
      j: () => around?.after && route.go(around.after), k: () => around?.before && route.go(around.before), f: flip, s: () => notes.toggle(),
      "/": () => route.go(route.to("cases")),
    };
    return {
      node, update, opened: () => update(ctx), close: () => { notes.close(); viewer.dialog.close(); viewer.dialog.remove(); },
      get keys() { return viewer.dialog.open ? { ...viewer.keys(), s: keys.s, j: keys.j, k: keys.k } : keys; },
    };
  }

  Object.assign(rb, { chosenModels, modelChips });
  rb.pages.case = { title: "Case", build };
})();
