/**
 * The one global, `refbench`, and the loading of data chunks. A chunk is a classic script that calls
 * `refbench.put(name, data)` (or `unpack`): a page opened from the file system may neither fetch nor import.
 */
"use strict";

window.refbench = (() => {
  /** Chunks of cases hold judges' words and are the only large ones: the oldest are forgotten. */
  const MOST_CASE_CHUNKS = 48;

  const arrived = new Map();
  const asked = new Map();
  const caseChunks = [];

  function put(name, data) {
    arrived.set(name, data);
  }

  /** A chunk that came compressed, as base64: judges' words become a fifth of themselves. */
  function unpack(name, text) {
    put(name, inflated(text));
  }

  function inflated(text) {
    const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }

  function forgetOldest(name) {
    caseChunks.push(name);
    while (caseChunks.length > MOST_CASE_CHUNKS) {
      asked.delete(caseChunks.shift());
    }
  }

  /** The chunk, loaded once; a chunk that could not be read is asked for again next time. */
  function load(name) {
    if (!asked.has(name)) {
      const script = document.createElement("script");
      const promise = new Promise((resolve, reject) => {
        script.onload = () => {
          script.remove();
          if (!arrived.has(name)) {
            asked.delete(name);
            reject(new Error(`data/${name}.js holds something else`));
            return;
          }
          resolve(arrived.get(name));
          arrived.delete(name);
          if (name.includes("/cases/")) {
            forgetOldest(name);
          }
        };
        script.onerror = () => {
          script.remove();
          asked.delete(name);
          reject(new Error(`data/${name}.js could not be read`));
        };
      });
      script.src = `data/${name}.js`;
      asked.set(name, promise);
      document.head.append(script);
    }
    return asked.get(name);
  }

  /** What was read is asked for again: the run has grown. */
  function forget() {
    asked.clear();
    window.dispatchEvent(new Event("refbench:forget"));
  }

  return { put, unpack, load, forget, pages: {} };
})();
