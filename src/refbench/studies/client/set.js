/** The screen `set`: the outputs of all models to one request, side by side, each with its own marks. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t } = rb;
  /** From this many outputs on, a small screen cannot show them side by side. */
  const MOST_ON_SMALL = 3;

  class Outputs extends rb.Screen {
    constructor(item, changed) {
      super(item, changed);
      const places = [...new Set(item.entries.map((given) => given.output))];
      const several = item.entries.length > places.length;
      this.several = several;
      this.small = places.length > MOST_ON_SMALL;
      this.outputs = places.map((place) => this.output(place, several));
      this.order = [];
      const given = this.given();
      const look = (entry) => this.look(entry);
      this.side = h("section", { class: "panel", "aria-label": t("marks") }, rb.texts(item), h("div", { class: "of-one" }));
      this.node = h("div", { class: `screen ${several ? "beside" : "over"} set`, "data-outputs": String(this.outputs.length) },
        h("section", { class: "pictures", "aria-label": t("pictures") }, h("div", { class: "above" }, several ? "" : rb.texts(item), given.length ? h("div", { class: "given strip" }, given.map((entry) => rb.figure(entry, look))) : ""),
          h("div", { class: "made all", "data-made": String(this.outputs.length) }, this.outputs.map((output) => output.node))),
        several ? this.side : h("section", { class: "panel slim", "aria-label": t("marks") }));
      this.panel = this.node.querySelector(".panel");
      this.turn(this.outputs[0]);
    }

    /** One output and what is asked about it; an output may be several pictures. */
    output(place, several) {
      const entries = this.made().filter((entry) => entry.output === place);
      const output = { entry: entries[0], entries, title: t("picture.letter", { letter: String.fromCodePoint(65 + place) }) };
      output.scales = new rb.Scales(this.item.entries.filter((given) => given.output === place), { changed: (pointed) => {
        const before = output.left;
        this.order.push(output);
        this.count(output);
        if (pointed && before && output.scales.complete) {
          this.onward();
        }
        this.changed();
      } });
      output.tally = h("span", { class: "tally" });
      const look = (one) => {
        this.turn(output);
        this.look(one);
      };
      output.node = h("div", { class: "cell", on: { focusin: () => this.turn(output), pointerdown: () => this.turn(output) } },
        h("div", { class: "of-output" }, entries.map((entry, number) => rb.figure(entry, look, number ? "" : output.tally))), several ? "" : output.scales.node);
      return output;
    }

    count(output) {
      const { questions, left } = output.scales;
      output.left = left;
      output.tally.textContent = this.several ? t("set.tally", { done: questions.length - left, n: questions.length }) : "";
      output.node.classList.toggle("done", left === 0);
    }

    turn(output) {
      if (this.current === output) {
        return;
      }
      this.current = output;
      this.outputs.forEach((one) => one.node.classList.toggle("due", one === output));
      this.outputs.forEach((one) => this.count(one));
      if (this.several) {
        this.side.querySelector(".of-one").replaceChildren(h("div", { class: "now" }, h("h2", { class: "which" }, output.title), this.small ? "" : output.entries.map((entry) => rb.figure(entry, (one) => this.look(one)))), output.scales.node);
      }
    }

    against(entry) {
      const given = this.given()[0];
      if (!this.made().includes(entry)) {
        return this.current.entry;
      }
      return given ?? this.made().find((one) => one !== entry) ?? null;
    }

    flicker() {
      this.look(this.current.entry);
    }

    press(key) {
      if (!this.current.scales.press(key)) {
        return false;
      }
      if (this.current.scales.complete) {
        this.onward();
      }
      return true;
    }

    /** To the first output that lacks marks, where its marks are given. */
    onward() {
      const next = this.outputs.find((output) => !output.scales.complete);
      if (next && next !== this.current) {
        this.turn(next);
        next.node.scrollIntoView({ block: "nearest" });
        if (this.several) {
          this.side.querySelector(".of-one").scrollIntoView({ block: "start" });
        }
      }
      return next;
    }

    open() {
      const { title, scales } = this.onward();
      return t("still.open.of", { picture: title, n: scales.left });
    }

    move(by) {
      if (this.several && this.current.scales.move(by)) {
        return true;
      }
      const next = this.outputs[this.outputs.indexOf(this.current) + by];
      if (next) {
        this.turn(next);
      }
      return Boolean(next);
    }

    undo() {
      const output = this.order.pop();
      if (!output) {
        return false;
      }
      this.turn(output);
      const done = output.scales.undo();
      this.order.pop(); // what undoing has just noted
      return done || this.undo();
    }

    fill(values) {
      for (const output of this.outputs) {
        output.scales.fill(values);
        this.order.push(...output.scales.order.map(() => output));
        this.count(output);
      }
      this.current = null;
      this.turn(this.outputs.find((output) => !output.scales.complete) ?? this.outputs[0]);
    }

    get complete() {
      return this.outputs.every((output) => output.scales.complete);
    }

    get left() {
      return this.outputs.reduce((sum, output) => sum + output.scales.left, 0);
    }

    values() {
      return Object.assign({}, ...this.outputs.map((output) => output.scales.values()));
    }

    said() {
      const output = this.order[this.order.length - 1];
      return output ? `${output.entry.title} · ${output.scales.said()}` : "";
    }
  }

  rb.screens.set = Outputs;
})();
