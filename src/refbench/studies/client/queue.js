/**
 * Marks on their way: each is kept in this browser until the server says that it is on its disk, and sent again with the
 * same id after a connection was lost. Nothing is called saved before that.
 */
"use strict";

(() => {
  const rb = window.refbench;
  const BATCH = 20;
  const LONGEST_WAIT_MS = 30_000;
  const waiting = new Map();
  let prefix = "";
  let sending = false;
  let failed = 0;
  let timer = 0;
  const taken = [];

  function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /** What an earlier page of this link left behind is sent first. Every mark has a place of its own in the storage: two
   * tabs do not write over each other. */
  function begin(scope) {
    prefix = `refbench study ${scope} mark `;
    try {
      const left = Object.keys(localStorage).filter((key) => key.startsWith(prefix)).map((key) => JSON.parse(localStorage.getItem(key)));
      for (const mark of left.sort((a, b) => a.at - b.at)) {
        waiting.set(mark.id, mark);
      }
    } catch {
      // A browser that keeps nothing loses nothing that it was told is saved.
    }
    window.addEventListener("online", () => send());
    window.addEventListener("beforeunload", (event) => {
      if (waiting.size) {
        event.preventDefault();
      }
    });
    if (waiting.size) {
      send();
    }
  }

  function add(mark) {
    waiting.set(mark.id, mark);
    try {
      localStorage.setItem(prefix + mark.id, JSON.stringify(mark));
    } catch {
      // Storage is full or forbidden: the mark is sent all the same.
    }
    tell();
    send();
  }

  function drop(id) {
    waiting.delete(id);
    try {
      localStorage.removeItem(prefix + id);
    } catch {
      // Then nothing was kept.
    }
  }

  async function send() {
    if (sending || !waiting.size) {
      return;
    }
    sending = true;
    clearTimeout(timer);
    try {
      while (waiting.size) {
        const reply = await rb.source.send([...waiting.values()].slice(0, BATCH).map(({ at, ...mark }) => mark)); // when it was made is for the order here
        failed = 0;
        [...reply.acknowledged, ...reply.refused].forEach((one) => drop(one.id));
        reply.refused.forEach((one) => window.dispatchEvent(new CustomEvent("study:refused", { detail: one })));
        taken.splice(0).forEach((heard) => heard(reply));
        window.dispatchEvent(new CustomEvent("study:progress", { detail: reply.progress }));
        tell();
        if (!reply.acknowledged.length && !reply.refused.length) {
          throw new rb.Unanswered(0, "nothing was acknowledged");
        }
      }
    } catch {
      failed += 1;
      timer = setTimeout(send, Math.min(LONGEST_WAIT_MS, 500 * 2 ** Math.min(failed, 6)));
    } finally {
      sending = false;
      tell();
    }
  }

  /** The answer to what is sent next, for who must see it before going on. */
  function answer() {
    return new Promise((heard) => taken.push(heard));
  }

  /** Resolves once nothing waits. */
  async function empty() {
    while (waiting.size) {
      send();
      await answer();
    }
  }

  function state() {
    return { waiting: waiting.size, failed };
  }

  function tell() {
    window.dispatchEvent(new CustomEvent("study:queue", { detail: state() }));
  }

  rb.newId = newId;
  rb.queue = { begin, add, empty, answer, state, items: () => [...waiting.values()].map((mark) => mark.item) };
})();
