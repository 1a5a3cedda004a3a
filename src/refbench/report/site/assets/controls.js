/** Switches that are links: each choice is an address, so it can be opened, sent and gone back from. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route } = rb;
  const MOST_LINKS = 5;

  /** One choice of several under a name; `options` are `{value, text}`, and `value` of the chosen one is `now`. */
  function choice(name, title, options, now, { otherwise = null } = {}) {
    if (options.length < 2) {
      return null;
    }
    const address = (value) => route.changed({ [name]: value === otherwise ? null : value });
    const long = options.length > MOST_LINKS || options.reduce((sum, one) => sum + String(one.text).length, 0) > 60;
    if (long) {
      const select = h("select", { id: `choose-${name}`, on: { change: (event) => route.go(address(event.target.value)) } },
        options.map((one) => h("option", { value: one.value, selected: String(one.value) === String(now) }, one.text)));
      return h("label", { class: "choice" }, h("span", {}, title), select);
    }
    return h("div", { class: "choice", role: "group", "aria-label": title }, h("span", {}, title),
      h("span", { class: "segments" }, options.map((one) => h("a", {
        id: `choose-${name}-${one.value}`, href: address(one.value), "aria-current": String(one.value) === String(now) ? "true" : null,
      }, one.text))));
  }

  function protocols(ctx) {
    return choice("protocol", "Protocol", ctx.board.protocols.map((value) => ({ value, text: value })), ctx.protocol);
  }

  function judges(ctx) {
    return choice("judge", "Judge", ctx.judges.map((value) => ({ value, text: rb.judgeName(ctx, value) })), ctx.judge);
  }

  function measures(ctx) {
    const options = ctx.measures.map((one) => ({ value: one.name, text: rb.format.words(one.name) }));
    return choice("measure", "Measure", options, ctx.measure.name, { otherwise: ctx.summary });
  }

  function bar(...parts) {
    const there = parts.flat().filter(Boolean);
    return there.length ? h("div", { class: "controls" }, there) : null;
  }

  rb.controls = { choice, protocols, judges, measures, bar };
})();
