/** The keyboard: each page says what its keys do, and `?` shows them. Nothing is taken from someone who is typing. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h } = rb;
  const HELP = [
    ["j / k", "next / previous case"], ["/", "search"], ["f", "flip between two pictures"], ["a", "all models side by side, while zoomed"], ["s", "star"], ["+ − 0", "zoom in, out, fit"],
    ["← →", "next picture while zoomed"], ["Esc", "close"], ["?", "this list"],
  ];

  function help() {
    const dialog = h("dialog", { class: "help", "aria-label": "Keys" }, h("h2", {}, "Keys"), h("dl", {}, HELP.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
      h("form", { method: "dialog" }, h("button", { class: "quiet" }, "Close")));
    dialog.addEventListener("close", () => dialog.remove());
    dialog.querySelector("form").addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close();
    });
    document.body.append(dialog);
    dialog.showModal();
  }

  function listen(page) {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) {
        return;
      }
      // Arrows move a slider that has the focus.
      if (event.target.matches?.("input[type=range]") && event.key.startsWith("Arrow")) {
        return;
      }
      const typing = event.target.closest?.("input:not([type=range]), textarea, select, [contenteditable]");
      if (typing) {
        if (event.key === "Escape") {
          typing.blur();
        }
        return;
      }
      if (event.key === "?" && !document.querySelector("dialog.help[open]")) {
        help();
        return;
      }
      const act = page()?.keys?.[event.key];
      if (act && !document.querySelector("dialog.help[open]")) {
        event.preventDefault();
        act();
      }
    });
  }

  rb.keys = { listen, help };
})();
