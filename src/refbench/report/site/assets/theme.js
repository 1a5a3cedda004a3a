/** Light, dark, or as the system has it: a switch that this browser remembers. */
"use strict";

(() => {
  const rb = window.refbench;
  const STORE = "refbench theme";
  const NEXT = { "": "light", light: "dark", dark: "" };
  const SAID = { "": "as the system", light: "light", dark: "dark" };
  const SIGN = { "": "◐", light: "☼", dark: "☾" };

  const now = () => document.documentElement.dataset.theme ?? "";

  function set(theme) {
    if (theme) {
      document.documentElement.dataset.theme = theme;
    } else {
      delete document.documentElement.dataset.theme;
    }
  }

  function kept() {
    try {
      return localStorage.getItem(STORE) ?? "";
    } catch {
      return "";
    }
  }

  function turn() {
    const theme = NEXT[now()];
    set(theme);
    try {
      localStorage.setItem(STORE, theme);
    } catch {
      // A browser that keeps nothing begins as the system is.
    }
    rb.say(`Colours: ${SAID[theme]}`);
    document.getElementById("theme")?.replaceWith(button());
    document.getElementById("theme")?.focus();
  }

  function button() {
    const title = `Colours: ${SAID[now()]}`;
    return rb.h("button", { type: "button", id: "theme", class: "quiet keys", "aria-label": title, title, on: { click: turn } }, SIGN[now()]);
  }

  set(kept() in NEXT ? kept() : "");
  rb.theme = { button };
})();
