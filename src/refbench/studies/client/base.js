/** The one global, `refbench`, and the values that scripts beside this one put there. */
"use strict";

window.refbench = (() => {
  const values = new Map();

  return {
    put: (name, value) => values.set(name, value),
    given: (name) => values.get(name) ?? null,
  };
})();
