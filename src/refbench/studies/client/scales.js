/**
 * Questions and their scales: native radio buttons, so that keyboards and screen readers work as everywhere; a digit
 * marks the question that is due and goes on to the next. What a gate has closed is not asked.
 */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t, said } = rb;
  const UNSURE = "unsure";
  /** With more questions the words of a mark stand beside the title, to save a line. */
  const FEW = 3;
  let groups = 0;
  let byPointer = false;
  document.addEventListener("pointerdown", () => (byPointer = true), { capture: true });
  document.addEventListener("keydown", () => (byPointer = false), { capture: true });

  /** The key of each level: its own digit where all have one, 0 for a ten at the end, else their places. */
  function keysOf(values) {
    const digit = (value) => Number.isInteger(value) && value >= 0 && value <= 9;
    if (values.every(digit)) {
      return values.map(String);
    }
    if (!values.includes(0) && values.every((value) => digit(value) || value === 10)) {
      return values.map((value) => (value === 10 ? "0" : String(value)));
    }
    return values.map((value, place) => (place < 9 ? String(place + 1) : place === 9 ? "0" : ""));
  }

  /** The two words of a yes/no question have keys of their own beside their digits. */
  function levelsOf(question) {
    if (question.kind === "yes_no") {
      const worded = (mark) => question.levels?.[mark] ?? null;
      return [{ value: 0, shown: t("no"), key: "0", letter: "n", words: worded("0") }, { value: 1, shown: t("yes"), key: "1", letter: "y", words: worded("1") }];
    }
    const values = question.kind === "choice" ? question.options : question.marks;
    const keys = keysOf(values);
    return values.map((value, place) => ({ value, shown: question.kind === "choice" ? rb.named("choice", value) : String(value), key: keys[place], letter: "", words: question.levels?.[String(value)] ?? null }));
  }

  /** One question with its scale. */
  class Question {
    constructor(given, changed, focused) {
      Object.assign(this, { given, field: given.name, value: null, levels: levelsOf(given), closed: false });
      groups += 1;
      this.group = `q${groups}`;
      this.hint = h("span", { class: "hint", "aria-hidden": "true" });
      this.inputs = new Map();
      const options = this.levels.map((level) => this.option(level, changed));
      const unsure = this.option({ value: UNSURE, shown: t("unsure"), key: "U", letter: "u", words: null }, changed);
      unsure.classList.add("unsure");
      this.standards = given.kind === "yes_no" && this.levels.some((level) => said(level.words)) ? h("dl", { class: "standards" }, this.levels.filter((level) => said(level.words)).map((level) => [h("dt", {}, level.shown), h("dd", { dir: "auto" }, said(level.words))])) : null;
      this.title = h("p", { class: "legend", dir: "auto", id: `${this.group}-title` }, given.number ? h("span", { class: "number" }, given.number) : "", h("span", {}, said(given.label)));
      this.notAsked = h("p", { class: "not-asked", hidden: true });
      this.body = h("div", { class: "body" }, said(given.description) ? h("p", { class: "asks", dir: "auto", id: `${this.group}-asks` }, said(given.description)) : "", this.standards, h("div", { class: "scale", style: { "--levels": String(this.levels.length) } }, h("div", { class: "levels" }, options), unsure));
      this.node = h("div", { class: `question of-${given.kind}`, role: "radiogroup", "aria-labelledby": `${this.group}-title`, "aria-describedby": said(given.description) ? `${this.group}-asks` : null, on: { focusin: () => focused(this), pointerdown: () => focused(this) } }, this.title, this.hint, this.body, this.notAsked);
      this.tell();
    }

    option(level, changed) {
      const input = h("input", { type: "radio", name: this.group, value: String(level.value), class: "offscreen", on: { change: () => {
        this.set(level.value);
        changed(this);
      } } });
      this.inputs.set(level.value, input);
      const words = said(level.words);
      const tell = () => this.tell(level);
      const keyed = level.letter ? level.letter.toUpperCase() : level.key;
      return h("label", { class: "level", title: words ? `${level.shown} – ${words}` : level.shown, on: { pointerenter: tell, pointerleave: () => this.tell() } }, input,
        h("span", { class: "face" }, level.shown, keyed && keyed !== level.shown && !(level.value === 10 && keyed === "0") ? h("kbd", { "aria-hidden": "true" }, keyed) : ""), words ? h("span", { class: "offscreen" }, ` ${words}`) : "");
    }

    /** The level under the pointer, else the one that is chosen, in words. */
    tell(level = this.levels.find((known) => known.value === this.value)) {
      const ends = [this.levels[0], this.levels[this.levels.length - 1]].filter((end) => this.given.kind === "scale" && said(end.words)).map((end) => `${end.shown} ${said(end.words)}`).join(" … ");
      const words = (one) => (this.given.kind === "yes_no" ? "" : said(one.words)); // of yes and no they stand there anyway
      this.hint.textContent = level ? [level.shown, words(level)].filter(Boolean).join(" · ") : this.value === UNSURE ? t("unsure") : ends;
      this.hint.classList.toggle("chosen", this.value !== null);
      this.hint.title = this.hint.textContent;
    }

    set(value) {
      this.value = value;
      for (const [known, input] of this.inputs) {
        input.checked = known === value;
      }
      this.node.classList.toggle("answered", value !== null);
      this.tell();
    }

    close(why) {
      this.closed = Boolean(why);
      this.node.classList.toggle("closed", this.closed);
      this.body.hidden = this.closed;
      this.notAsked.hidden = !this.closed;
      this.notAsked.textContent = why ?? "";
    }

    /** The value that a key stands for; undefined where it stands for none. */
    valueOf(key) {
      if (key === "u") {
        return UNSURE;
      }
      return this.levels.find((level) => level.key === key || (level.letter && level.letter === key))?.value;
    }

    get settled() {
      return this.closed || this.value !== null || this.given.optional === true;
    }
  }

  /** A mark in words, as its question offers it. */
  function markSaid(given, value) {
    if (value === undefined || value === null) {
      return t("feedback.none");
    }
    const level = value === UNSURE ? null : levelsOf(given).find((known) => known.value === value);
    return level ? [level.shown, given.kind === "yes_no" ? "" : said(level.words)].filter(Boolean).join(" · ") : value === UNSURE ? t("unsure") : String(value);
  }

  /** Questions one after another; `single` unfolds only the one that is due. */
  class Scales {
    constructor(questions, { single = false, changed = () => {} } = {}) {
      this.changed = changed;
      this.order = [];
      this.questions = questions.map((given) => new Question(given, (question) => this.chosen(question), (question) => this.turn(question)));
      this.node = h("div", { class: single ? "scales single" : questions.length > FEW ? "scales many" : "scales" }, this.questions.map((question) => question.node));
      this.gate();
      this.turn(this.questions[0] ?? null);
    }

    turn(question) {
      if (!question || question.closed) {
        return;
      }
      this.current = question;
      for (const one of this.questions) {
        one.node.classList.toggle("due", one === question);
      }
    }

    /** Chosen by mouse, finger or arrows; only a pointer leaves the question, for the next key to mean the next one. */
    chosen(question) {
      this.answered(question, byPointer);
      if (byPointer) {
        this.advance(false);
      }
    }

    answered(question, pointed = false) {
      this.order = [...this.order.filter((one) => one !== question), question];
      this.gate();
      this.changed(pointed);
    }

    /** A question is not asked once one that it depends on was answered with no. */
    gate() {
      for (const question of this.questions) {
        const why = (question.given.needs ?? []).map((field) => this.questions.find((one) => one.field === field)).find((one) => one && (one.closed || (one.value !== null && one.value !== 1)));
        question.close(why ? t("gate.closed", { number: why.given.number || said(why.given.label) }) : null);
      }
    }

    /** Marks the question that is due and goes to the next one without a mark. True where the key meant something. */
    press(key) {
      const question = this.current;
      const value = question?.valueOf(key);
      if (value === undefined) {
        return false;
      }
      question.set(value);
      this.answered(question);
      this.advance();
      return true;
    }

    advance(into = true) {
      const place = this.questions.indexOf(this.current);
      const after = [...this.questions.slice(place + 1), ...this.questions.slice(0, place)];
      const next = after.find((question) => !question.closed && question.value === null) ?? this.questions.slice(place + 1).find((question) => !question.closed);
      if (next) {
        this.turn(next);
        if (into) {
          next.node.scrollIntoView({ block: "nearest" });
        }
      }
    }

    move(by) {
      const open = this.questions.filter((question) => !question.closed);
      const next = open[open.indexOf(this.current) + by];
      if (next) {
        this.turn(next);
        next.node.scrollIntoView({ block: "nearest" });
      }
      return Boolean(next);
    }

    /** Takes the last mark on this item back; false where there is none. */
    undo() {
      const question = this.order.pop();
      if (!question) {
        return false;
      }
      question.set(null);
      this.gate();
      this.turn(question);
      this.changed();
      return true;
    }

    fill(values) {
      for (const question of this.questions) {
        if (values?.[question.field] !== undefined && values[question.field] !== null) {
          question.set(values[question.field]);
          this.order.push(question);
        }
      }
      this.gate();
      this.turn(this.questions.find((question) => !question.settled) ?? this.questions[0] ?? null);
    }

    get complete() {
      return this.questions.every((question) => question.settled);
    }

    /** How many questions are still to be answered. */
    get left() {
      return this.questions.filter((question) => !question.settled).length;
    }

    values() {
      return Object.fromEntries(this.questions.filter((question) => !question.closed && question.value !== null).map((question) => [question.field, question.value]));
    }

    said() {
      const last = this.order[this.order.length - 1];
      return last ? `${said(last.given.label)}: ${last.hint.textContent}` : "";
    }
  }

  Object.assign(rb, { Scales, UNSURE, markSaid });
})();
