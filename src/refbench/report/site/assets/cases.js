/** The case browser: filters, search and order above a list that is drawn on demand. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, controls } = rb;
  const TYPING_MS = 120;

  const FILTERS = [
    { value: "", text: "All", why: () => "" },
    { value: "failures", text: "Failures", why: () => "Cases in which the chosen measure has no value, with the kind of failure." },
    { value: "models", text: "Models disagree", why: (wide) => `Best and worst model at least ${format.percent(wide)} of the scale apart, widest first.` },
    { value: "judges", text: "Judges disagree", why: (wide) => `Two judges at least ${format.percent(wide)} of the scale apart on some model, widest first.` },
    { value: "loss", text: "Biggest loss against", why: () => "Cases that the first model loses to the second, biggest loss first." },
    { value: "near_source", text: "Nearly the source", why: () => "Outputs that are nearly equal to the source picture." },
    { value: "near_reference", text: "Nearly a reference", why: () => "Outputs that are nearly equal to a reference." },
    { value: "starred", text: "★ Starred", why: () => "Cases that you starred." },
    { value: "noted", text: "With notes", why: () => "Cases with a tag or a comment." },
  ];

  function offered(ctx, index) {
    const flagged = (bit) => index.flags.some((column) => column.some((bits) => bits & bit));
    const hidden = {
      judges: ctx.judges.length < 2, models: ctx.board.models.length < 2, loss: ctx.board.models.length < 2,
      near_source: !flagged(1), near_reference: !flagged(2),
    };
    return FILTERS.filter((one) => !hidden[one.value] || one.value === ctx.params.get("filter"));
  }

  function menu(name, title, options, now) {
    return h("label", { class: "choice" }, h("span", {}, title),
      h("select", { id: `choose-${name}`, on: { change: (event) => route.go(route.changed({ [name]: event.target.value })) } },
        options.map((one) => h("option", { value: one.value, selected: String(one.value) === String(now ?? "") }, one.text))));
  }

  /** Whether a group of the benchmark says how many references a case has: then one filter is enough. */
  function isCount(index, group) {
    return index.references.every((n, i) => group.of[i] < 0 || group.names[group.of[i]].replace(/\D/g, "") === String(n));
  }

  function menus(ctx, index, selection) {
    const { want } = selection;
    const models = rb.ordered(ctx).map((value) => ({ value, text: `${rb.letterOf(ctx, value)}  ${rb.modelName(ctx, value)}` }));
    const kinds = [...new Set(selection.found.failed.flat().filter(Boolean))].sort();
    const loss = want.filter === "loss" || want.sort === "loss";
    const counts = [...new Set(index.references)].sort((a, b) => a - b);
    const tags = rb.annotations.tags(ctx.board.id);
    const groups = Object.entries(index.groups).filter(([, group]) => group.names.length > 1);
    return [
      ctx.board.models.length > 1 && (loss
        ? menu("model", "Model", models, selection.found.first)
        : menu("model", "Model", [{ value: "", text: "any" }, ...models], want.model)),
      loss && menu("against", "against", models, selection.found.second),
      want.filter === "failures" && kinds.length > 1 && menu("kind", "Kind", [{ value: "", text: "any" }, ...kinds.map((value) => ({ value, text: format.words(value) }))], want.kind),
      groups.map(([name, group]) => menu(`g.${name}`, format.label(name), [{ value: "", text: "any" }, ...[...group.names].sort().map((value) => ({ value, text: value }))], ctx.params.get(`g.${name}`))),
      counts.length > 1 && !groups.some(([, group]) => isCount(index, group)) && menu("refs", "References", [{ value: "", text: "any" }, ...counts.map((value) => ({ value, text: value }))], want.references),
      tags.length > 0 && menu("tag", "Your tag", [{ value: "", text: "any" }, ...tags.map((value) => ({ value, text: value }))], want.tag),
      menu("sort", "Order", [
        { value: "", text: "as usual" }, { value: "worst", text: "worst first" }, { value: "best", text: "best first" },
        ctx.board.models.length > 1 && { value: "models", text: "models apart" }, ctx.judges.length > 1 && { value: "judges", text: "judges apart" },
        ctx.board.models.length > 1 && { value: "loss", text: "biggest loss" }, counts.length > 1 && { value: "references", text: "most references" }, { value: "id", text: "by name" },
      ].filter(Boolean), want.sort),
    ];
  }

  function toolbar(ctx, index, selection) {
    const now = selection.want.filter;
    const narrowed = [...ctx.params.keys()].some((name) => !["protocol", "judge", "measure", "models"].includes(name));
    const why = FILTERS.find((one) => one.value === now)?.why(selection.wide);
    const total = selection.positions.length;
    return [
      h("nav", { class: "chips", "aria-label": "Filters" }, offered(ctx, index).map((one) => h("a", {
        id: `filter-${one.value || "all"}`, href: route.changed({ filter: one.value, kind: null }), "aria-current": one.value === now ? "true" : null,
      }, one.text))),
      controls.bar(controls.protocols(ctx), controls.judges(ctx), menus(ctx, index, selection), rb.modelChips(ctx, rb.chosenModels(ctx))),
      h("p", { class: "measured" }, `${format.words(ctx.summary)} · ${rb.measuredBy(ctx, [])}`),
      h("p", { class: "tally", "aria-live": "polite" },
        h("strong", { id: "tally" }, total === index.ids.length ? format.count(total, "case") : `${format.whole(total)} of ${format.count(index.ids.length, "case")}`),
        why && ` ${why}`, narrowed && h("a", { href: route.to("cases"), class: "quiet" }, "Show all")),
    ];
  }

  function searchField(ctx) {
    let typing = 0;
    const input = h("input", {
      type: "search", id: "search", placeholder: "Search instructions, groups, ids, judges’ words: all words, \"a phrase\", -not", "aria-label": "Search", autocomplete: "off", spellcheck: "false",
      value: ctx.params.get("q") ?? "",
      on: {
        input: () => {
          clearTimeout(typing);
          typing = setTimeout(() => route.replace(route.changed({ q: input.value })), TYPING_MS);
        },
      },
    });
    return input;
  }

  async function build(ctx) {
    const index = await rb.caseIndex(ctx.board);
    const rows = new rb.CaseRows(ctx.board);
    const search = searchField(ctx);
    const tools = h("div", { class: "tools" });
    const none = h("p", { class: "note", hidden: true }, "No case is like that.");
    const paper = h("p", { class: "note paper-only" });
    const node = h("div", { class: "page browser" }, h("h1", { class: "offscreen" }, "Cases"), h("div", { class: "searchbar" }, search, rb.annotations.exchange()), tools, rows.head, rows.list, paper, none);
    function update(next) {
      const selection = rb.select(next, index);
      if (document.activeElement !== search) {
        search.value = next.params.get("q") ?? "";
      }
      rb.keepingFocus(() => tools.replaceChildren(...toolbar(next, index, selection).filter(Boolean)));
      none.hidden = selection.positions.length > 0;
      rows.show(next, index, selection);
      return selection;
    }
    const keys = {
      j: () => rows.step(1),
      k: () => rows.step(-1),
      "/": () => search.focus(),
      s: () => {
        const id = rows.focused();
        if (id !== null) {
          const one = rb.annotations.of(ctx.board.id, id);
          rb.annotations.save({ ...one, star: !one.star });
          rb.keepingFocus(() => rows.show(rows.ctx, index, rows.selection));
        }
      },
    };
    const printing = () => { paper.textContent = rows.printed(); };
    const printed = () => rows.draw();
    window.addEventListener("beforeprint", printing);
    window.addEventListener("afterprint", printed);
    const close = () => {
      rows.close();
      window.removeEventListener("beforeprint", printing);
      window.removeEventListener("afterprint", printed);
    };
    return { node, keys, update, opened: () => update(ctx), close };
  }

  rb.pages.cases = { title: "Cases", build };
})();
