/** Tables of text and numbers that scroll in their own frame on narrow screens, and sections with headings. */
"use strict";

(() => {
  const { h } = window.refbench;

  /**
   * `columns` are `{title, number, wide}`; cells are text or elements. The first column is the heading of its row.
   * `groups` of `{title, rows}` stand in place of rows where the table has parts. The caption is read aloud, not seen:
   * tables stand under headings.
   */
  function table(columns, rows, { caption = "", className = "", groups = null } = {}) {
    const kinds = (column) => [column.number ? "num" : "", column.wide ? "wide" : ""].filter(Boolean).join(" ") || null;
    const head = h("tr", {}, columns.map((column) => h("th", { scope: "col", class: kinds(column), title: column.about || null }, column.title)));
    const row = (cells) => h("tr", {}, cells.map((cell, place) => h(place ? "td" : "th", { scope: place ? null : "row", class: kinds(columns[place]) }, cell)));
    const bodies = groups
      ? groups.map((group) => h("tbody", {}, h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: columns.length }, group.title)), group.rows.map(row)))
      : [h("tbody", {}, rows.map(row))];
    const node = h("table", { class: className || null }, caption && h("caption", { class: "offscreen" }, caption), h("thead", {}, head), bodies);
    const frame = h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": caption || "table" }, node);
    return rows.length > 1 || groups ? h("div", { class: "taken" }, frame, window.refbench.takeAway(node, caption.toLowerCase() || "table")) : frame;
  }

  function section(title, ...children) {
    const there = children.flat().filter(Boolean);
    return there.length ? h("section", {}, h("h2", {}, title), there) : null;
  }

  function note(...children) {
    return h("p", { class: "note" }, children);
  }

  function more(summary, ...children) {
    return h("details", {}, h("summary", {}, summary), children);
  }

  /** Judges' replies and prompts: whole, with their own line breaks, as text. */
  function verbatim(text) {
    return h("pre", { class: "verbatim", dir: "auto", tabindex: "0" }, text);
  }

  Object.assign(window.refbench, { table, section, note, more, verbatim });
})();
