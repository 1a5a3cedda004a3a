/** Small windows over the page: the keys, and a picture that something is wrong with. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t } = rb;
  const KEYS = [["0 – 9", "mark"], ["Y / N", "yesno"], ["U", "unsure"], ["↑ ↓", "move"], ["Enter", "next"], ["Z", "undo"], ["S", "skip"], ["C", "comment"], ["R", "report"], ["F", "flicker"], ["+ −", "zoom"], ["Esc", "close"], ["?", "help"]];

  function open(dialog) {
    dialog.addEventListener("close", () => {
      dialog.remove();
      document.getElementById("main").focus({ preventScroll: true });
    });
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
  }

  function help(guidelines) {
    const dialog = h("dialog", { class: "help", "aria-label": t("help.title") },
      guidelines ? [h("h2", {}, t("help.guidelines")), h("div", { class: "guidelines" }, rb.paragraphs(guidelines))] : "",
      h("h2", {}, t("help.keys")), h("dl", {}, KEYS.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, t(`key.${what}`))])),
      h("p", {}, h("button", { type: "button", class: "main-button", on: { click: () => dialog.close() } }, t("close"))));
    return open(dialog);
  }

  /** Which picture it is, and whether the item is left out because of it. */
  function report(entries, chosen) {
    let which = entries.length === 1 ? entries[0].name : "";
    const send = h("button", { type: "button", class: "main-button", disabled: !which, on: { click: () => {
      dialog.close();
      chosen(which, leave.checked);
    } } }, t("report.send"));
    const leave = h("input", { type: "checkbox", id: "report-skip" });
    const dialog = h("dialog", { class: "help report", "aria-label": t("report.title") }, h("h2", {}, t("report.title")), h("p", { class: "note" }, t("report.text")),
      h("fieldset", { class: "reportable" }, h("legend", {}, t("report.which")), entries.map((entry) => h("label", {}, h("input", { type: "radio", name: "reported", value: entry.name, checked: entry.name === which, on: { change: () => {
        which = entry.name;
        send.disabled = false;
      } } }), " ", entry.title))),
      h("p", {}, h("label", {}, leave, " ", t("report.skip"))),
      h("p", { class: "buttons" }, send, h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, t("cancel"))));
    return open(dialog);
  }

  rb.dialogs = { help, report };
})();
