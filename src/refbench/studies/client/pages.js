/** What stands in the place of an item: consent, feedback of training, the end, and what went wrong. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t, said } = rb;

  /** A text of the study: paragraphs are separated by an empty line, as they were written. */
  const paragraphs = (text) => said(text).split(/\n\s*\n/).map((part) => part.trim()).filter(Boolean).map((part) => h("p", { dir: "auto" }, part));

  const button = (text, act, id = "go") => h("button", { type: "button", class: "main-button", id, on: { click: act } }, text, " ", h("kbd", { "aria-hidden": "true" }, "↵"));

  function page(name, ...children) {
    return h("div", { class: `page ${name}` }, children);
  }

  function consent(study, agreed) {
    return page("consent", h("h1", {}, said(study.title) || t("consent.title")), h("div", { class: "guidelines" }, paragraphs(study.consent)), button(t("consent.agree"), agreed), h("p", { class: "note" }, t("consent.leave")));
  }

  function welcome(study, begin) {
    return page("welcome", h("h1", {}, said(study.title) || t("welcome.title")), h("div", { class: "guidelines" }, paragraphs(study.guidelines)), study.training ? h("p", {}, t("welcome.training", { n: study.training })) : "",
      h("p", {}, t("welcome.items", { n: study.progress.total - study.progress.done })), h("p", { class: "note" }, t("welcome.keys")), button(t("welcome.begin"), begin));
  }

  /** What is asked, of which result where there are several. */
  function askedOf(item, entry) {
    const letter = item.screen === "set" && item.outputs > 1 ? String.fromCodePoint(65 + entry.output) : "";
    return [letter && t("picture.letter", { letter }), said(entry.label)].filter(Boolean).join(": ");
  }

  /** What was marked in a training item, what of it was right, and why. */
  function feedback(acknowledged, item, values, go) {
    const entries = new Map(item.entries.map((entry) => [entry.name, entry]));
    const right = acknowledged.feedback.every((one) => one.right);
    return page("feedback", h("p", { class: `verdict ${right ? "good" : "bad"}`, role: "status" }, h("span", { "aria-hidden": "true" }, right ? "✓ " : "✗ "), t(right ? "feedback.right" : "feedback.wrong")),
      h("ul", { class: "judged" }, acknowledged.feedback.map((one) => [one, entries.get(one.name) ?? { name: one.name, label: { en: one.name } }]).map(([one, entry]) => h("li", { class: one.right ? "good" : "bad" }, h("span", { "aria-hidden": "true" }, one.right ? "✓ " : "✗ "), h("span", { dir: "auto" }, askedOf(item, entry)), " – ", h("strong", { class: "given-mark", dir: "auto" }, rb.markSaid(entry, values[one.name])), ", ", t(one.right ? "feedback.one-right" : "feedback.one-wrong")))),
      paragraphs(acknowledged.why), acknowledged.training === "passed" ? h("p", {}, t("feedback.passed")) : acknowledged.training === "again" ? h("p", {}, t("feedback.again")) : "", button(t("feedback.go"), go));
  }

  function failed() {
    return page("failed", h("h1", {}, t("failed.title")), h("p", {}, t("failed.text")));
  }

  /** All is marked: nothing is over before the rater says so. */
  function finished(progress, back, finish) {
    return page("finished", h("h1", {}, t("finished.title")), h("p", {}, t("finished.text", { n: progress.done })), h("p", { class: "buttons" }, button(t("finished.finish"), finish), progress.undo ? h("button", { type: "button", class: "quiet", on: { click: back } }, t("finished.back"), " ", h("kbd", { "aria-hidden": "true" }, "Z")) : ""));
  }

  /** Others have marked everything: nothing is asked of whoever comes now, and nothing is certified. */
  function full() {
    return page("full", h("h1", {}, t("full.title")), h("p", {}, t("full.text")));
  }

  function nothing(reload) {
    return page("nothing", h("h1", {}, t("nothing.title")), h("p", {}, t("nothing.text")), button(t("nothing.again"), reload));
  }

  function code(text) {
    return page("ended", h("h1", {}, t("ended.title")), h("p", {}, t("ended.text")), h("p", { class: "code" }, h("output", { id: "code" }, text)), h("p", { class: "note" }, t("ended.note")));
  }

  function download(progress, save) {
    return page("ended", h("h1", {}, t("pack.title")), h("p", {}, t("pack.text", { n: progress.done })), button(t("pack.download"), save), h("p", { class: "note" }, t("pack.note")));
  }

  function waiting(n) {
    return page("waiting", h("p", { role: "status" }, n ? t("waiting.marks", { n }) : t("waiting.items")));
  }

  function wrong(error, again) {
    const refused = error.status === 403 || error.status === 401;
    return page("wrong", h("h1", {}, t(refused ? "refused.title" : "wrong.title")), h("p", {}, t(refused ? "refused.text" : error.status === 429 ? "wrong.busy" : "wrong.text")), refused ? "" : button(t("wrong.again"), again));
  }

  function tooSmall(n, skip) {
    return h("div", { class: "too-small" }, h("h1", {}, t("small.title")), h("p", {}, t("small.text", { n })), h("button", { type: "button", class: "quiet", on: { click: skip } }, t("small.skip")));
  }

  Object.assign(rb, { paragraphs, pages: { consent, welcome, feedback, failed, finished, full, nothing, code, download, waiting, wrong, tooSmall } });
})();
