/** The owner's page: coverage, raters, agreement; asked for anew every ten seconds while somebody looks. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t } = rb;
  const EVERY_MS = 10_000;
  const LEAST_GOLD = 0.75;
  const main = document.getElementById("main");
  let shown = null;
  let begun = false;

  const figure = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));

  function table(name, heads, rows) {
    return h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": name }, h("table", {}, h("thead", {}, h("tr", {}, heads.map((head, place) => h("th", { scope: "col", class: place ? "number" : null }, head)))), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, place) => h("td", { class: place ? "number" : null }, cell)))))));
  }

  function coverage(status) {
    const rows = Object.entries(status.covered).map(([n, items]) => [Number(n), items]);
    return h("div", { class: "covered" }, rows.map(([n, items]) => [h("span", {}, t("owner.raters", { n })), h("span", { class: "bar" }, h("span", { style: { width: `${(100 * items) / Math.max(1, status.items)}%` } })), h("span", {}, t("owner.items", { n: items }))]));
  }

  /** Gold that is not met is for exclusion when marks are read; here it is only pointed at. */
  function gold(row) {
    if (!row.gold_seen) {
      return "–";
    }
    const low = row.gold_seen >= 4 && row.gold_right / row.gold_seen < LEAST_GOLD;
    return h("span", { class: low ? "warn" : null }, `${row.gold_right} / ${row.gold_seen}`);
  }

  function stateOf(row) {
    const state = row.revoked ? "revoked" : row.finished ? "finished" : row.training === "failed" ? "failed" : row.full ? "full" : ["going", "again"].includes(row.training) ? "training" : row.done ? "going" : "open";
    return t(`owner.state.${state}`);
  }

  /** The rules by which a rater would be left out now. */
  const rulesOf = (row) => (row.rules ?? []).map((rule) => h("span", { class: "warn" }, ` ${rb.named("owner.rule", rule)}`));

  function raters(status) {
    const heads = ["rater", "done", "state", "gold", "seconds", "drift", "comments", "reported"].map((key) => t(`owner.${key}`));
    return table(t("owner.people"), heads, status.raters.map((row) => [row.name ? `${row.rater} · ${row.name}` : row.rater, `${row.done} / ${row.total}`, h("span", {}, stateOf(row), rulesOf(row)), gold(row), figure(row.median_seconds, 1), figure(row.drift), String(row.comments), String(row.reported)]));
  }

  function agreement(status) {
    return table(t("owner.agreement"), [t("owner.criterion"), t("owner.twice"), t("owner.alpha"), t("owner.interval")], status.agreement.map((row) => [row.criterion, String(row.items), figure(row.alpha), row.low === null ? "–" : `${figure(row.low)} … ${figure(row.high)}`]));
  }

  function draw(status) {
    const languages = rb.languages.offered();
    document.title = status.name;
    rb.keepingFocus(() => main.replaceChildren(h("div", { class: "page" },
      h("div", { class: "head" }, h("h1", { dir: "auto" }, status.name), h("span", { class: "note" }, t("owner.version", { n: status.version })), h("select", { id: "language", "aria-label": t("language"), on: { change: (event) => rb.languages.choose(event.target.value) } }, languages.map((name) => h("option", { value: name, lang: name, selected: name === rb.languages.now() }, rb.languages.names[name] ?? name)))),
      h("section", {}, h("h2", {}, t("owner.coverage")), h("p", { class: "note" }, t("owner.wanted", { n: status.overlap })), coverage(status)),
      h("section", {}, h("h2", {}, t("owner.people")), status.raters.length ? raters(status) : h("p", { class: "note" }, t("owner.nobody"))),
      h("section", {}, h("h2", {}, t("owner.agreement")), status.agreement.length ? agreement(status) : h("p", { class: "note" }, t("owner.few"))),
      status.notes.length ? h("section", {}, h("h2", {}, t("owner.notes")), h("ul", { class: "notes" }, status.notes.map((note) => h("li", { dir: "auto" }, note)))) : "")));
    main.dataset.page = "owner";
  }

  async function look() {
    try {
      const reply = await fetch("status", { cache: "no-store" });
      if (!reply.ok) {
        throw new Error(String(reply.status));
      }
      shown = await reply.json();
      if (!begun) {
        begun = true;
        rb.languages.begin(shown.languages);
      }
      draw(shown);
    } catch (error) {
      if (!begun) {
        rb.languages.begin();
        main.replaceChildren(h("div", { class: "page" }, h("h1", {}, t(error.message === "403" ? "refused.title" : "wrong.title")), h("p", {}, t(error.message === "403" ? "refused.text" : "owner.lost"))));
      } else {
        rb.say(t("owner.lost"));
      }
    }
  }

  window.addEventListener("study:language", () => shown && draw(shown));
  setInterval(() => document.hidden || look(), EVERY_MS);
  look();
})();
