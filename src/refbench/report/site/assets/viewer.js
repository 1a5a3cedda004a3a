/** Looking closely: one picture of a case, two flipped in place or divided by a slider, or those of all models in step. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, Lens } = rb;
  const MODES = [{ value: "one", text: "One" }, { value: "flip", text: "Flip" }, { value: "slide", text: "Slider" }, { value: "all", text: "All models" }];

  /** Opens on what the address names (`zoom`, `with`, `mode`) and follows it; closing takes the names away. */
  class Viewer {
    constructor(entries, instruction, saidOf) {
      Object.assign(this, { entries, saidOf });
      this.first = h("img", { alt: "", draggable: "false" });
      this.second = h("img", { alt: "", draggable: "false", class: "over" });
      this.stage = h("div", { class: "stage" }, this.first, this.second);
      this.pane = h("div", { class: "pane" }, this.stage);
      this.grid = h("div", { class: "panes" });
      this.slider = h("input", { type: "range", min: "0", max: "100", step: "0.1", class: "divider", "aria-label": "Where the first picture ends and the second begins", on: { input: () => this.divide() } });
      this.edge = h("div", { class: "edge", "aria-hidden": "true", on: { pointerdown: (event) => this.edge.setPointerCapture(event.pointerId), pointermove: (event) => this.drag(event) } });
      this.frame = h("div", { class: "lens" }, this.pane, this.grid, this.edge);
      this.lens = new Lens(this.frame, () => this.one && this.divide(), () => this.mode === "flip" && this.flip());
      this.caption = h("p", { class: "caption", "aria-live": "polite" });
      this.bar = h("div", { class: "viewer-bar" });
      this.dialog = h("dialog", { class: "viewer", tabindex: "-1", "aria-label": "Picture" }, this.bar, this.frame,
        h("div", { class: "viewer-foot" }, this.slider, this.caption, h("p", { class: "asked", dir: "auto" }, instruction)));
      this.dialog.addEventListener("close", () => this.dialog.remove());
      this.dialog.addEventListener("cancel", (event) => {
        event.preventDefault();
        this.leave();
      });
      for (const image of [this.first, this.second]) {
        image.addEventListener("load", () => this.one && this.divide());
      }
    }

    drag(event) {
      if (this.edge.hasPointerCapture(event.pointerId)) {
        const box = this.frame.getBoundingClientRect();
        this.slider.value = String((100 * (event.clientX - box.left)) / box.width);
        this.divide();
      }
    }

    leave() {
      route.replace(route.changed({ zoom: null, with: null, mode: null }));
    }

    /** The picture of that name; of another case, which may lack it, the nearest to it: the same model's, else any. */
    entry(key) {
      const model = /^out-(\d+)-/.exec(key ?? "");
      return this.entries.find((one) => one.key === key) ?? (model && this.entries.find((one) => one.model === Number(model[1]))) ?? null;
    }

    follow(params, models) {
      this.models = models;
      const one = params.get("zoom") === null ? null : this.entry(params.get("zoom")) ?? this.entries[0];
      if (!one) {
        if (this.dialog.open) {
          this.dialog.close();
        }
        return;
      }
      const second = this.entry(params.get("with"));
      const other = (second !== one && second) || this.entries.find((entry) => entry !== one && entry.model !== null) || this.entries.find((entry) => entry !== one);
      const mode = other && MODES.some((known) => known.value === params.get("mode")) ? params.get("mode") : "one";
      const kept = mode === this.mode && one === this.one && other === this.other;
      Object.assign(this, { one, other, mode, flipped: kept && this.flipped });
      const closed = !this.dialog.isConnected;
      if (closed) {
        document.body.append(this.dialog);
        this.slider.value = "50";
      }
      this.draw();
      if (closed) {
        this.dialog.showModal();
        this.dialog.focus();
        this.lens.reset();
      }
    }

    choose(changes) {
      const { mode } = this;
      route.replace(route.changed({ zoom: this.one.key, with: mode === "one" || mode === "all" ? null : this.other.key, mode: mode === "one" ? null : mode, ...changes }));
    }

    source(image, entry) {
      const path = rb.relative(entry.picture.full || entry.picture.thumb);
      if (image.getAttribute("src") !== path) {
        image.src = path;
      }
      image.alt = entry.title;
    }

    menu(name, now) {
      return h("select", { "aria-label": name === "zoom" ? "Picture" : "Second picture", id: `viewer-${name}`, on: { change: (event) => this.choose({ [name]: event.target.value }) } },
        this.entries.map((entry) => h("option", { value: entry.key, selected: entry === now }, entry.title)));
    }

    /** What stands side by side: the first given picture, and the final ones of the models that are shown. */
    together() {
      const given = this.entries.find((entry) => entry.model === null && entry.key.startsWith("ref-"));
      const made = this.models.map((model) => this.entries.find((entry) => entry.model === model && entry.final)).filter(Boolean);
      return [given, ...made].filter(Boolean);
    }

    draw() {
      const { mode, one, other } = this;
      const several = mode === "all";
      this.pane.hidden = several;
      this.grid.hidden = !several;
      this.source(this.first, one);
      const two = mode === "flip" || mode === "slide";
      this.second.hidden = !two;
      if (two) {
        this.source(this.second, other);
      }
      this.slider.hidden = mode !== "slide";
      this.edge.hidden = mode !== "slide";
      this.drawAll(several);
      rb.keepingFocus(() => this.bar.replaceChildren(
        h("span", { class: "viewer-pair" }, several ? "" : [this.menu("zoom", one), ...(two ? [h("span", { "aria-hidden": "true" }, mode === "flip" ? "⇄" : "│"), this.menu("with", other)] : [])]),
        h("span", { class: "segments", role: "group", "aria-label": "How to look" }, MODES.map((known) => h("button", {
          type: "button", id: `viewer-mode-${known.value}`, "aria-pressed": String(known.value === mode), disabled: !other && known.value !== "one",
          on: { click: () => this.choose({ mode: known.value === "one" ? null : known.value, with: known.value === "flip" || known.value === "slide" ? other.key : null }) },
        }, known.text))),
        h("span", { class: "segments", role: "group", "aria-label": "Zoom" },
          h("button", { type: "button", "aria-label": "Zoom out", on: { click: () => this.lens.by(1 / 1.5) } }, "−"),
          h("button", { type: "button", on: { click: () => this.lens.reset() } }, "Fit"),
          h("button", { type: "button", "aria-label": "Zoom in", on: { click: () => this.lens.by(1.5) } }, "+")),
        h("button", { type: "button", class: "leave", "aria-label": "Close", on: { click: () => this.leave() } }, "✕")));
      this.divide();
    }

    drawAll(several) {
      const shown = several ? this.together() : [];
      const across = Math.ceil(Math.sqrt(shown.length * 1.4)) || 1;
      this.grid.style.setProperty("--across", String(Math.min(across, matchMedia("(max-width: 760px)").matches ? 2 : 6)));
      const drawn = shown.map((entry) => entry.key).join(" ");
      if (this.drawn !== drawn) {
        this.drawn = drawn;
        this.grid.replaceChildren(...shown.map((entry) => {
          const image = h("img", { alt: entry.title, draggable: "false" });
          this.source(image, entry);
          return h("figure", {}, h("div", { class: "pane" }, h("div", { class: "stage" }, image)), h("figcaption", {}, entry.title, this.score(entry)));
        }));
      }
      this.lens.show(several ? [...this.grid.querySelectorAll(".stage")] : [this.stage]);
    }

    score(entry) {
      const said = entry.model === null ? "" : this.saidOf(entry.model);
      return said ? ` · ${said}` : "";
    }

    /** Title, score, and the size of the file beside that of what is shown, where that is smaller. */
    about(entry, image) {
      const { width, height } = entry.picture;
      const smaller = image.naturalWidth > 0 && image.naturalWidth < width && image.getAttribute("src") === rb.relative(entry.picture.full || entry.picture.thumb);
      const size = width ? ` · ${width} × ${height}${smaller ? `, shown from ${image.naturalWidth} × ${image.naturalHeight}` : ""}` : "";
      return `${entry.title}${this.score(entry)}${size}`;
    }

    divide() {
      const { mode, one, other } = this;
      const edge = Number(this.slider.value);
      const at = this.lens.onStage(edge);
      const over = mode === "flip" && this.flipped;
      this.second.style.clipPath = mode === "slide" ? `inset(0 0 0 ${at}%)` : "none";
      this.second.style.opacity = mode === "flip" && !this.flipped ? "0" : "1";
      this.first.style.clipPath = mode === "slide" ? `inset(0 ${100 - at}% 0 0)` : "none";
      this.first.style.opacity = over ? "0" : "1";
      this.edge.style.left = `${edge}%`;
      const now = over ? this.about(other, this.second) : this.about(one, this.first);
      const said = { slide: `${one.title}${this.score(one)} │ ${other?.title}${other ? this.score(other) : ""}`, flip: `${now} · tap or press F to flip`, all: "Zoom and move one, and all follow." }[mode] ?? now;
      if (this.caption.textContent !== said) {
        this.caption.textContent = said;
      }
    }

    flip() {
      if (this.mode === "flip") {
        this.flipped = !this.flipped;
        this.divide();
      } else if (this.other) {
        this.choose({ mode: "flip", with: this.other.key });
      }
    }

    /** The next picture in the place of the first one, which is never the one it is compared with. */
    next(by) {
      if (this.mode === "all") {
        return;
      }
      const others = this.entries.filter((entry) => this.mode === "one" || entry !== this.other);
      const place = others.indexOf(this.one);
      this.choose({ zoom: others[(place + by + others.length) % others.length].key });
    }

    keys() {
      return {
        f: () => this.flip(), a: () => this.choose({ mode: "all", with: null }), "+": () => this.lens.by(1.5), "=": () => this.lens.by(1.5), "-": () => this.lens.by(1 / 1.5), 0: () => this.lens.reset(),
        ArrowRight: () => this.next(1), ArrowLeft: () => this.next(-1),
      };
    }
  }

  rb.Viewer = Viewer;
})();
