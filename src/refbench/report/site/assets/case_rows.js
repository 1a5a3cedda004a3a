/** The list of cases: only the rows in sight exist, so ten thousand scroll like ten. Thumbnails follow when one stops. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format } = rb;
  const CASES_SIZE = 25;
  const NARROW = "(max-width: 760px)";
  const HEIGHT = { wide: 78, narrow: 136 };
  const SPARE = 6;
  const STILL_MS = 90;
  const ON_PAPER = 200;

  function caseAt(board, position) {
    return rb.load(`${board.id}/cases/${Math.floor(position / CASES_SIZE)}`).then((chunk) => chunk.cases[position - chunk.start]);
  }

  function shown(list) {
    return list.find((one) => one.thumb);
  }

  /** The first picture to know a case by: a reference, else what the chosen or first model made of it. */
  function picture(one, model) {
    const outputs = one.outputs.filter((output) => model === null || output.model === model);
    return shown(one.references) ?? shown(outputs.flatMap((output) => output.pictures));
  }

  function cell(colour, name, value, failure, waits, digits, scale) {
    const said = failure ? `${name}: failed, ${format.words(failure)}` : `${name}: ${waits ? "not asked yet" : format.number(value, digits)}`;
    const share = value === null ? 0 : (100 * (value - scale.low)) / (scale.high - scale.low);
    return h("span", { class: `cell ${colour}${failure ? " failed" : ""}`, title: said, "aria-label": said },
      h("span", { class: "value" }, failure ? "✕" : format.number(value, digits)),
      h("span", { class: "level", "aria-hidden": "true" }, h("span", { style: { width: `${Math.min(100, Math.max(0, share))}%` } })));
  }

  class CaseRows {
    constructor(board) {
      this.board = board;
      this.rows = new Map();
      this.list = h("ol", { class: board.has_pictures ? "case-rows" : "case-rows plain" });
      this.heads = h("span", { class: "cells", tabindex: "0", role: "group", "aria-label": "Models: scroll sideways for more" });
      this.head = h("div", { class: board.has_pictures ? "rows-head" : "rows-head plain" }, board.has_pictures && h("span", {}), h("span", {}, "Case"), this.heads);
      this.heads.addEventListener("scroll", () => this.shift(), { passive: true });
      this.list.addEventListener("wheel", (event) => this.sideways(event), { passive: false });
      this.list.addEventListener("pointerdown", (event) => { this.from = event.pointerType === "touch" ? [event.clientX, this.heads.scrollLeft] : null; });
      this.list.addEventListener("pointermove", (event) => { if (this.from && event.pointerType === "touch") { this.heads.scrollLeft = this.from[1] + this.from[0] - event.clientX; } });
      this.narrow = matchMedia(NARROW);
      this.onScroll = () => requestAnimationFrame(() => this.draw());
      this.onResize = () => { this.clear(); this.draw(); };
      window.addEventListener("scroll", this.onScroll, { passive: true });
      window.addEventListener("resize", this.onResize);
    }

    /** Names and values of the models scroll together; what a case is about stays. */
    shift() {
      this.list.style.setProperty("--shift", `${-this.heads.scrollLeft}px`);
    }

    sideways(event) {
      const by = event.deltaX || (event.shiftKey ? event.deltaY : 0);
      if (Math.abs(by) > Math.abs(event.shiftKey ? 0 : event.deltaY) && this.heads.scrollWidth > this.heads.clientWidth) {
        event.preventDefault();
        this.heads.scrollLeft += by;
      }
    }

    /** The heads of the columns of values: the models that are chosen, the best first. */
    drawHead() {
      const { ctx } = this;
      const width = String(this.models.length);
      this.head.style.setProperty("--models", width);
      this.list.style.setProperty("--models", width);
      this.heads.replaceChildren(...this.models.map((model) => h("span", { class: "cell", title: rb.modelName(ctx, model) }, rb.badge(ctx, model), h("bdi", { class: "full" }, rb.shortName(ctx, model)))));
      this.shift();
    }

    /** On paper there is no scrolling: the first rows are drawn, and what is left out is said. */
    printed() {
      const total = this.selection?.positions.length ?? 0;
      const most = Math.min(total, ON_PAPER);
      for (let place = 0; place < most; place += 1) {
        if (!this.rows.has(place)) {
          this.put(place);
        }
      }
      const inOrder = [...this.rows.entries()].sort((a, b) => a[0] - b[0]).filter(([place]) => place < most);
      this.rows.forEach((row) => row.remove());
      this.list.append(...inOrder.map(([, row]) => row));
      return total > most ? `The first ${format.whole(most)} of ${format.count(total, "case")}.` : "";
    }

    close() {
      window.removeEventListener("scroll", this.onScroll);
      window.removeEventListener("resize", this.onResize);
      clearTimeout(this.still);
    }

    clear() {
      this.rows.forEach((row) => row.remove());
      this.rows.clear();
    }

    show(ctx, index, selection) {
      Object.assign(this, { ctx, index, selection, models: rb.chosenModels(ctx) });
      this.drawHead();
      this.clear();
      this.draw();
    }

    get height() {
      return this.narrow.matches ? HEIGHT.narrow : HEIGHT.wide;
    }

    draw() {
      const { selection, height } = this;
      if (!selection || !this.list.isConnected) {
        return;
      }
      const total = selection.positions.length;
      this.list.style.height = `${total * height}px`;
      const top = -this.list.getBoundingClientRect().top;
      const from = Math.max(0, Math.floor(top / height) - SPARE);
      const to = Math.min(total, Math.ceil((top + innerHeight) / height) + SPARE);
      for (const [place, row] of this.rows) {
        if ((place < from || place >= to) && !row.contains(document.activeElement)) {
          row.remove();
          this.rows.delete(place);
        }
      }
      for (let place = from; place < to; place += 1) {
        if (!this.rows.has(place)) {
          this.put(place);
        }
      }
      clearTimeout(this.still);
      this.still = setTimeout(() => this.pictures(), STILL_MS);
    }

    put(place) {
      const row = this.row(place, this.selection.positions[place]);
      row.style.transform = `translateY(${place * this.height}px)`;
      this.rows.set(place, row);
      this.list.append(row);
    }

    row(place, position) {
      const { ctx, index, selection, board } = this;
      const { digits } = rb.measureOf(ctx, ctx.summary);
      const id = index.ids[position];
      const groups = Object.values(index.groups).map((group) => group.names[group.of[position]]).filter(Boolean);
      const references = index.references[position];
      const facts = [...groups, references ? format.count(references, "reference") : ""].filter(Boolean).join(" · ");
      const beside = selection.beside(position);
      const starred = rb.annotations.of(board.id, id).star;
      const link = h("a", { class: "case-link", id: `case-${position}`, href: route.to("case", { rest: id, params: Object.fromEntries(ctx.params) }) },
        board.has_pictures && h("span", { class: "thumb", "aria-hidden": "true" }),
        h("span", { class: "about" },
          h("span", { class: "instruction", dir: "auto" }, index.instructions[position] || "(no instruction)"),
          h("span", { class: "facts" }, starred && h("span", { class: "star", title: "starred" }, "★ "),
            beside && h("strong", {}, `${beside} · `), h("span", { class: "id" }, id), facts && ` · ${facts}`)),
        h("span", { class: "cells" }, h("span", { class: "moved" }, this.models.map((number) =>
          cell(rb.colourOf(ctx, number), rb.modelName(ctx, number), selection.found.values[number]?.[position] ?? null, selection.found.failed[number]?.[position] ?? null, selection.found.waiting[number]?.has(position) ?? false, digits, selection.found.scale)))));
      return h("li", { "aria-setsize": selection.positions.length, "aria-posinset": place + 1, "data-place": place }, link);
    }

    /** Chunks of the rows in sight, and of no other. */
    pictures() {
      if (!this.board.has_pictures) {
        return;
      }
      for (const [place, row] of this.rows) {
        const box = row.getBoundingClientRect();
        const frame = row.querySelector(".thumb");
        if (frame.dataset.asked || box.bottom < -this.height || box.top > innerHeight + this.height) {
          continue;
        }
        frame.dataset.asked = "yes";
        caseAt(this.board, this.selection.positions[place]).then((one) => {
          const found = picture(one, this.selection.want.model);
          frame.replaceChildren(found ? h("img", { src: found.thumb, alt: "", decoding: "async" }) : "");
        }, () => { delete frame.dataset.asked; });
      }
    }

    /** Moves the focus by some rows from where it is, or from the first row in sight. */
    step(by) {
      const now = document.activeElement?.closest?.("li[data-place]");
      const first = Math.max(0, Math.ceil(-this.list.getBoundingClientRect().top / this.height));
      const place = Math.min(this.selection.positions.length - 1, Math.max(0, now ? Number(now.dataset.place) + by : first));
      if (!this.rows.has(place)) {
        window.scrollTo(0, window.scrollY + this.list.getBoundingClientRect().top + place * this.height - innerHeight / 2);
        this.draw();
      }
      this.rows.get(place)?.querySelector("a").focus();
    }

    focused() {
      const now = document.activeElement?.closest?.("li[data-place]");
      return now ? this.index.ids[this.selection.positions[Number(now.dataset.place)]] : null;
    }
  }

  Object.assign(rb, { CaseRows, caseAt });
})();
