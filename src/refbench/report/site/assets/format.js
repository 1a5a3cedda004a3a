/** Numbers, intervals and names as text: one way to write each, with a true minus and no invented digits. */
"use strict";

(() => {
  const NONE = "–";
  const grouped = new Intl.NumberFormat("en-US");

  /** As the tables in Python print it: of two texts that are equally near, the even one. */
  function rounded(value, digits) {
    const text = value.toFixed(digits);
    const more = value.toFixed(digits + 1);
    const isTie = Number.isInteger(value * 2 ** (digits + 1)) && more.endsWith("5");
    const below = more.slice(0, -1).replace(/\.$/, "");
    return isTie && Number(below.at(-1)) % 2 === 0 ? below : text;
  }

  function fixed(value, digits) {
    const text = rounded(Math.abs(value), digits);
    return value < 0 && Number(text) !== 0 ? `−${text}` : text;
  }

  /** A value, or a dash where there is none. */
  function number(value, digits = 2) {
    return value === null || value === undefined ? NONE : fixed(value, digits);
  }

  function signed(value, digits = 2) {
    if (value === null || value === undefined) {
      return NONE;
    }
    const text = fixed(value, digits);
    return value > 0 && Number(text) !== 0 ? `+${text}` : text;
  }

  function interval(pair, digits = 2) {
    return pair ? `${fixed(pair[0], digits)} to ${fixed(pair[1], digits)}` : NONE;
  }

  function pValue(p) {
    if (p === null || p === undefined) {
      return NONE;
    }
    return p < 0.001 ? "< 0.001" : p.toFixed(3);
  }

  function count(n, word, words = `${word}s`) {
    return `${grouped.format(n)} ${n === 1 ? word : words}`;
  }

  function percent(share) {
    const value = 100 * share;
    if (value < 0) {
      return `−${percent(-share)}`;
    }
    const near = value > 99 && value < 100 ? Math.floor(value * 10) / 10 : value < 1 && value > 0 ? Math.ceil(value * 10) / 10 : Math.round(value);
    return `${near} %`;
  }

  /** An end of a scale: whole where it is whole. */
  function plain(value) {
    return fixed(value, Number.isInteger(value) ? 0 : 2);
  }

  /** Underscores of names in data read as spaces. */
  function words(name) {
    return name === "n_refs" ? "number of references" : String(name).replaceAll("_", " ");
  }

  /** The same as a label: with a capital at its beginning. */
  function label(name) {
    const text = words(name).trim();
    return text.charAt(0).toUpperCase() + text.slice(1);
  }

  /** The name of a slice: what it is called at its own level, else all its names; of cases that lack a tag, without it. */
  function sliceName(slice) {
    const level = slice.level;
    if (level === "overall") {
      return "overall";
    }
    if (slice[level] !== undefined) {
      const name = level === "n_refs" && /^\d+$/.test(slice[level]) ? count(Number(slice[level]), "reference") : slice[level];
      return slice.has === "no" ? `without ${name}` : name;
    }
    const names = Object.entries(slice).filter(([key]) => key !== "level").map(([, name]) => name);
    return names.join(" / ") || level;
  }

  /** The names above a slice's own, for instance the category of a dimension. */
  function sliceAbove(slice) {
    const above = Object.entries(slice).filter(([key]) => !["level", "has", slice.level].includes(key));
    return slice[slice.level] === undefined ? "" : above.map(([, name]) => name).join(" / ");
  }

  /** What has no value and why, in words. */
  function failures(kinds, notAsked = 0) {
    const said = Object.entries(kinds ?? {}).filter(([, n]) => n > 0).map(([kind, n]) => `${grouped.format(n)} ${words(kind)}`);
    return [...said, ...(notAsked ? [`${grouped.format(notAsked)} not asked yet`] : [])].join(", ");
  }

  function seconds(value) {
    return value === null || value === undefined ? NONE : `${value.toFixed(value < 10 ? 2 : 1)} s`;
  }

  function dollars(value) {
    return value === null || value === undefined ? NONE : `$${value === 0 ? "0" : value.toFixed(value < 0.1 ? 4 : 2)}`;
  }

  /** A table by its number, "Table S1", or what else numbers were printed in as it is called. */
  const table = (name) => (!name.includes(" ") && /\d/.test(name) ? `Table ${name}` : name);

  window.refbench.format = {
    NONE, number, signed, interval, pValue, count, percent, plain, words, label, sliceName, sliceAbove, failures, seconds,
    dollars, table, whole: (n) => grouped.format(n),
  };
})();
