/** Every word of the screens, in the language of the rater. What the study itself says may be one text or one for each language. */
"use strict";

(() => {
  const rb = window.refbench;
  const STRINGS = rb.given("strings") ?? {};
  const STORE = "refbench study language";
  const NAMES = { en: "English", "zh-CN": "中文" };
  let language = "en";
  let offered = Object.keys(STRINGS);

  function kept() {
    try {
      return localStorage.getItem(STORE);
    } catch {
      return null;
    }
  }

  /** The language that was chosen here before, else the browser's, else the first that the study has. */
  function begin(languages) {
    offered = (languages ?? []).filter((name) => name in STRINGS);
    if (!offered.length) {
      offered = Object.keys(STRINGS);
    }
    const wished = [kept(), ...navigator.languages].filter(Boolean);
    const found = wished.map((wish) => offered.find((name) => name === wish) ?? offered.find((name) => name.split("-")[0] === wish.split("-")[0])).find(Boolean);
    set(found ?? offered[0]);
  }

  function set(name) {
    language = name;
    document.documentElement.lang = name;
  }

  function choose(name) {
    set(name);
    try {
      localStorage.setItem(STORE, name);
    } catch {
      // A browser that keeps nothing asks again.
    }
    window.dispatchEvent(new Event("study:language"));
  }

  /** The text of a key, with `{name}` replaced; where there is a plural (`key.one`), it stands for `n` = 1. */
  function t(key, given = {}) {
    const words = STRINGS[language] ?? {};
    const text = (given.n === 1 && words[`${key}.one`]) || words[key] || key;
    return text.replace(/\{(\w+)\}/g, (whole, name) => (name in given ? String(given[name]) : whole));
  }

  /** What the study says: a text, or the one of this language among several. */
  function said(value) {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) {
      return String(value[language] ?? value[language.split("-")[0]] ?? value.en ?? Object.values(value)[0] ?? "");
    }
    return String(value ?? "");
  }

  /** What the program calls it where it knows the name, else the name itself, readable. */
  function named(prefix, name) {
    const known = STRINGS[language]?.[`${prefix}.${name}`];
    return known ?? String(name).replace(/_/g, " ");
  }

  Object.assign(rb, { t, said, named, languages: { begin, choose, names: NAMES, offered: () => offered, now: () => language } });
})();
