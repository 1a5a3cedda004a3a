/**
 * Stars, tags and comments. A live page saves each in the run; a static one keeps them in this browser until they are
 * exported, and says so. Only what a person wrote here is kept: nothing else is stored in the browser.
 */
"use strict";

(() => {
  const rb = window.refbench;
  const standing = new Map();
  let site = null;
  let store = "";
  let works = true;

  const key = (board, id) => `${board}\n${id}`;

  function clean(one) {
    if (typeof one?.board !== "string" || typeof one.case !== "string") {
      return null;
    }
    const tags = Array.isArray(one.tags) ? one.tags.filter((tag) => typeof tag === "string" && tag) : [];
    return { board: one.board, case: one.case, star: one.star === true, tags, comment: typeof one.comment === "string" ? one.comment : "" };
  }

  const empty = (one) => !one.star && !one.tags.length && !one.comment;

  function take(list) {
    let taken = 0;
    for (const one of Array.isArray(list) ? list : []) {
      const good = clean(one);
      if (good) {
        standing.set(key(good.board, good.case), good);
        taken += 1;
      }
    }
    return taken;
  }

  /** What the run has, then what this browser has of the same boards. */
  async function open(given) {
    site = given;
    store = `refbench annotations ${site.boards.map((board) => board.fingerprint).join(" ")}`;
    take(await rb.load("annotations").catch(() => []));
    if (!site.live) {
      try {
        take(JSON.parse(localStorage.getItem(store) ?? "[]"));
      } catch {
        works = false;
      }
    }
  }

  function of(board, id) {
    return standing.get(key(board, id)) ?? { board, case: id, star: false, tags: [], comment: "" };
  }

  function all() {
    return [...standing.values()].filter((one) => !empty(one));
  }

  function keep() {
    try {
      localStorage.setItem(store, JSON.stringify([...standing.values()]));
    } catch {
      works = false;
    }
  }

  /** Saves one annotation where it belongs; resolves to whether it was saved. */
  async function save(one) {
    const good = clean(one);
    standing.set(key(good.board, good.case), good);
    window.dispatchEvent(new CustomEvent("refbench:annotated", { detail: good }));
    if (!site.live) {
      keep();
      return works;
    }
    try {
      const reply = await fetch("annotations", {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(good),
      });
      if (!reply.ok) {
        throw new Error(`status ${reply.status}`);
      }
      return true;
    } catch (error) {
      rb.say(`Not saved: the server did not take it (${error.message})`);
      return false;
    }
  }

  function where() {
    if (site.live) {
      return "Saved in the run.";
    }
    return works ? "Kept in this browser; export to share." : "This browser keeps nothing: export before you leave.";
  }

  function download() {
    const text = JSON.stringify({ annotations: all() }, null, 2);
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = "annotations.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  /** Reads an exported file; what it says of a case replaces what stood here. */
  async function upload(file) {
    let read = null;
    try {
      read = JSON.parse(await file.text());
    } catch {
      rb.say("This file is not an export of annotations");
      return;
    }
    const list = (Array.isArray(read) ? read : read?.annotations) ?? [];
    const taken = take(list);
    if (site.live) {
      for (const one of list.map(clean).filter(Boolean)) {
        await save(one);
      }
    } else {
      keep();
    }
    rb.say(`Took ${rb.format.count(taken, "annotation")}`);
    window.dispatchEvent(new Event("refbench:route"));
  }

  /** Export and import, for the toolbar of the browser. */
  function exchange() {
    const { h } = rb;
    const input = h("input", { type: "file", accept: "application/json,.json", class: "offscreen", tabindex: "-1", "aria-label": "Import annotations", on: { change: () => input.files.length && upload(input.files[0]) } });
    return h("span", { class: "exchange" }, h("small", {}, where()),
      h("button", { type: "button", class: "quiet", id: "export", on: { click: download } }, "Export notes"),
      h("button", { type: "button", class: "quiet", on: { click: () => input.click() } }, "Import"), input);
  }

  function tags(board) {
    return [...new Set(all().filter((one) => one.board === board).flatMap((one) => one.tags))].sort();
  }

  rb.annotations = { open, of, all, save, where, exchange, tags };
})();
