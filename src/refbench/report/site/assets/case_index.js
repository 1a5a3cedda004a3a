/** The index of a board: its chunks joined to parallel arrays over all cases. Read only when cases are looked for. */
"use strict";

(() => {
  const rb = window.refbench;
  const INDEX_SIZE = 2000;
  const joined = new Map();

  /** Names of groups are numbered anew in each chunk: the joined ones have one numbering. */
  function joinGroups(chunks) {
    const found = {};
    for (const name of new Set(chunks.flatMap((chunk) => Object.keys(chunk.groups)))) {
      const names = [];
      const numbers = new Map();
      const of = [];
      for (const chunk of chunks) {
        const group = chunk.groups[name];
        for (let i = 0; i < chunk.ids.length; i += 1) {
          const value = group && group.of[i] >= 0 ? group.names[group.of[i]] : null;
          if (value !== null && !numbers.has(value)) {
            numbers.set(value, names.length);
            names.push(value);
          }
          of.push(value === null ? -1 : numbers.get(value));
        }
      }
      found[name] = { names, of };
    }
    return found;
  }

  /** By key of protocol and judge: for each model one array over all cases; chunks without the key give nulls. */
  function joinByModel(board, chunks, part) {
    const found = {};
    for (const key of new Set(chunks.flatMap((chunk) => Object.keys(chunk[part])))) {
      found[key] = board.models.map((_, model) => chunks.flatMap((chunk) =>
        chunk[part][key]?.[model] ?? new Array(chunk.ids.length).fill(null)));
    }
    return found;
  }

  /** By key of protocol and judge: for each model the positions of the cases that are still to be asked for. */
  function joinWaiting(board, chunks) {
    const found = {};
    for (const key of new Set(chunks.flatMap((chunk) => Object.keys(chunk.waiting)))) {
      found[key] = board.models.map((_, model) => new Set(chunks.flatMap((chunk) => (chunk.waiting[key]?.[model] ?? []).map((at) => chunk.start + at))));
    }
    return found;
  }

  function join(board, chunks) {
    const ids = chunks.flatMap((chunk) => chunk.ids);
    return {
      ids,
      at: new Map(ids.map((id, position) => [id, position])),
      instructions: chunks.flatMap((chunk) => chunk.instructions),
      words: chunks.flatMap((chunk) => chunk.words),
      references: chunks.flatMap((chunk) => chunk.n_references),
      groups: joinGroups(chunks),
      values: joinByModel(board, chunks, "values"),
      failed: joinByModel(board, chunks, "failed"),
      waiting: joinWaiting(board, chunks),
      flags: board.models.map((_, model) => chunks.flatMap((chunk) => chunk.flags[model] ?? new Array(chunk.ids.length).fill(0))),
    };
  }

  function caseIndex(board) {
    if (!joined.has(board.id)) {
      const numbers = Array.from({ length: Math.max(1, Math.ceil(board.n_cases / INDEX_SIZE)) }, (_, k) => k);
      const read = Promise.all(numbers.map((k) => rb.load(`${board.id}/index/${k}`))).then((chunks) => join(board, chunks));
      read.catch(() => joined.delete(board.id));
      joined.set(board.id, read);
    }
    return joined.get(board.id);
  }

  window.addEventListener("refbench:forget", () => joined.clear());

  rb.caseIndex = caseIndex;
})();
