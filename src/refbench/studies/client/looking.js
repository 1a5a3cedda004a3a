/** Looking closely: one picture of the item, or two in the same place that change at a key. Marks may be given meanwhile. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t } = rb;

  class Looking {
    /** `entries`: {name, title, src}; `closed` is called when the rater goes back. */
    constructor(entries, closed) {
      Object.assign(this, { entries, closed, one: entries[0], other: null, flipped: false });
      this.first = h("img", { alt: "", draggable: "false" });
      this.second = h("img", { alt: "", draggable: "false", class: "over" });
      this.stage = h("div", { class: "stage" }, this.first, this.second);
      this.frame = h("div", { class: "lens" }, h("div", { class: "pane" }, this.stage));
      this.lens = new rb.Lens(this.frame, () => {}, () => this.flip());
      this.lens.show([this.stage]);
      this.bar = h("div", { class: "viewer-bar" });
      this.caption = h("p", { class: "caption", "aria-live": "polite" });
      this.dialog = h("dialog", { class: "viewer", tabindex: "-1", "aria-label": t("look.title") }, this.bar, this.frame, h("div", { class: "viewer-foot" }, this.caption, h("p", { class: "asked keys-line" }, t("look.keys"))));
      this.dialog.addEventListener("close", () => {
        this.dialog.remove();
        this.closed();
      });
    }

    /** On one picture, or flicking between two. */
    open(one, other = null) {
      Object.assign(this, { one, other, flipped: false });
      document.body.append(this.dialog);
      this.draw();
      this.dialog.showModal();
      this.dialog.focus();
      this.lens.reset();
    }

    close() {
      this.dialog.close();
    }

    get isOpen() {
      return this.dialog.open;
    }

    menu(which) {
      const label = which === "one" ? t("look.picture") : t("look.second");
      return h("select", { "aria-label": label, id: `look-${which}`, on: { change: (event) => this.choose(which, this.entries.find((entry) => entry.name === event.target.value) ?? null) } },
        which === "other" && h("option", { value: "", selected: this.other === null }, t("look.none")),
        this.entries.map((entry) => h("option", { value: entry.name, selected: entry === this[which] }, entry.title)));
    }

    choose(which, entry) {
      this[which] = entry;
      if (this.one === this.other) {
        this[which === "one" ? "other" : "one"] = this.entries.find((known) => known !== entry) ?? null;
      }
      this.flipped = which === "other" && entry !== null;
      this.draw();
    }

    draw() {
      const button = (label, text, act) => h("button", { type: "button", "aria-label": label, title: label, on: { click: act } }, text);
      this.first.src = this.one.src;
      if (this.other) {
        this.second.src = this.other.src;
      }
      rb.keepingFocus(() => this.bar.replaceChildren(
        h("span", { class: "viewer-pair" }, this.menu("one"), this.entries.length > 1 && [h("button", { type: "button", class: "flip", id: "look-flip", title: t("look.flip"), on: { click: () => this.flip() } }, h("span", { "aria-hidden": "true" }, "⇄ "), t("look.flip.short"), " ", h("kbd", { "aria-hidden": "true" }, "F")), this.menu("other")]),
        h("span", { class: "segments", role: "group", "aria-label": t("look.zoom") }, button(t("look.out"), "−", () => this.lens.by(1 / 1.5)), button(t("look.fit"), t("look.fit"), () => this.lens.reset()), button(t("look.in"), "+", () => this.lens.by(1.5))),
        h("button", { type: "button", class: "leave", "aria-label": t("look.close"), on: { click: () => this.close() } }, "✕")));
      this.show();
    }

    show() {
      const over = this.flipped && this.other !== null;
      this.first.style.opacity = over ? "0" : "1";
      this.second.style.opacity = over ? "1" : "0";
      const now = over ? this.other : this.one;
      this.caption.textContent = now.title;
      this.frame.dataset.shown = now.name;
    }

    flip() {
      if (this.other === null) {
        this.other = this.entries.find((entry) => entry !== this.one) ?? null;
        this.draw();
      }
      this.flipped = !this.flipped && this.other !== null;
      this.show();
    }

    step(by) {
      const place = this.entries.indexOf(this.one);
      const steps = this.entries.filter((entry) => entry !== this.other || this.entries.length === 2);
      const next = steps[(steps.indexOf(this.one) + by + steps.length) % steps.length];
      if (place >= 0 && next) {
        this.choose("one", next);
        this.flipped = false;
        this.show();
      }
    }

    /** What a key does here; null where it does nothing. */
    key(key) {
      const acts = { f: () => this.flip(), " ": () => this.flip(), "+": () => this.lens.by(1.5), "=": () => this.lens.by(1.5), "-": () => this.lens.by(1 / 1.5), ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1), Escape: () => this.close() };
      return acts[key] ?? null;
    }
  }

  rb.Looking = Looking;
})();
