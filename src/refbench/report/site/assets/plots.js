/** Small multiples: for each slice of a level the models as dots and whiskers, or for each model the slices. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, format, charts, controls } = rb;

  /** Rows of a level in the order of the data: slices, models, and the row of each pair. */
  function grid(ctx, chunk, level) {
    const rows = chunk.rows.filter((row) => row.protocol === ctx.protocol && row.metric === ctx.measure.name && row.slice.level === level);
    const slices = new Map();
    for (const row of rows) {
      const key = JSON.stringify(row.slice);
      if (!slices.has(key)) {
        slices.set(key, { slice: row.slice, rows: [] });
      }
      slices.get(key).rows.push(row);
    }
    const found = [...slices.values()].map(({ slice, rows: here }) => ({
      slice, name: format.sliceName(slice), above: format.sliceAbove(slice),
      of: (model) => rb.judged(ctx, here.filter((row) => row.model === model))[0] ?? null,
    }));
    return found.filter((one) => ctx.board.models.some((_, model) => one.of(model)));
  }

  function panel(title, small, axis, entries, digits, name = title) {
    const said = entries.map(({ name, row }) => `${name} ${format.number(row.value, digits)}`).join(", ");
    return h("figure", { class: "panel", role: "group", "aria-label": `${name}: ${said}` },
      h("figcaption", {}, h("span", {}, title), small && h("small", {}, small)),
      h("div", { class: "strips" },
        entries.map(({ name, row, head, look }) => [
          head ?? h("bdi", { class: "label", title: name }, name),
          charts.intervalRow(axis, { ...row, ...look, label: `${name}: ${format.number(row.value, digits)} (${format.interval(row.ci95, digits)})` }),
          h("span", { class: "num", title: [row.remark, format.failures(row.failures, row.n_not_asked)].filter(Boolean).join("; ") || null }, format.number(row.value, digits)),
        ]),
        h("span"), charts.axisRow(axis), h("span")));
  }

  function scored(rows) {
    const [expected, there] = ["n_expected", "n_scored"].map((name) => [...new Set(rows.map((row) => row[name]))].sort((a, b) => a - b));
    const range = (counts) => (counts.length > 1 ? `${format.whole(counts[0])} to ${format.whole(counts.at(-1))}` : format.whole(counts[0]));
    return expected.length === 1 && there.length === 1 && expected[0] === there[0] ? `n = ${range(there)}` : `n = ${range(there)} of ${range(expected)}`;
  }

  function asTable(ctx, level, slices, models) {
    const digits = ctx.measure.digits;
    const columns = [{ title: format.words(level) }, ...models.map((model) => ({ title: rb.label(ctx, model), number: true }))];
    const rows = slices.map((one) => [
      one.above ? `${one.above} / ${one.name}` : one.name,
      ...models.map((model) => {
        const row = one.of(model);
        return row ? h("span", {}, format.number(row.value, digits), h("small", {}, `${format.interval(row.ci95, digits)}, ${row.n_scored}/${row.n_expected}`)) : format.NONE;
      }),
    ]);
    return rb.more("The same as a table", rb.table(columns, rows, { caption: `${ctx.measure.name} by ${format.words(level)}` }));
  }

  /** The plots of the chosen level with its switches; null where the table has only its overall rows. */
  function plots(ctx, chunk) {
    const there = new Set(chunk.rows.filter((row) => row.protocol === ctx.protocol && row.metric === ctx.measure.name).map((row) => row.slice.level));
    const levels = ctx.board.levels.filter((level) => level !== "overall" && there.has(level));
    if (!levels.length) {
      return null;
    }
    const level = levels.includes(ctx.params.get("level")) ? ctx.params.get("level") : levels[0];
    const slices = grid(ctx, chunk, level);
    const models = rb.ordered(ctx).filter((model) => slices.some((one) => one.of(model)));
    const arrange = ctx.params.get("by") === "model" ? "model" : "slice";
    const all = slices.flatMap((one) => models.map((model) => one.of(model)).filter(Boolean));
    const axis = charts.scale(all.flatMap((row) => [row.value, ...(row.ci95 ?? [])]).filter((value) => value !== null), ctx.measure);
    const digits = ctx.measure.digits;
    const panels = arrange === "slice"
      ? slices.map((one) => {
        const entries = models.map((model) => ({ name: rb.modelName(ctx, model), row: one.of(model), head: rb.label(ctx, model), look: charts.of(ctx, model) })).filter((entry) => entry.row);
        return panel(one.name, [one.above, scored(entries.map((entry) => entry.row))].filter(Boolean).join(", "), axis, entries, digits);
      })
      : models.map((model) => {
        const entries = slices.map((one) => ({ name: one.name, row: one.of(model), look: charts.of(ctx, model) })).filter((entry) => entry.row);
        return panel(rb.label(ctx, model), "",  axis, entries, digits, rb.modelName(ctx, model));
      });
    const options = levels.map((value) => ({ value, text: format.words(value) }));
    return rb.section("Where the models differ",
      controls.bar(
        controls.choice("level", "Level", options, level, { otherwise: levels[0] }),
        controls.choice("by", "One panel for each", [{ value: "slice", text: format.words(level) }, { value: "model", text: "model" }], arrange, { otherwise: "slice" })),
      h("div", { class: `panels${slices.length === 1 ? " one" : ""}` }, panels), asTable(ctx, level, slices, models));
  }

  rb.plots = plots;
})();
