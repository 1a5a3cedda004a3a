/**
 * Dots and whiskers as SVG rows with coordinates in per cent, so that they follow the width without a script.
 * Own models are filled dots, published figures hollow diamonds; what failures could have changed is a pale band.
 */
"use strict";

(() => {
  const { s, h, format } = window.refbench;

  /** Round steps of 1, 2 or 5 that cover the values; at most `most` ticks. */
  function ticks(low, high, most = 5) {
    const span = high - low || Math.abs(high) || 1;
    const rough = span / Math.max(1, most - 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
      found.push(k * step);
    }
    return { at: found, digits: Math.max(0, -Math.floor(Math.log10(step) + 1e-9)) };
  }

  /** A scale over everything that will be drawn, with a little room, within the measure's own range. */
  function scale(values, { low = null, high = null, zero = false } = {}) {
    const there = values.filter((value) => Number.isFinite(value));
    if (zero) {
      there.push(0);
    }
    if (!there.length) {
      there.push(low ?? 0, high ?? 1);
    }
    let from = Math.min(...there);
    let to = Math.max(...there);
    const room = (to - from || Math.abs(to) * 0.1 || 1) * 0.08;
    from = low !== null && from - room < low && from >= low ? low : from - room;
    to = high !== null && to + room > high && to <= high ? high : to + room;
    const place = (value) => (100 * (value - from)) / (to - from);
    return { from, to, place, percent: (value) => `${Math.min(100, Math.max(0, place(value))).toFixed(3)}%`, ...ticks(from, to) };
  }

  function gridlines(axis, zero) {
    return axis.at.map((at) => s("line", {
      class: zero && Math.abs(at) < 1e-12 ? "zero" : "grid", x1: axis.percent(at), x2: axis.percent(at), y1: "0", y2: "100%",
    }));
  }

  /** Marks of models by the names that figures have for them. The published diamond is none. */
  const MARKS = {
    circle: () => s("circle", { class: "dot", r: "4.6" }),
    square: () => s("rect", { class: "dot", x: "-4.2", y: "-4.2", width: "8.4", height: "8.4" }),
    triangle: () => s("path", { class: "dot", d: "M0-5.4 5.2 4H-5.2z" }),
    inverted: () => s("path", { class: "dot", d: "M0 5.4 5.2-4H-5.2z" }),
    cross: () => s("path", { class: "dot", d: "M-1.9-5.2H1.9V-1.9H5.2V1.9H1.9V5.2H-1.9V1.9H-5.2V-1.9H-1.9z" }),
    hexagon: () => s("path", { class: "dot", d: "M-5.2 0-2.6-4.5H2.6L5.2 0 2.6 4.5H-2.6z" }),
  };

  function shape(mark) {
    return (MARKS[mark] ?? MARKS.circle)();
  }

  function diamond(x, y, title) {
    return s("svg", { x, y, class: "mark", overflow: "visible" }, s("path", { class: "published", d: "M0-5 5 0 0 5-5 0z" }), title && s("title", {}, title));
  }

  /** Signs at the ends of the axis where bounds reach beyond it. */
  function beyond(axis, [low, high]) {
    const sign = (x, d) => s("svg", { x, y: "50%", overflow: "visible" }, s("path", { class: "beyond", d }));
    return [low < axis.from && sign("0", "M6-4 2 0 6 4"), high > axis.to && sign("100%", "M-6-4-2 0-6 4")].filter(Boolean);
  }

  /** How a model's row looks: its colour and its mark. */
  const of = (ctx, model) => ({ colour: window.refbench.colourOf(ctx, model), mark: window.refbench.markOf(ctx, model) });

  /** One row: whisker, dot, bounds and any published figures of the same thing. */
  function intervalRow(axis, { value = null, ci95 = null, bounds = null, published = [], label = "", zero = false, strong = true, mark = "circle", colour = "" }) {
    const row = s("svg", { class: `row ${colour}`, width: "100%", height: "26", role: "img", "aria-label": label }, gridlines(axis, zero));
    const line = (name, pair) => s("line", { class: name, x1: axis.percent(pair[0]), x2: axis.percent(pair[1]), y1: "50%", y2: "50%" });
    if (bounds && bounds[1] > bounds[0]) {
      row.append(line("bounds", bounds), ...beyond(axis, bounds));
    }
    if (ci95) {
      row.append(line("whisker", ci95));
      for (const end of ci95) {
        row.append(s("line", { class: "cap", x1: axis.percent(end), x2: axis.percent(end), y1: "8", y2: "18" }));
      }
    }
    for (const one of published) {
      row.append(diamond(axis.percent(one.value), "50%", one.title));
    }
    if (value !== null) {
      const drawn = shape(mark);
      drawn.classList.toggle("unsure", !strong);
      row.append(s("svg", { x: axis.percent(value), y: "50%", overflow: "visible" }, drawn));
    }
    return row;
  }

  /** The axis under (or over) rows: numbers at the ticks, the outermost turned inwards so that none is cut. */
  function axisRow(axis) {
    const texts = axis.at.map((at) => {
      const place = axis.place(at);
      return s("text", { x: axis.percent(at), y: "13", "text-anchor": place < 6 ? "start" : place > 94 ? "end" : "middle" }, format.number(at, axis.digits));
    });
    return s("svg", { class: "axis", width: "100%", height: "18", "aria-hidden": "true" }, texts);
  }

  /** Coverage: scored of expected, as a bar, and what became of the others in words. */
  function coverage({ n_scored: scored, n_expected: expected, n_not_asked: notAsked = 0, failures = {} }) {
    const share = expected ? scored / expected : 0;
    const failed = format.failures(failures);
    const said = format.failures(failures, notAsked);
    const words = `${format.whole(scored)}/${format.whole(expected)}`;
    return h("div", { class: "coverage", title: said ? `not scored: ${said}` : "all scored" },
      h("span", { class: "figures" }, words),
      h("span", { class: failed ? "bar short" : "bar", "aria-hidden": "true" }, h("span", { style: { width: `${100 * share}%` } })),
      failed && h("span", { class: "kinds" }, failed), notAsked > 0 && h("span", { class: "waiting" }, `${format.whole(notAsked)} not asked yet`));
  }

  window.refbench.charts = { scale, ticks, shape, of, intervalRow, axisRow, coverage };
})();
