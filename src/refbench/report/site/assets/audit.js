/** An audit: each judge's card, the matrix of changes and criteria, ladders, places, and marks without seeing. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, route, format, controls } = rb;
  const KINDS = [
    ["damages", "Damages", "Share of pairs with the clean mark higher. Where a damage aims at a criterion it must be seen; “should stay” and “not aimed” have no verdict."],
    ["nuisances", "Nuisances", "Mean change of the mark, which should be 0."],
    ["attacks", "Attacks", "Mean rise of the mark, which should be 0 or less."],
    ["controls", "Without seeing", "Rank correlation of marks given to grey pictures with those given to the real ones."],
    ["pairs", "Sides", "Of a judge of pairs: how much more often than half the picture shown first wins."],
  ];
  const SIGNS = { good: "✓", bad: "✕", open: "?", few: "…", plain: "" };

  /** What a cell says: its verdict in words, the figure behind it, and how it is drawn. */
  function told(kind, cell) {
    if (kind === "damages") {
      const words = { seen: ["seen", "good"], blind: ["blind to it", "bad"], "cannot tell": ["cannot tell", "open"], "too few cases": ["too few cases", "few"] };
      const [word, look] = cell.aimed ? words[cell.verdict] : [cell.stays ? "should stay" : "not aimed", "plain"];
      return { word, look, figure: cell.sees, signed: false };
    }
    if (kind === "nuisances") {
      const looks = { unmoved: "good", moved: "bad", "cannot tell": "open", "too few cases": "few" };
      return { word: cell.verdict === "moved" && cell.alike ? "moved, all alike" : cell.verdict, look: looks[cell.verdict], figure: cell.shift, signed: true };
    }
    if (kind === "attacks") {
      return { word: cell.verdict, look: { fooled: "bad", "not fooled": "good", "too few cases": "few" }[cell.verdict], figure: cell.rise, signed: true };
    }
    if (kind === "controls") {
      return { word: cell.guesses ? "marks without seeing" : "", look: cell.guesses ? "bad" : "plain", figure: cell.blind, signed: true };
    }
    return { word: cell.favours ? `favours the ${cell.favours} side` : "", look: cell.favours ? "bad" : "plain", figure: cell.first_side, signed: true };
  }

  const numberOf = (figure, signed) => (signed ? format.signed(figure.value) : format.number(figure.value));

  function failed(failures) {
    const said = format.failures(failures);
    return said ? h("small", { class: "lost" }, `✕ ${said}`) : null;
  }

  function matrixCell(entry, kind, cell) {
    const { word, look, figure, signed } = told(kind, cell);
    const note = look === "plain" ? "" : ` (${entry.report.card.note})`;
    const name = `${cell.number} ${cell.said}, ${format.words(cell.criterion)}`;
    return h("a", {
      class: `verdict ${look}`, href: route.changed({ cell: `${kind}/${cell.number}/${cell.criterion}` }), id: `cell-${kind}-${cell.number}-${cell.criterion}`, "aria-haspopup": "dialog",
      title: `${name}${word ? `: ${word}${note}` : ""}. Opens the pictures.`,
    },
      h("span", { class: "said" }, SIGNS[look] && h("span", { "aria-hidden": "true" }, `${SIGNS[look]} `), word),
      figure.value === null ? h("span", { class: "why" }, figure.why || "no number") : h("span", { class: "value" }, numberOf(figure, signed)),
      figure.value !== null && figure.ci95 && h("small", {}, format.interval(figure.ci95)), failed(cell.failures));
  }

  /** Rows of one kind of change: a heading that says what the numbers are, then a row a change. */
  function rowsOf(entry, [kind, title, what], names) {
    const cells = entry.report[kind];
    const numbers = [...new Set(cells.map((cell) => cell.number))].sort((a, b) => a - b);
    return numbers.length > 0 && h("tbody", { class: `of-${kind}` }, h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: names.length + 1 }, h("div", {}, h("strong", {}, title), " ", h("span", { class: "quiet" }, what)))),
      numbers.map((number) => {
        const mine = cells.filter((cell) => cell.number === number);
        return h("tr", {}, h("th", { scope: "row" }, h("span", { class: "number" }, number), " ", mine[0].said),
          names.map((name) => {
            const cell = mine.find((one) => one.criterion === name);
            return h("td", {}, cell ? matrixCell(entry, kind, cell) : h("span", { class: "quiet", "aria-label": "not asked" }, format.NONE));
          }));
      }));
  }

  function matrix(entry) {
    const cells = KINDS.flatMap(([kind]) => entry.report[kind]);
    const names = [...new Set([...entry.report.card.criteria.map((one) => one.name), ...cells.map((cell) => cell.criterion)])];
    if (!cells.length) {
      return rb.section("What each change did", rb.note("No change has been asked about yet."));
    }
    return rb.section("What each change did",
      rb.note("Every cell opens up to five outputs behind it, clean and changed, with the judge’s marks and words. ✕ and red: a fault; ✓: none; ?: these cases cannot tell; …: fewer than 20 cases, and no number. ", h("strong", {}, `${format.label(entry.report.card.note)}.`)),
      h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": "Matrix of changes and criteria" }, h("table", { class: "audit-matrix" }, h("caption", { class: "offscreen" }, "Changes and criteria"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Change"), names.map((name) => h("th", { scope: "col" }, h("bdi", {}, format.words(name)))))),
        KINDS.map((kind) => rowsOf(entry, kind, names)))));
  }

  /** A figure of the card with its interval, or why there is none. */
  function figure(one, digits = 2) {
    return one.value === null ? h("span", { class: "quiet" }, one.why || "no number")
      : h("span", {}, format.number(one.value, digits), one.ci95 && h("small", { class: "ends" }, ` ${format.interval(one.ci95, digits)}`));
  }

  const LOOKS = { usable: "good", "ranks only": "open", "not usable": "bad", "cannot tell": "open" };

  function further(one) {
    const few = one.why.some((why) => why.includes("too few"));
    return one.more_cases ? ` (${few ? `it takes ${format.count(one.more_cases, "more case")} at least` : `about ${format.count(one.more_cases, "more case")} would tell`})` : "";
  }

  function verdictOf(card, one) {
    const look = LOOKS[one.verdict];
    return h("div", { class: "of-criterion" }, h("span", { class: `verdict ${look}`, title: `${one.verdict} (${card.note})` }, h("span", { class: "said" }, h("span", { "aria-hidden": "true" }, `${SIGNS[look]} `), one.verdict)),
      one.why.length > 0 && h("small", {}, `${one.why.join("; ")}${further(one)}`));
  }

  function flags(card) {
    const found = new Map();
    for (const flag of card.flags) {
      const said = ["blind to", "fooled by", "moved by"].includes(flag.kind) ? `${flag.kind} ${flag.said}` : flag.kind === "guesses" ? `gives the same marks without seeing (${flag.said})` : flag.said;
      found.set(said, [...(found.get(said) ?? []), format.words(flag.criterion)]);
    }
    if (!found.size) {
      return rb.note(card.n_claims ? `No fault was found by ${format.count(card.n_claims, "test")}, at 5 % for all of them.` : "Nothing could be tested: a test takes marks of 20 cases.");
    }
    return [rb.note(`Faults, at 5 % for a false one among the ${card.n_claims} claims of the table; ${card.note}.`),
      h("ul", { class: "faults" }, [...found].map(([said, names]) => h("li", {}, h("span", { class: "bad", "aria-hidden": "true" }, "✕ "), said, names.some(Boolean) && ": ", h("bdi", {}, names.join(", ")))))];
  }

  function cardOf(ctx, entry) {
    const { card } = entry.report;
    const name = rb.judgeName(ctx, entry.judge);
    const facts = [card.rubric && `rubric ${card.rubric}`, card.wording && `wording ${card.wording.slice(0, 12)}`, card.preset && `preset ${card.preset}`, format.count(card.n_cases, "case"), format.count(card.n_marks, "mark"),
      `${format.whole(card.n_failures)} failed`, card.usd_per_call !== null && `${format.dollars(card.usd_per_call)} a call`];
    const columns = [{ title: "Criterion" }, { title: "Verdict" }, { title: "Sees" }, { title: "Steps lost" }, { title: "Selective" }, { title: "SD of repeats" }, { title: "Same again" }, { title: "AUC" }, { title: "Marks used" }];
    const row = (one) => [h("bdi", {}, format.words(one.name)), verdictOf(card, one), figure(one.sees), figure(one.drop), figure(one.selective), figure(one.sd), figure(one.identical), figure(one.auc), format.whole(one.spread.values_used)];
    return rb.section("The judge’s card",
      h("p", { class: "about-card" }, h("strong", {}, h("bdi", {}, name)), card.judge !== name && h("span", { class: "quiet" }, " ", h("bdi", {}, card.judge)), h("span", { class: "quiet" }, ` ${facts.filter(Boolean).join(" · ")}`)),
      card.n_waiting > 0 && h("p", { class: "callout" }, h("strong", {}, "Not finished: "), `it was not asked about ${format.count(card.n_waiting, "output")} yet, and all this is of the others. The same refbench audit command goes on.`),
      plainTable(columns, card.criteria.map(row), "The card by criterion"), flags(card));
  }

  /** A table that nobody takes along: verdicts stay out of papers until the method is validated. */
  function plainTable(columns, rows, caption) {
    return h("div", { class: "frame", tabindex: "0", role: "region", "aria-label": caption }, h("table", { class: "audit-card" }, h("caption", { class: "offscreen" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col" }, column.title)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, place) => h(place ? "td" : "th", { scope: place ? null : "row" }, cell)))))));
  }

  function places(entry) {
    const rows = entry.report.positions;
    const words = { seen: ["good", "seen"], blind: ["bad", "blind to it"], "cannot tell": ["open", "cannot tell"], "too few cases": ["few", "too few cases"] };
    const said = (row) => {
      const [look, word] = words[row.verdict] ?? ["plain", ""];
      return row.verdict ? h("a", { class: `verdict ${look}`, "aria-haspopup": "dialog", title: `${word} (${entry.report.card.note}). Opens the pictures.`, href: route.changed({ cell: `damages/3/${row.criterion}` }) }, h("span", { class: "said" }, h("span", { "aria-hidden": "true" }, `${SIGNS[look]} `), word)) : "";
    };
    return rows.length > 0 && plainTable([{ title: "Criterion" }, { title: "Place" }, { title: "Sees" }, { title: "Cases" }, { title: "Verdict" }],
      rows.map((row) => [h("bdi", {}, format.words(row.criterion)), row.place, figure(row.sees), format.whole(row.sees.n), said(row)]), "A swapped reference, by its place");
  }

  function ladders(entry) {
    const rows = entry.report.ladders;
    return rows.length > 0 && plainTable([{ title: "Damage" }, { title: "Criterion" }, { title: "Steps lost, by strength" }, { title: "Kendall’s tau-b" }, { title: "Never rises" }, { title: "Flat" }],
      rows.map((row) => [`${row.number} ${format.words(row.name)}`, h("bdi", {}, format.words(row.criterion)), h("ul", { class: "rungs" }, row.rungs.map((rung) => h("li", {}, `${rung.strength}: `, figure(rung.drop)))), figure(row.tau), figure(row.never_rises), format.count(row.n_flat, "case")]), "Ladders");
  }

  /** One of the drawings, or that there are too few cases for it. */
  function drawn(ctx, entry, name) {
    const figureOf = entry.figures.find((one) => one.name === name);
    return figureOf ? rb.figureSheet(ctx, figureOf) : rb.note("Too few cases for a drawing.");
  }

  function rest(entry) {
    const reasons = new Map();
    for (const [variant, counts] of Object.entries(entry.left_out)) {
      for (const [reason, n] of Object.entries(counts)) {
        reasons.set(reason, [...(reasons.get(reason) ?? []), `${variant} of ${format.count(n, "case")}`]);
      }
    }
    return [
      entry.without_ability.length > 0 && rb.note("Left out: ", h("bdi", {}, entry.without_ability.map(format.words).join(", ")), ". Nothing says what they are about."),
      !entry.at_hand && h("p", { class: "callout" }, "The variants are not where they were: what was shown in the place of references, and what was not made, is not known here."),
      reasons.size > 0 && rb.section("Not made", h("ul", { class: "remarks" }, [...reasons].map(([reason, names]) => h("li", {}, `${names.join(", ")}: ${reason}.`)))),
      rb.section("To paste", rb.note("Figures alone: the words of verdicts stay out of papers until the method is validated on real judges."), h("p", { dir: "auto" }, entry.sentence), h("p", {}, rb.copyButton(entry.sentence, "sentence"))),
    ];
  }

  function contents(ctx, entry) {
    if (!entry.report) {
      return [rb.note(entry.why)];
    }
    const { report } = entry;
    return [
      h("p", { class: "callout unproven" }, h("strong", {}, `${format.label(report.card.note)}: `), "verdicts are for the reader of this page, and stay out of papers until it is."),
      cardOf(ctx, entry), matrix(entry),
      report.ladders.length > 0 && rb.section("Ladders", drawn(ctx, entry, "ladders"), ladders(entry)),
      report.positions.length > 0 && rb.section("By the place of the reference", drawn(ctx, entry, "places"), places(entry)),
      report.controls.length > 0 && rb.section("Marks without seeing", drawn(ctx, entry, "without_seeing")),
      ...rest(entry),
    ];
  }

  /** The judge that the address names, and of several runs the run; else the first. */
  function chosen(ctx, list) {
    const mine = list.filter((one) => one.judge === ctx.judge);
    const of = mine.length ? mine : list.filter((one) => one.judge === list[0]?.judge);
    return { of, entry: of.find((one) => one.run === ctx.params.get("run")) ?? of[0] };
  }

  async function build(ctx) {
    const { judges: list } = await rb.load(`${ctx.board.id}/audit`);
    const node = h("div", { class: "page audit" });
    const dialog = new rb.AuditCell((kind, cell) => ({ ...told(kind, cell), sign: SIGNS[told(kind, cell).look] }));
    let drawnOf = null;

    function update(next) {
      const { of, entry } = chosen(next, list);
      if (!entry) {
        node.replaceChildren(h("h1", { class: "offscreen" }, "Audit"), rb.note("Nobody has been asked yet: the same refbench audit command goes on."));
        return;
      }
      if (drawnOf !== entry) {
        drawnOf = entry;
        const judges = [...new Set(list.map((one) => one.judge))];
        const bar = controls.bar(controls.choice("judge", "Judge", judges.map((value) => ({ value, text: rb.judgeName(next, value) })), entry.judge),
          controls.choice("run", "Run", of.map((one) => ({ value: one.run, text: one.run })), entry.run, { otherwise: of[0].run }));
        rb.keepingFocus(() => node.replaceChildren(...[h("h1", { class: "offscreen" }, "Audit"), bar, h("p", { class: "measured" }, "judge ", h("bdi", {}, rb.judgeName(next, entry.judge)), `, ${next.board.wording}`), ...contents(next, entry)].flat(Infinity).filter(Boolean)));
      }
      dialog.follow(next, entry);
    }

    return { node, update, opened: () => update(ctx), close: () => { rb.hideTip(); dialog.end(); } };
  }

  rb.pages.audit = { title: "Audit", build };
})();
