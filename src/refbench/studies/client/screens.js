/** The screens `rate`, `questions` and `reference`: pictures beside questions. And what every screen has of pictures. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, t, said } = rb;

  const isGiven = (entry) => entry.output === null;

  /** What a picture is called on the page: its number and role, its letter or its side; never whose it is. */
  function titleOf(item, picture, number) {
    if (item.screen === "reference") {
      return rb.named("role", picture.role);
    }
    if (isGiven(picture)) {
      const role = picture.role && picture.role !== "reference" ? ` · ${rb.named("role", picture.role)}` : "";
      return t("picture.input", { number }) + role;
    }
    const whose = { set: () => t("picture.letter", { letter: String.fromCodePoint(65 + picture.output) }), pair: () => t(`choice.${picture.output}`) };
    return (whose[item.screen]?.() ?? t("picture.output")) + (picture.number ? ` ${picture.number}` : "");
  }

  /** Pictures that a request gave are numbered as the model got them: the instruction may speak of image 2. */
  function entriesOf(item) {
    return item.pictures.map((picture, place) => ({ ...picture, title: titleOf(item, picture, place + 1), src: rb.source.picture(picture.name) }));
  }

  /** A picture as a button that opens it; one that does not load says so and can be asked for again. */
  function figure(entry, look, ...below) {
    const image = h("img", { src: entry.src, alt: entry.title, width: entry.width || null, height: entry.height || null, draggable: "false" });
    const lost = h("p", { class: "lost", hidden: true }, t("picture.lost"), " ", h("button", { type: "button", class: "quiet", on: { click: (event) => {
      event.stopPropagation();
      image.src = `${entry.src}?again=${Date.now()}`;
    } } }, t("picture.again")));
    image.addEventListener("error", () => (lost.hidden = false));
    image.addEventListener("load", () => (lost.hidden = true));
    return h("figure", { class: `picture ${isGiven(entry) ? "input" : "output"}`, "data-slot": entry.name }, h("button", { type: "button", class: "see", "aria-label": t("look.at", { picture: entry.title }), on: { click: () => look(entry) } }, image), lost, h("figcaption", { dir: "auto" }, entry.title, ...below));
  }

  /** The instruction, and other texts of the item under their names. */
  function texts(item) {
    const shown = [["attention", item.attention && said(item.attention)], ["instruction", item.instruction], ["caption", item.text]].filter(([, text]) => text);
    if (!shown.length) {
      return "";
    }
    return h("section", { class: "texts", "aria-label": t("texts") }, shown.map(([name, text]) => h("div", { class: "said-text" }, h("h2", {}, t(`text.${name}`)), h("p", { class: "instruction", dir: "auto", tabindex: "0" }, text))));
  }

  /** Every screen: its pictures, a place that the keys act on, and the values that are given. */
  class Screen {
    constructor(item, changed) {
      Object.assign(this, { item, changed, entries: entriesOf(item) });
      this.looking = new rb.Looking(this.entries, () => document.getElementById("main").focus({ preventScroll: true }));
    }

    /** Opens a picture; beside it, ready to flicker, the one that it is compared with. */
    look(entry) {
      this.looking.open(entry, this.against(entry));
    }

    against(entry) {
      const made = this.entries.filter((one) => !isGiven(one));
      return (isGiven(entry) ? made[0] : this.entries.find(isGiven) ?? made.find((one) => one !== entry)) ?? null;
    }

    /** What the key for flickering does from the page. */
    flicker() {
      const first = this.entries.find((one) => !isGiven(one)) ?? this.entries[0];
      if (first) {
        this.look(first);
      }
    }

    given() {
      return this.entries.filter(isGiven);
    }

    made() {
      return this.entries.filter((entry) => !isGiven(entry));
    }

    press(key) {
      return this.scales.press(key);
    }

    move(by) {
      return this.scales.move(by);
    }

    undo() {
      return this.scales.undo();
    }

    fill(values) {
      this.scales.fill(values);
    }

    get complete() {
      return this.scales.complete;
    }

    get left() {
      return this.scales.left;
    }

    /** What is still to be marked, in words. */
    open() {
      return t("still.open", { n: this.left });
    }

    /** Pictures that nobody can see yet; `lost` are those that did not load. */
    unseen() {
      const copies = (entry) => [...this.node.querySelectorAll(`[data-slot="${entry.name}"] img`)];
      const missing = this.entries.map((entry) => ({ entry, images: copies(entry) })).filter(({ images }) => images.length && !images.some((image) => image.complete && image.naturalWidth));
      return missing.map(({ entry, images }) => ({ ...entry, lost: images.some((image) => image.complete) }));
    }

    values() {
      return this.scales.values();
    }

    said() {
      return this.scales.said();
    }
  }

  class Beside extends Screen {
    constructor(item, changed) {
      super(item, changed);
      const single = item.screen === "questions";
      this.scales = new rb.Scales(single ? item.entries.map((entry, place) => ({ ...entry, number: place + 1 })) : item.entries, { single, changed });
      const [given, made] = [this.given(), this.made()];
      const look = (entry) => this.look(entry);
      this.node = h("div", { class: `screen beside ${item.screen}` },
        h("section", { class: "pictures", "data-given": String(Math.min(given.length, 9)), "data-made": String(Math.min(made.length, 9)), "aria-label": t("pictures") },
          given.length ? h("div", { class: "given" }, given.map((entry) => figure(entry, look))) : "",
          h("div", { class: "made" }, made.map((entry) => figure(entry, look)))),
        h("section", { class: "panel", "aria-label": t("marks") }, texts(item), this.scales.node));
      this.panel = this.node.querySelector(".panel");
    }
  }

  Object.assign(rb, { Screen, figure, texts, screens: { rate: Beside, questions: Beside, reference: Beside } });
})();
