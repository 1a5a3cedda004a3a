/** The screen `pair`: two pictures, and which one is better; why is optional. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t, said } = rb;
  /** The sides by their places, as entries name them, with what chooses them. */
  const CHOICES = [["0", "1", "ArrowLeft", "←"], ["1", "2", "ArrowRight", "→"], ["tie", "3", "ArrowDown", "↓"], ["both_bad", "4", "ArrowUp", "↑"], [rb.UNSURE, "u", "", ""]];

  class Pair extends rb.Screen {
    constructor(item, changed) {
      super(item, changed);
      this.value = null;
      this.inputs = new Map();
      const [asked, ...reasons] = item.entries;
      this.asked = asked;
      this.why = new rb.Scales(reasons, { changed });
      const look = (entry) => this.look(entry);
      const given = this.given();
      const choices = h("fieldset", { class: "choices" }, h("legend", { dir: "auto" }, said(asked.label)), h("div", { class: "sides" }, CHOICES.map((choice) => this.choice(...choice))));
      this.node = h("div", { class: "screen over pair" },
        h("section", { class: "above" }, rb.texts(item), given.length ? h("div", { class: "given strip" }, given.map((entry) => rb.figure(entry, look))) : ""),
        h("section", { class: "pictures", "data-made": "2", "aria-label": t("pictures") }, h("div", { class: "made two" }, [0, 1].map((side) => h("div", { class: "of-output" }, this.made().filter((entry) => entry.output === side).map((entry) => rb.figure(entry, look)))))),
        h("section", { class: "panel", "aria-label": t("marks") }, choices, reasons.length ? h("details", { class: "why" }, h("summary", {}, t("pair.why")), this.why.node) : ""));
      this.panel = this.node.querySelector(".panel");
    }

    choice(value, key, arrow, sign) {
      const input = h("input", { type: "radio", name: "pair", value, class: "offscreen", on: { change: () => this.set(value) } });
      this.inputs.set(value, input);
      const word = value === rb.UNSURE ? t("unsure") : t(`choice.${value}`);
      return h("label", { class: `level side of-${value}` }, input, h("span", { class: "face" }, sign && h("span", { "aria-hidden": "true" }, `${sign} `), word, " ", h("kbd", { "aria-hidden": "true" }, key.toUpperCase())));
    }

    set(value) {
      this.value = value;
      for (const [known, input] of this.inputs) {
        input.checked = known === value;
      }
      this.changed();
    }

    against(entry) {
      const other = this.made().filter((one) => one.output !== entry.output);
      return other.find((one) => one.number === entry.number) ?? other[0] ?? null;
    }

    press(key) {
      const choice = CHOICES.find(([, digit, arrow]) => key === digit || (arrow && key === arrow));
      if (choice) {
        this.set(choice[0]);
      }
      return Boolean(choice);
    }

    move() {
      return false;
    }

    undo() {
      if (this.value === null) {
        return false;
      }
      this.set(null);
      return true;
    }

    fill(values) {
      const { [this.asked.name]: value, ...why } = values;
      this.set(value ?? null);
      this.why.fill(why);
    }

    get complete() {
      return this.value !== null;
    }

    get left() {
      return this.value === null ? 1 : 0;
    }

    values() {
      return { [this.asked.name]: this.value, ...this.why.values() };
    }

    said() {
      return this.value === null ? "" : this.value === rb.UNSURE ? t("unsure") : t(`choice.${this.value}`);
    }
  }

  rb.screens.pair = Pair;
})();
