/** The outputs behind a cell of an audit's matrix: clean and changed side by side, with the judge's marks and words. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format } = rb;

  /** One number for each repeat, or what became of it. */
  function marksOf(list, digits) {
    return (list ?? []).map((one) => (one === null ? "not asked yet" : typeof one === "number" ? format.number(one, digits) : `✕ ${format.words(one)}`));
  }

  function meanOf(list) {
    const there = (list ?? []).filter((one) => typeof one === "number");
    return there.length ? there.reduce((sum, one) => sum + one, 0) / there.length : null;
  }

  const digitsOf = (lists) => (lists.flat().every((one) => typeof one !== "number" || Number.isInteger(one)) ? 0 : 2);

  class AuditCell {
    constructor(told) {
      Object.assign(this, { told, turn: 0, open: "" });
      this.body = h("div", { class: "cell-body" });
      this.dialog = h("dialog", { class: "audit-cell", "aria-labelledby": "cell-title" }, this.body);
      this.dialog.addEventListener("cancel", (event) => {
        event.preventDefault();
        this.leave();
      });
      this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.leave());
    }

    leave() {
      route.replace(route.changed({ cell: null }));
    }

    end() {
      this.turn += 1;
      this.dialog.close();
      this.dialog.remove();
    }

    /** Opens on what the address names (`cell`) and follows it. */
    follow(ctx, entry) {
      const [kind, number, ...rest] = (ctx.params.get("cell") ?? "").split("/");
      const cell = entry.report?.[kind]?.find?.((one) => one.number === Number(number) && one.criterion === rest.join("/"));
      if (!cell) {
        this.open = "";
        this.turn += 1;
        if (this.dialog.open) {
          this.dialog.close();
        }
        return;
      }
      const name = [entry.run, entry.judge, kind, number, ...rest].join("\n");
      if (name === this.open && this.dialog.open) {
        return;
      }
      this.open = name;
      const places = h("div", { class: "cell-cases" }, cell.worst.length ? h("p", { class: "wait" }, "Reading the pictures …") : rb.note("No output has marks of both."));
      this.body.replaceChildren(this.head(entry, kind, cell), places);
      if (!this.dialog.isConnected) {
        document.body.append(this.dialog);
      }
      if (!this.dialog.open) {
        this.dialog.showModal();
      }
      this.dialog.scrollTop = 0;
      this.fill(ctx, entry, cell, places);
    }

    head(entry, kind, cell) {
      const { word, look, sign, figure, signed } = this.told(kind, cell);
      const fact = (title, one, sign = false) => one && one.value !== undefined && [h("dt", {}, title), h("dd", {}, one.value === null ? one.why || "no number" : `${sign ? format.signed(one.value) : format.number(one.value)}${one.ci95 ? ` (95 % interval ${format.interval(one.ci95)})` : ""}, ${format.count(one.n, "case")}`)];
      const titles = { damages: "sees: share of pairs with the clean mark higher", nuisances: "mean change of the mark", attacks: "mean rise of the mark", controls: "rank correlation with marks of the pictures", pairs: "first side, above half" };
      const failed = format.failures(cell.failures);
      return h("header", { class: "cell-head" },
        h("h2", { id: "cell-title" }, `${cell.number} ${cell.said}, `, h("bdi", {}, format.words(cell.criterion))),
        h("button", { type: "button", class: "leave", "aria-label": "Close", on: { click: () => this.leave() } }, "✕"),
        h("p", { class: "cell-verdict" }, word && h("span", { class: `verdict ${look}` }, h("span", { class: "said" }, sign && h("span", { "aria-hidden": "true" }, `${sign} `), word)), h("span", { class: "quiet" }, look === "plain" ? "no verdict" : ` ${entry.report.card.note}`)),
        h("dl", { class: "facts" }, fact(titles[kind], figure, signed), fact("mean fall in steps", cell.drop), fact("share that rises by a tenth of the range", cell.share_rising), fact("beyond asking again", cell.excess, true), fact("mean without seeing", cell.mean),
          cell.at_floor > 0 && [h("dt", {}, "left out"), h("dd", {}, `${format.count(cell.at_floor, "case")} with a clean mark that has nothing to lose`)],
          failed && [h("dt", {}, "no mark"), h("dd", {}, failed)], cell.more_cases && [h("dt", {}, figure.value === null ? "a number takes" : "would tell, four times in five"), h("dd", {}, `${figure.value === null ? "" : "about "}${format.count(cell.more_cases, "more case")}`)]));
    }

    async fill(ctx, entry, cell, places) {
      const mine = (this.turn += 1);
      let drawn;
      try {
        const index = await rb.caseIndex(ctx.board);
        const cases = await Promise.all(cell.worst.map(([id]) => rb.caseAt(ctx.board, index.at.get(id))));
        drawn = cases.map((one, place) => this.article(ctx, entry, cell, one, place));
      } catch (error) {
        drawn = [rb.note(`${error.message}.`)];
      }
      if (mine === this.turn && drawn.length) {
        places.replaceChildren(...drawn);
      }
    }

    article(ctx, entry, cell, one, place) {
      const known = entry.variants[one.id] ?? {};
      const changed = Object.keys(known).filter((name) => Number(name.split(":")[0]) === cell.number);
      const bases = [...new Set(["clean", ...changed.map((name) => known[name].base)])].filter((name) => name in known);
      const shown = [...bases, ...changed];
      const digits = digitsOf(shown.map((name) => known[name].marks[cell.criterion] ?? []));
      return h("article", { class: "cell-case", "data-case": one.id, "aria-label": `Output ${place + 1}: ${one.id}` },
        h("h3", {}, `${place + 1}. `, h("a", { href: route.to("case", { rest: one.id, params: { models: shown.map((name) => known[name].model).join(",") } }) }, h("bdi", {}, one.id))),
        h("p", { class: "instruction", dir: "auto" }, one.instruction || "(no instruction)"),
        one.references.length > 0 && this.strip("Given", one.references),
        h("div", { class: "cell-pictures" }, shown.map((name) => this.variant(ctx, entry, cell, one, { name, of: known[name], base: known[known[name].base], digits }))));
    }

    /** Small pictures in a row: what was given. */
    strip(title, pictures) {
      return h("div", { class: "strip-of" }, h("span", { class: "quiet" }, title), h("ul", {}, pictures.map((picture, i) => h("li", {}, this.picture(picture, rb.givenName(picture, i)), h("small", {}, rb.givenName(picture, i))))));
    }

    picture(picture, alt) {
      const path = picture.full || picture.thumb;
      return path ? h("img", { src: path, alt, width: picture.width || null, height: picture.height || null, decoding: "async" })
        : h("span", { class: "absent" }, "picture not at hand");
    }

    variant(ctx, entry, cell, one, { name, of, base, digits }) {
      const output = one.outputs.find((made) => made.model === of.model && made.step === null);
      const list = of.marks[cell.criterion];
      const [mean, before] = [meanOf(list), meanOf(base?.marks[cell.criterion])];
      const marks = marksOf(list, digits);
      const change = mean !== null && before !== null && base !== of ? mean - before : null;
      const replies = one.replies.filter((reply) => reply.model === of.model && reply.judge === entry.judge);
      const key = output && rb.pictureKey(output, 0);
      const closely = key && route.to("case", { rest: one.id, params: { models: of.model, zoom: key } });
      return h("figure", { class: name === "clean" ? "clean" : "changed", "data-variant": name },
        h("figcaption", {}, h("strong", {}, name)),
        output?.pictures.length ? output.pictures.map((picture, i) => h("a", { class: "look-closer", href: i ? route.to("case", { rest: one.id, params: { models: of.model, zoom: rb.pictureKey(output, i) } }) : closely, "aria-label": `${name}, picture ${i + 1}: look closer` }, this.picture(picture, `${name} of ${one.id}`))) : h("span", { class: "absent" }, "picture not at hand"),
        h("p", { class: "marks" }, marks.length ? [marks.length > 1 ? "marks " : "mark ", h("b", {}, marks.join(", "))] : "not asked yet",
          marks.length > 1 && mean !== null && h("span", { class: "quiet" }, ` mean ${format.number(mean)}`),
          change !== null && h("span", { class: "change" }, change === 0 ? " · no change" : ` · ${change > 0 ? "rises" : "falls"} by ${format.number(Math.abs(change), Number.isInteger(change) ? 0 : 2)}`, of.base !== "clean" && ` from ${of.base}`)),
        of.said && h("p", { class: "note", dir: "auto" }, `${format.label(of.said)}.`),
        of.shown && this.strip("The judge was shown", of.shown),
        replies.length > 0 ? h("details", { open: name !== "clean" }, h("summary", {}, replies.length > 1 ? `The judge’s words, ${replies.length} replies` : "The judge’s words"),
          replies.map((reply) => [(replies.length > 1) && h("small", { class: "quiet" }, [reply.part !== "all" && format.words(reply.part), `time ${reply.repeat + 1}`].filter(Boolean).join(", ")),
            reply.failure && h("p", { class: "bad" }, `✕ ${format.words(reply.failure.kind)}${reply.failure.detail ? `: ${reply.failure.detail}` : ""}`), reply.reply !== null && rb.verbatim(reply.reply)])) : rb.note("There are no words of the judge about it."));
    }
  }

  rb.AuditCell = AuditCell;
})();
