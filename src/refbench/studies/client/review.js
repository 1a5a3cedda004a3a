/** The screen `review`: an item that a machine made, to be accepted, changed or rejected. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t, said } = rb;
  const KEYS = { accept: ["1", "a"], edit: ["2", "e"], reject: ["3", "x"] };
  const CHECK_AFTER_MS = 400;

  /** A field as text to change: words as they are, a list of words a line each, anything else as JSON. */
  const isLines = (value) => Array.isArray(value) && value.every((one) => typeof one === "string");
  const shown = (value) => (typeof value === "string" ? value : isLines(value) ? value.join("\n") : value === null || value === undefined ? "" : JSON.stringify(value, null, 1));

  function read(text, before) {
    if (typeof before === "string" || before === null || before === undefined) {
      return text;
    }
    return isLines(before) ? text.split("\n").map((line) => line.trim()).filter(Boolean) : JSON.parse(text);
  }

  class Review extends rb.Screen {
    constructor(item, changed) {
      super(item, changed);
      [this.verdict, this.edit] = item.entries;
      this.decision = null;
      this.fields = new Map();
      this.inputs = new Map();
      const look = (entry) => this.look(entry);
      const kept = Object.entries(item.row ?? {}).filter(([name]) => !this.edit?.options.includes(name));
      this.wrong = h("p", { class: "wrong", role: "alert", hidden: true });
      this.node = h("div", { class: `screen beside review ${item.pictures.length ? "" : "bare"}` },
        item.pictures.length ? h("section", { class: "pictures", "data-given": String(Math.min(this.given().length, 9)), "data-made": String(Math.min(this.made().length, 9)), "aria-label": t("pictures") },
          this.given().length ? h("div", { class: "given" }, this.given().map((entry) => rb.figure(entry, look))) : "", this.made().length ? h("div", { class: "made" }, this.made().map((entry) => rb.figure(entry, look))) : "") : "",
        h("section", { class: "panel", "aria-label": t("marks") },
          h("div", { class: "fields" }, (this.edit?.options ?? []).map((name) => this.field(name)), this.wrong),
          kept.length ? h("dl", { class: "row" }, kept.map(([name, value]) => [h("dt", {}, rb.named("field", name)), h("dd", { dir: "auto" }, shown(value))])) : "",
          h("fieldset", { class: "choices" }, h("legend", {}, said(this.verdict.label)), h("div", { class: "sides" }, this.verdict.options.map((value) => this.choice(value))))));
      this.panel = this.node.querySelector(".panel");
    }

    /** One of several that the row lists (`output` of `outputs`) is chosen; anything else is written. */
    field(name) {
      const before = this.item.row?.[name];
      const several = this.item.row?.[`${name}s`];
      if (isLines(several) && several.length > 1) {
        const area = h("select", { id: `field-${name}`, on: { change: () => this.typed() } }, several.map((one) => h("option", { value: one, selected: one === before }, one)));
        this.fields.set(name, { area, before });
        return h("div", { class: "field" }, h("label", { for: `field-${name}` }, rb.named("field", name)), area);
      }
      const text = shown(before);
      const area = h("textarea", { id: `field-${name}`, dir: "auto", rows: String(Math.min(8, Math.max(2, Math.ceil(text.length / 46)))), on: { input: () => this.typed() } });
      area.value = text;
      this.fields.set(name, { area, before });
      return h("div", { class: "field" }, h("label", { for: `field-${name}` }, rb.named("field", name), isLines(before) ? h("small", {}, ` · ${t("review.lines")}`) : ""), area);
    }

    choice(value) {
      const input = h("input", { type: "radio", name: "decision", value, class: "offscreen", on: { change: () => this.set(value) } });
      this.inputs.set(value, input);
      return h("label", { class: `level side ${value}` }, input, h("span", { class: "face" }, rb.named("choice", value), " ", h("kbd", { "aria-hidden": "true" }, KEYS[value]?.[0] ?? "")));
    }

    /** What is written otherwise than it was; null where it cannot be read. */
    changes() {
      const found = {};
      for (const [name, { area, before }] of this.fields) {
        if (area.value !== shown(before)) {
          try {
            found[name] = read(area.value, before);
          } catch {
            return null;
          }
        }
      }
      return found;
    }

    typed() {
      const changes = this.changes();
      this.complain(changes === null ? t("review.unreadable") : "");
      this.set(changes !== null && !Object.keys(changes).length ? null : "edit");
      clearTimeout(this.timer);
      if (changes !== null && rb.source.check && Object.keys(changes).length) {
        this.timer = setTimeout(async () => {
          const reply = await rb.source.check(this.item.item, changes).catch(() => null);
          if (reply && JSON.stringify(this.changes()) === JSON.stringify(changes)) {
            this.complain(reply.wrong ?? "");
          }
        }, CHECK_AFTER_MS);
      }
    }

    complain(why) {
      this.faulty = Boolean(why);
      this.wrong.hidden = !why;
      this.wrong.textContent = why;
      this.changed();
    }

    set(value) {
      this.decision = value;
      for (const [known, input] of this.inputs) {
        input.checked = known === value;
      }
      this.changed();
    }

    press(key) {
      const found = Object.entries(KEYS).find(([value, keys]) => this.inputs.has(value) && keys.includes(key))?.[0];
      if (!found) {
        return false;
      }
      this.set(found);
      if (found === "edit") {
        this.fields.values().next().value?.area.focus();
      }
      return true;
    }

    move() {
      return false;
    }

    undo() {
      if (this.decision === null) {
        return false;
      }
      for (const { area, before } of this.fields.values()) {
        area.value = shown(before);
      }
      this.complain("");
      this.set(null);
      return true;
    }

    fill(values) {
      for (const [name, value] of Object.entries(values[this.edit?.name] ?? {})) {
        if (this.fields.has(name)) {
          this.fields.get(name).area.value = shown(value);
        }
      }
      this.set(values[this.verdict.name] ?? null);
    }

    get complete() {
      const changes = this.changes();
      return this.decision !== null && !this.faulty && (this.decision !== "edit" || (changes !== null && Object.keys(changes).length > 0));
    }

    get left() {
      return this.complete ? 0 : 1;
    }

    values() {
      const edits = this.decision === "edit" ? { [this.edit.name]: this.changes() } : {};
      return { [this.verdict.name]: this.decision, ...edits };
    }

    said() {
      return this.decision === null ? "" : rb.named("choice", this.decision);
    }
  }

  rb.screens.review = Review;
})();
