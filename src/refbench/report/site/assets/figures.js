/** The figures: drawings that Python made, with hover values, the cases behind each mark, and what one takes along. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, controls } = rb;
  const DRAWN = new Set(["svg", "g", "title", "text", "tspan", "line", "rect", "circle", "path", "polygon", "polyline", "defs", "clipPath"]);
  const PIXELS = 2.5;

  /** The drawing as elements. Ours alone makes them, of text that it has escaped; what could do more than draw is left
   * out all the same. */
  function drawing(text) {
    const read = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    for (const one of [read, ...read.querySelectorAll("*")]) {
      if (!DRAWN.has(one.localName)) {
        one.remove();
        continue;
      }
      for (const { name, value } of [...one.attributes]) {
        if (/^on|href|^style$/i.test(name) || /url\(\s*[^#\s]/i.test(value)) {
          one.removeAttribute(name);
        }
      }
    }
    return document.adoptNode(read);
  }

  /** The drawing as it is on paper, for who takes it along: variables of the page as the colours that they stand for. */
  const onPaper = (svg) => svg.replace(/var\(--[\w-]+, (#[0-9a-f]{6})\)/g, "$1");

  const keyOf = (one) => [one.panel, one.series, one.category].join("\n");

  /** Where the numbers behind a mark are; null where there is nothing further to see. */
  function addressOf(ctx, figure, row) {
    if (!row || !Object.keys(row.to).length) {
      return figure.name === "agreement" ? route.to("agreement") : null;
    }
    if (row.to.cell) {
      return route.changed({ cell: row.to.cell });
    }
    return route.to(row.to.pair ? "compare" : "cases", { params: row.to });
  }

  /** A small sheet beside the pointer that says what the mark under it shows. */
  const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });

  function place(event) {
    const { innerWidth: wide, innerHeight: high } = window;
    const box = tip.getBoundingClientRect();
    tip.style.setProperty("left", `${Math.max(6, Math.min(event.clientX + 14, wide - box.width - 6))}px`);
    tip.style.setProperty("top", `${event.clientY + 18 + box.height > high ? event.clientY - box.height - 12 : event.clientY + 18}px`);
  }

  function live(ctx, figure, svg) {
    const rows = new Map(figure.rows.map((row) => [keyOf(row), row]));
    const of = (event) => event.target.closest?.("g.value");
    for (const mark of svg.querySelectorAll("g.value")) {
      const said = mark.querySelector(":scope > title");
      mark.dataset.said = said?.textContent ?? "";
      said?.remove(); // the browser's own would stand over ours
      mark.classList.toggle("open", addressOf(ctx, figure, rows.get(keyOf(mark.dataset))) !== null);
    }
    svg.addEventListener("pointermove", (event) => {
      const mark = of(event);
      tip.hidden = !mark;
      if (mark) {
        tip.textContent = mark.dataset.said;
        place(event);
      }
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    svg.addEventListener("click", (event) => {
      const mark = of(event);
      const address = mark && addressOf(ctx, figure, rows.get(keyOf(mark.dataset)));
      if (address) {
        tip.hidden = true;
        route.go(address);
      }
    });
  }

  /** Every number to its last digit, as `refbench figure --out F.csv` has it. */
  function csvOf(figure) {
    const across = figure.rows.some((row) => row.across !== null);
    const names = ["panel", "series", "category", "value", "low", "high", ...(across ? ["across"] : []), "why", "about"];
    return [names, ...figure.rows.map((row) => names.map((name) => (row[name] === null ? "" : String(row[name]))))].map((row) => row.map(rb.csvCell).join(",")).join("\n");
  }

  /** The drawing as a picture, at two and a half times its size. */
  function pngOf(figure) {
    return new Promise((resolve, reject) => {
      const image = new Image();
      image.onload = () => {
        const canvas = h("canvas", { width: Math.round(PIXELS * image.width), height: Math.round(PIXELS * image.height) });
        canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
        canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png");
      };
      image.onerror = () => reject(new Error("no picture"));
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(onPaper(figure.svg))}`;
    });
  }

  /** A picture onto the clipboard; where the browser does not take it, as a file. */
  async function copyPicture(figure) {
    const made = pngOf(figure);
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": made })]);
      rb.say(`Copied ${figure.name} as PNG`);
    } catch {
      made.then((blob) => save(blob, `${figure.name}.png`), () => rb.say("The browser cannot make a picture of it"));
    }
  }

  function save(blob, name) {
    const address = URL.createObjectURL(blob);
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
    rb.say(`Saved ${name}`);
  }

  function tools(figure) {
    const button = (form, act) => h("button", { type: "button", class: "quiet", "aria-label": `Copy ${figure.name} as ${form}`, on: { click: act } }, form);
    return h("div", { class: "take", role: "group", "aria-label": `Take along: ${figure.name}` }, h("span", { class: "quiet", "aria-hidden": "true" }, "Copy as"),
      button("SVG", () => rb.copy(onPaper(figure.svg), `${figure.name} as SVG`)), button("PNG", () => copyPicture(figure)), button("CSV", () => rb.copy(csvOf(figure), `${figure.name} as CSV`)));
  }

  /** The same as a table, made when it is opened: for who reads numbers, or does not see the drawing. */
  function numbers(ctx, figure) {
    const panels = new Set(figure.rows.map((row) => row.panel)).size > 1;
    const across = figure.rows.some((row) => row.across !== null);
    const columns = [panels && { title: "Panel" }, { title: "Series" }, { title: "At" }, { title: "Value", number: true }, { title: "95 % interval", number: true }, across && { title: "Against", number: true }, { title: "About" }].filter(Boolean);
    const row = (one) => {
      const address = addressOf(ctx, figure, one);
      const value = one.value === null ? h("span", { class: "quiet" }, one.why || format.NONE) : format.number(one.value, one.digits);
      return [panels && one.panel, h("bdi", {}, one.series), h("bdi", {}, one.category), address ? h("a", { href: address }, value) : value,
        format.interval(one.low === null ? null : [one.low, one.high], one.digits), across && (one.across === null ? format.NONE : String(Number(one.across.toPrecision(4)))), one.about].filter((cell) => cell !== false);
    };
    const more = rb.more("The numbers, and the cases behind them");
    more.addEventListener("toggle", () => {
      if (more.open && more.childElementCount === 1) {
        more.append(rb.table(columns, figure.rows.map(row), { caption: `Numbers of ${figure.name}` }));
      }
    });
    return more;
  }

  /** One figure with its numbers, on whatever page. */
  function sheet(ctx, figure) {
    document.body.append(tip);
    const svg = drawing(figure.svg);
    svg.setAttribute("aria-label", figure.title);
    live(ctx, figure, svg);
    return h("section", { class: "drawn", id: `figure-${figure.name}`, "aria-label": figure.title },
      h("h2", {}, format.label(figure.name)), figure.shows && h("p", { class: "note" }, `${format.label(figure.shows)}.`),
      h("div", { class: "sheet-frame", tabindex: "0", role: "region", "aria-label": `Drawing: ${figure.title}` }, svg),
      h("p", { class: "note sideways" }, h("span", { "aria-hidden": "true" }, "↔ "), "Wider than this screen: move the drawing sideways to see the rest."), tools(figure), numbers(ctx, figure));
  }

  async function build(ctx) {
    const place = ctx.board.figures.findIndex(([protocol, judge]) => protocol === ctx.protocol && judge === ctx.judge);
    const chunk = place < 0 ? { figures: [], why_not: {} } : await rb.load(`${ctx.board.id}/figures/${place}`);
    const names = chunk.figures.map((one) => one.name);
    const chosen = names.includes(ctx.params.get("figure")) ? ctx.params.get("figure") : "";
    const shown = chunk.figures.filter((one) => !chosen || one.name === chosen);
    const absent = Object.entries(chunk.why_not);
    const node = h("div", { class: "page figures" }, h("h1", { class: "offscreen" }, "Figures"),
      controls.bar(controls.protocols(ctx), controls.judges(ctx), controls.choice("figure", "Figure", [{ value: "", text: "all" }, ...names.map((value) => ({ value, text: format.words(value) }))], chosen, { otherwise: "" })),
      h("p", { class: "measured" }, rb.measuredBy(ctx, [])),
      shown.length ? shown.map((one) => sheet(ctx, one)) : rb.note("Nothing can be drawn under this protocol and judge."),
      !chosen && absent.length > 0 && rb.section("Not drawn", h("dl", { class: "facts" }, absent.map(([name, why]) => [h("dt", {}, format.words(name)), h("dd", {}, rb.prose(why))]))));
    return { node, close: () => { tip.hidden = true; } };
  }

  Object.assign(rb, { figureSheet: sheet, hideTip: () => { tip.hidden = true; } });
  rb.pages.figures = { title: "Figures", build };
})();
