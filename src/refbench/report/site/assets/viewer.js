/** Looking closely: one picture or two of a case, with pan and zoom, flipped in place or divided by a slider. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route } = rb;
  const MOST = 32;
  const MODES = [{ value: "one", text: "One" }, { value: "flip", text: "Flip" }, { value: "slide", text: "Slider" }];

  /** Pan and zoom of the stage by pointer, wheel and pinch. */
  class Lens {
    constructor(frame, stage, changed, tapped) {
      Object.assign(this, { frame, stage, changed, x: 0, y: 0, zoom: 1, pointers: new Map(), travelled: 0 });
      frame.addEventListener("wheel", (event) => {
        event.preventDefault();
        this.by(Math.exp(-event.deltaY * 0.0016), event.clientX, event.clientY);
      }, { passive: false });
      frame.addEventListener("pointerdown", (event) => {
        if (!event.target.closest("input, button, .edge")) {
          this.travelled = 0;
          frame.setPointerCapture(event.pointerId);
          this.pointers.set(event.pointerId, [event.clientX, event.clientY]);
        }
      });
      frame.addEventListener("pointermove", (event) => this.moved(event));
      frame.addEventListener("pointerup", (event) => {
        if (this.pointers.delete(event.pointerId) && this.travelled < 4) {
          tapped();
        }
      });
      frame.addEventListener("pointercancel", (event) => this.pointers.delete(event.pointerId));
      frame.addEventListener("dblclick", (event) => (this.zoom > 1 ? this.reset() : this.by(3, event.clientX, event.clientY)));
    }

    moved(event) {
      const before = this.pointers.get(event.pointerId);
      if (!before) {
        return;
      }
      const now = [event.clientX, event.clientY];
      const other = [...this.pointers.entries()].find(([id]) => id !== event.pointerId)?.[1];
      this.pointers.set(event.pointerId, now);
      this.travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (other) {
        const far = ([x, y]) => Math.hypot(x - other[0], y - other[1]) || 1;
        this.by(far(now) / far(before), other[0], other[1]);
      } else {
        this.x += now[0] - before[0];
        this.y += now[1] - before[1];
        this.apply();
      }
    }

    /** Zooms by a factor and keeps the point under the pointer where it is. */
    by(factor, atX, atY) {
      const box = this.frame.getBoundingClientRect();
      const [fromX, fromY] = [(atX ?? box.left + box.width / 2) - box.left - box.width / 2, (atY ?? box.top + box.height / 2) - box.top - box.height / 2];
      const zoom = Math.min(MOST, Math.max(1, this.zoom * factor));
      this.x = fromX - ((fromX - this.x) * zoom) / this.zoom;
      this.y = fromY - ((fromY - this.y) * zoom) / this.zoom;
      this.zoom = zoom;
      if (zoom === 1) {
        this.x = 0;
        this.y = 0;
      }
      this.apply();
    }

    reset() {
      Object.assign(this, { x: 0, y: 0, zoom: 1 });
      this.apply();
    }

    apply() {
      this.stage.style.transform = `translate(${this.x}px, ${this.y}px) scale(${this.zoom})`;
      this.stage.classList.toggle("close", this.zoom > 4);
      this.changed();
    }

    /** Where a place of the frame lies on the stage, both in per cent of the width. */
    onStage(percent) {
      const { width } = this.frame.getBoundingClientRect();
      return width ? 50 + (percent - 50 - (100 * this.x) / width) / this.zoom : percent;
    }
  }

  /** Opens on what the address names (`zoom`, `with`, `mode`) and follows it; closing takes the names away. */
  class Viewer {
    constructor(entries) {
      this.entries = entries;
      this.first = h("img", { alt: "", draggable: "false" });
      this.second = h("img", { alt: "", draggable: "false", class: "over" });
      this.stage = h("div", { class: "stage" }, this.first, this.second);
      this.slider = h("input", { type: "range", min: "0", max: "100", step: "0.1", class: "divider", "aria-label": "Where the first picture ends and the second begins", on: { input: () => this.divide() } });
      this.edge = h("div", { class: "edge", "aria-hidden": "true", on: { pointerdown: (event) => this.edge.setPointerCapture(event.pointerId), pointermove: (event) => this.drag(event) } });
      this.frame = h("div", { class: "lens" }, this.stage, this.edge);
      this.lens = new Lens(this.frame, this.stage, () => this.one && this.divide(), () => this.mode === "flip" && this.flip());
      this.caption = h("p", { class: "caption", "aria-live": "polite" });
      this.bar = h("div", { class: "viewer-bar" });
      this.dialog = h("dialog", { class: "viewer", tabindex: "-1", "aria-label": "Picture" }, this.bar, this.frame, h("div", { class: "viewer-foot" }, this.slider, this.caption));
      this.dialog.addEventListener("close", () => this.dialog.remove());
      this.dialog.addEventListener("cancel", (event) => {
        event.preventDefault();
        this.leave();
      });
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

    follow(params) {
      const entry = (key) => this.entries.find((one) => one.key === key);
      const one = entry(params.get("zoom"));
      if (!one) {
        if (this.dialog.open) {
          this.dialog.close();
        }
        return;
      }
      const other = entry(params.get("with")) ?? this.entries.find((entryOne) => entryOne !== one && entryOne.model !== null) ?? this.entries.find((entryOne) => entryOne !== one);
      const mode = other && MODES.some((known) => known.value === params.get("mode")) ? params.get("mode") : "one";
      Object.assign(this, { one, other, mode, flipped: false });
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
      route.replace(route.changed({ zoom: this.one.key, with: this.mode === "one" ? null : this.other.key, mode: this.mode === "one" ? null : this.mode, ...changes }));
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

    draw() {
      const { mode, one, other } = this;
      this.source(this.first, one);
      this.second.hidden = mode === "one";
      if (mode !== "one") {
        this.source(this.second, other);
      }
      this.slider.hidden = mode !== "slide";
      this.edge.hidden = mode !== "slide";
      rb.keepingFocus(() => this.bar.replaceChildren(
        h("span", { class: "viewer-pair" }, this.menu("zoom", one), ...(mode === "one" ? [] : [h("span", { "aria-hidden": "true" }, mode === "flip" ? "⇄" : "│"), this.menu("with", other)])),
        h("span", { class: "segments", role: "group", "aria-label": "How to look" }, MODES.map((known) => h("button", {
          type: "button", id: `viewer-mode-${known.value}`, "aria-pressed": String(known.value === mode), disabled: !other && known.value !== "one",
          on: { click: () => this.choose({ mode: known.value === "one" ? null : known.value, with: known.value === "one" ? null : other.key }) },
        }, known.text))),
        h("span", { class: "segments", role: "group", "aria-label": "Zoom" },
          h("button", { type: "button", "aria-label": "Zoom out", on: { click: () => this.lens.by(1 / 1.5) } }, "−"),
          h("button", { type: "button", on: { click: () => this.lens.reset() } }, "Fit"),
          h("button", { type: "button", "aria-label": "Zoom in", on: { click: () => this.lens.by(1.5) } }, "+")),
        h("button", { type: "button", class: "leave", "aria-label": "Close", on: { click: () => this.leave() } }, "✕")));
      this.divide();
    }

    divide() {
      const { mode, one, other } = this;
      const edge = Number(this.slider.value);
      const at = this.lens.onStage(edge);
      this.second.style.clipPath = mode === "slide" ? `inset(0 0 0 ${at}%)` : "none";
      this.second.style.opacity = mode === "flip" && !this.flipped ? "0" : "1";
      this.first.style.clipPath = mode === "slide" ? `inset(0 ${100 - at}% 0 0)` : "none";
      this.first.style.opacity = mode === "flip" && this.flipped ? "0" : "1";
      this.edge.style.left = `${edge}%`;
      const now = mode === "flip" && this.flipped ? other : one;
      const size = now.picture.width ? ` · ${now.picture.width} × ${now.picture.height}` : "";
      this.caption.textContent = mode === "slide" ? `${one.title} │ ${other.title}` : mode === "flip" ? `${now.title}${size} · tap or press F to flip` : `${now.title}${size}`;
    }

    flip() {
      if (this.mode === "flip") {
        this.flipped = !this.flipped;
        this.divide();
      } else if (this.other) {
        this.choose({ mode: "flip", with: this.other.key });
      }
    }

    next(by) {
      const place = this.entries.indexOf(this.one);
      this.choose({ zoom: this.entries[(place + by + this.entries.length) % this.entries.length].key });
    }

    keys() {
      return {
        f: () => this.flip(), "+": () => this.lens.by(1.5), "=": () => this.lens.by(1.5), "-": () => this.lens.by(1 / 1.5), 0: () => this.lens.reset(),
        ArrowRight: () => this.next(1), ArrowLeft: () => this.next(-1),
      };
    }
  }

  rb.Viewer = Viewer;
})();
