/** Star, tags and comment of one case, saved as one writes. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h } = rb;
  const PAUSE_MS = 500;

  /** The form; `toggle` is also what the key does. */
  function caseNotes(ctx, id) {
    const { annotations } = rb;
    let waiting = 0;
    const now = () => annotations.of(ctx.board.id, id);
    const star = h("button", { type: "button", class: "star-button", id: "star", on: { click: () => toggle() } });
    const tags = h("input", { type: "text", id: "tags", placeholder: "tags, with commas", value: now().tags.join(", "), autocomplete: "off", on: { input: () => later() } });
    const comment = h("textarea", { id: "comment", rows: "3", placeholder: "What do you see?", on: { input: () => later() } });
    comment.value = now().comment;
    const state = h("small", { class: "quiet", role: "status" }, annotations.where());

    function draw() {
      star.setAttribute("aria-pressed", String(now().star));
      star.replaceChildren(now().star ? "★ Starred" : "☆ Star");
    }

    function written() {
      return { ...now(), tags: [...new Set(tags.value.split(",").map((tag) => tag.trim()).filter(Boolean))], comment: comment.value };
    }

    async function keep(one) {
      state.textContent = (await annotations.save(one)) ? annotations.where() : `Not saved. ${annotations.where()}`;
    }

    function later() {
      clearTimeout(waiting);
      waiting = setTimeout(() => { waiting = 0; keep(written()); }, PAUSE_MS);
    }

    function toggle() {
      const one = { ...written(), star: !now().star };
      clearTimeout(waiting);
      waiting = 0;
      keep(one);
      draw();
    }

    /** What was typed in the last half second is not lost by going on. */
    function close() {
      if (waiting) {
        clearTimeout(waiting);
        keep(written());
      }
    }

    draw();
    const node = h("section", { class: "notes", "aria-label": "Your notes" }, star,
      h("label", {}, h("span", {}, "Tags"), tags), h("label", {}, h("span", {}, "Comment"), comment), state);
    return { node, toggle, close };
  }

  rb.caseNotes = caseNotes;
})();
