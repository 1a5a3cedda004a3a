/** What one does with a table besides reading it: sort it, choose its columns, and take it along as text. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h } = rb;

  /** The text of a cell on one line; what is only drawn or only said aloud is no part of it. */
  function textOf(cell) {
    const copy = cell.cloneNode(true);
    copy.querySelectorAll("svg, .letter, .offscreen, [aria-hidden=true]").forEach((one) => one.remove());
    const small = [...copy.querySelectorAll("small")].map((one) => { one.remove(); return one.textContent.trim(); }).filter(Boolean);
    const main = copy.textContent.replace(/\s+/g, " ").trim();
    return [main, ...small.map((text) => (main ? `(${text})` : text))].filter(Boolean).join(" ").replace(/[\u2068\u2069]/g, "");
  }

  /** Columns that are shown and can be text: drawings are left out. */
  function columnsOf(table) {
    const heads = [...table.tHead.rows[0].cells];
    return heads.map((cell, at) => ({ at, cell, title: textOf(cell.querySelector(".title") ?? cell) }))
      .filter(({ cell }) => !cell.classList.contains("chart") && !cell.hidden && getComputedStyle(cell).display !== "none");
  }

  function rowsOf(table, columns) {
    return [...table.tBodies].flatMap((body) => [...body.rows]).filter((row) => row.cells.length > 1)
      .map((row) => columns.map(({ at }) => (row.cells[at] ? textOf(row.cells[at]) : "")));
  }

  const markdown = (text) => text.replaceAll("\\", "\\\\").replaceAll("|", "\\|");

  /** A spreadsheet takes what begins like a formula for one: such a text gets an apostrophe, a number does not. */
  function csv(text) {
    const plain = text.replaceAll("−", "-");
    const safe = /^[=+\-@\t\r]/.test(plain) && !/^[+-]?[\d.]+(?:e[+-]?\d+)?$/i.test(plain) ? `'${plain}` : plain;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  const LATEX = { "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "&": "\\&", "%": "\\%", $: "\\$", "#": "\\#", _: "\\_", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "−": "$-$", "–": "--", "◇": "", "<": "$<$", ">": "$>$", "▲": "", "▼": "", "○": "" };
  const latex = (text) => text.replace(/[\\{}&%$#_~^−–◇<>▲▼○]/g, (sign) => LATEX[sign]).trim();

  const FORMS = {
    Markdown: (heads, rows, numbers) => [heads, numbers.map((is) => (is ? "---:" : "---")), ...rows].map((row, at) => `| ${row.map(at === 1 ? String : markdown).join(" | ")} |`).join("\n"),
    CSV: (heads, rows) => [heads, ...rows].map((row) => row.map(csv).join(",")).join("\r\n"),
    LaTeX: (heads, rows, numbers) => [`\\begin{tabular}{${numbers.map((is) => (is ? "r" : "l")).join("")}}`, "\\toprule", `${heads.map(latex).join(" & ")} \\\\`, "\\midrule", ...rows.map((row) => `${row.map(latex).join(" & ")} \\\\`), "\\bottomrule", "\\end{tabular}"].join("\n"),
  };

  /** The table as people have it before them: shown columns, in the order that they sorted it into. */
  function asText(table, form) {
    const columns = columnsOf(table);
    return FORMS[form](columns.map(({ title }) => title), rowsOf(table, columns), columns.map(({ cell }) => cell.classList.contains("num")));
  }

  /** What a cell is sorted by: its number where it has one, nothing at all last. */
  function keyOf(cell) {
    const text = cell ? textOf(cell) : "";
    const number = /^[◇$]?\s*([+−-]?[\d,]*\.?\d+)/.exec(text);
    return number ? Number(number[1].replaceAll(",", "").replace("−", "-")) : text === "–" || text === "" ? null : text.toLowerCase();
  }

  function compared(a, b, sign) {
    if (a === null || b === null) {
      return (a === null) - (b === null);
    }
    return typeof a === "number" && typeof b === "number" ? sign * (a - b) : sign * String(a).localeCompare(String(b), undefined, { numeric: true });
  }

  function sort(table, at) {
    const head = table.tHead.rows[0].cells[at];
    const now = head.getAttribute("aria-sort");
    const first = head.classList.contains("num") ? "descending" : "ascending";
    const next = now === null ? first : now === "ascending" ? "descending" : "ascending";
    [...table.tHead.rows[0].cells].forEach((cell) => cell.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", next);
    for (const body of table.tBodies) {
      const rows = [...body.rows];
      const fixed = rows.filter((row) => row.classList.contains("group"));
      const keyed = rows.filter((row) => !fixed.includes(row)).map((row) => [keyOf(row.cells[at]), row]);
      keyed.sort((a, b) => compared(a[0], b[0], next === "ascending" ? 1 : -1));
      body.replaceChildren(...fixed, ...keyed.map(([, row]) => row));
    }
  }

  /** Heads become buttons; one that is a link keeps it, and gets a button beside it. */
  function sortable(table) {
    [...table.tHead.rows[0].cells].forEach((cell, at) => {
      if (cell.classList.contains("chart") || !cell.textContent.trim() || cell.querySelector("button")) {
        return;
      }
      const name = textOf(cell);
      const sign = h("span", { class: "sign", "aria-hidden": "true" });
      const linked = cell.querySelector("a");
      const button = h("button", { type: "button", class: "sort", title: linked ? `Sort by ${name}` : cell.title || `Sort by ${name}`, "aria-label": linked ? `Sort by ${name}` : null, on: { click: () => sort(table, at) } });
      if (linked) {
        button.append(sign);
        cell.append(button);
      } else {
        button.append(h("span", { class: "title" }, ...cell.childNodes), sign);
        cell.replaceChildren(button);
      }
    });
  }

  function hide(table, at, hidden) {
    for (const row of [table.tHead.rows[0], ...[...table.tBodies].flatMap((body) => [...body.rows])]) {
      if (row.cells.length > 1 && row.cells[at]) {
        row.cells[at].hidden = hidden;
      }
    }
  }

  function columnMenu(table) {
    const heads = [...table.tHead.rows[0].cells].map((cell, at) => ({ cell, at, title: cell.classList.contains("chart") ? "drawing" : textOf(cell.querySelector(".title") ?? cell) }))
      .filter(({ at, title }) => at > 0 && title);
    if (heads.length < 3) {
      return null;
    }
    return h("details", { class: "menu" }, h("summary", {}, "Columns"), h("div", { class: "sheet" }, heads.map(({ at, title, cell }) => h("label", {},
      h("input", { type: "checkbox", checked: !cell.hidden, on: { change: (event) => hide(table, at, !event.target.checked) } }), ` ${title}`))));
  }

  /** A frame around a table with what one can do with it. */
  function takeAway(table, what = "table") {
    sortable(table);
    return h("div", { class: "take", role: "group", "aria-label": `Take along: ${what}` },
      h("span", { class: "quiet", "aria-hidden": "true" }, "Copy as"), Object.keys(FORMS).map((form) => h("button", {
        type: "button", class: "quiet", "aria-label": `Copy ${what} as ${form}`, on: { click: () => rb.copy(asText(table, form), `${what} as ${form}`) },
      }, form)), columnMenu(table));
  }

  /** Menus close when one clicks elsewhere or leaves them by Escape. */
  document.addEventListener("click", (event) => document.querySelectorAll("details.menu[open]").forEach((one) => { one.open = one.contains(event.target); }));
  document.addEventListener("keydown", (event) => {
    const open = event.key === "Escape" ? event.target.closest?.("details.menu[open]") : null;
    if (open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  });

  Object.assign(rb, { takeAway, asText, csvCell: csv });
})();
