/** Which cases, in which order, and why: pure functions of the index, the address and what people starred. */
"use strict";

(() => {
  const rb = window.refbench;
  const { format } = rb;
  const FLAGS = ["near_source", "near_reference"];

  /** Models or judges disagree from this share of the scale on; where it has no ends, of the spread of all values. */
  const WIDE = 0.25;

  function keyOf(ctx, index, judge = ctx.judge) {
    const key = `${ctx.protocol}/${judge}`;
    return key in index.values || ctx.mute < 0 ? key : `${ctx.protocol}/${ctx.mute}`;
  }

  function spread(values) {
    const there = values.filter((value) => value !== null && value !== undefined);
    return there.length < 2 ? null : Math.max(...there) - Math.min(...there);
  }

  function mean(values) {
    const there = values.filter((value) => value !== null && value !== undefined);
    return there.length ? there.reduce((sum, value) => sum + value, 0) / there.length : null;
  }

  /** The length of the scale: of the values themselves where they have outgrown the measure's own range. */
  function scaleOf(ctx, columns) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of columns.flat()) {
      if (value !== null) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    const measure = rb.measureOf(ctx, ctx.summary);
    if (measure.low !== null && measure.high !== null && low >= measure.low && high <= measure.high) {
      return { low: measure.low, high: measure.high };
    }
    return high > low ? { low, high } : { low: 0, high: 1 };
  }

  /** What the address asks for. Numbers of models that do not exist are as if not given. */
  function wanted(ctx) {
    const { params, board } = ctx;
    const model = (name) => {
      const given = params.get(name);
      return given !== null && /^\d+$/.test(given) && Number(given) < board.models.length ? Number(given) : null;
    };
    const groups = [...params.entries()].filter(([name]) => name.startsWith("g.")).map(([name, value]) => [name.slice(2), value]);
    return {
      filter: params.get("filter") ?? "", model: model("model"), against: model("against"), kind: params.get("kind") ?? "",
      query: (params.get("q") ?? "").trim().toLowerCase(), sort: params.get("sort") ?? "", references: params.get("refs"),
      tag: params.get("tag") ?? "", groups,
    };
  }

  /** For each case a figure by which it is chosen and sorted, where the filter has one. */
  function figures(ctx, index, want) {
    const values = index.values[keyOf(ctx, index)] ?? ctx.board.models.map(() => index.ids.map(() => null));
    const failed = index.failed[keyOf(ctx, index)] ?? [];
    const waiting = index.waiting[keyOf(ctx, index)] ?? [];
    const judges = ctx.judges.map((judge) => index.values[`${ctx.protocol}/${judge}`]).filter(Boolean);
    const worse = rb.measureOf(ctx, ctx.summary).better === "lower" ? 1 : -1;
    const first = want.model ?? 0;
    const second = want.against ?? (first === 0 ? 1 : 0);
    return {
      values, failed, waiting, scale: scaleOf(ctx, values), first, second,
      models: (i) => spread(values.map((column) => column[i])),
      judges: (i) => {
        const found = ctx.board.models.map((_, model) => spread(judges.map((columns) => columns[model]?.[i] ?? null))).filter((value) => value !== null);
        return found.length ? Math.max(...found) : null;
      },
      loss: (i) => {
        const [mine, theirs] = [values[first]?.[i] ?? null, values[second]?.[i] ?? null];
        return mine === null || theirs === null ? null : worse * (mine - theirs);
      },
      level: (i) => (want.model === null ? mean(values.map((column) => column[i])) : values[want.model]?.[i] ?? null),
    };
  }

  /** Words that all must be there, "whole phrases" in quotes, and -words that must not. */
  function termsOf(query) {
    return [...query.matchAll(/(-?)(?:["“”„]([^"“”„]*)["“”„]?|(\S+))/g)]
      .map(([, sign, phrase, word]) => ({ not: sign === "-", text: phrase ?? word })).filter(({ text }) => text);
  }

  function tests(ctx, index, want, found) {
    const models = want.model === null ? rb.ordered(ctx) : [want.model];
    const wide = WIDE * (found.scale.high - found.scale.low) * (1 - 1e-9);
    const bit = 1 << FLAGS.indexOf(want.filter);
    const note = (i) => rb.annotations.of(ctx.board.id, index.ids[i]);
    const byFilter = {
      failures: (i) => models.some((model) => found.failed[model]?.[i] && (!want.kind || found.failed[model][i] === want.kind)),
      models: (i) => (found.models(i) ?? 0) >= wide,
      judges: (i) => (found.judges(i) ?? 0) >= wide,
      loss: (i) => (found.loss(i) ?? 0) > 0,
      near_source: (i) => models.some((model) => index.flags[model][i] & bit),
      near_reference: (i) => models.some((model) => index.flags[model][i] & bit),
      starred: (i) => note(i).star,
      noted: (i) => note(i).comment !== "" || note(i).tags.length > 0,
    };
    const all = [byFilter[want.filter]];
    if (want.query) {
      const terms = termsOf(want.query);
      all.push((i) => terms.every(({ text, not }) => not !== (index.words[i].includes(text) || index.ids[i].toLowerCase().includes(text))));
    }
    for (const [name, value] of want.groups) {
      const group = index.groups[name];
      const number = group ? group.names.indexOf(value) : -2;
      all.push((i) => group !== undefined && group.of[i] === number);
    }
    if (want.references) {
      all.push((i) => String(index.references[i]) === want.references);
    }
    if (want.tag) {
      all.push((i) => note(i).tags.includes(want.tag));
    }
    return all.filter(Boolean);
  }

  /** Filters that are about a figure are sorted by it unless another order is asked for. */
  function sortOf(want) {
    return want.sort || { models: "models", judges: "judges", loss: "loss" }[want.filter] || "order";
  }

  function sorted(ctx, index, want, found, chosen) {
    const by = sortOf(want);
    const worst = rb.measureOf(ctx, ctx.summary).better === "lower" ? -1 : 1;
    const figure = {
      worst: (i) => found.level(i), best: (i) => found.level(i), models: found.models, judges: found.judges, loss: found.loss,
      references: (i) => index.references[i],
    }[by];
    if (by === "id") {
      return chosen.sort((a, b) => (index.ids[a] < index.ids[b] ? -1 : 1));
    }
    if (!figure) {
      return chosen;
    }
    const sign = { worst, best: -worst }[by] ?? -1;
    const keyed = new Map(chosen.map((i) => [i, figure(i)]));
    return chosen.sort((a, b) => {
      const [one, other] = [keyed.get(a), keyed.get(b)];
      return (one === null) - (other === null) || sign * ((one ?? 0) - (other ?? 0)) || a - b;
    });
  }

  /** Positions of the cases that the address asks for, in its order, with the figure to show beside each. */
  function select(ctx, index) {
    const want = wanted(ctx);
    const found = figures(ctx, index, want);
    const all = tests(ctx, index, want, found);
    const chosen = [];
    for (let i = 0; i < index.ids.length; i += 1) {
      if (all.every((test) => test(i))) {
        chosen.push(i);
      }
    }
    const { digits } = rb.measureOf(ctx, ctx.summary);
    const by = sortOf(want);
    const beside = {
      models: (i) => `${format.number(found.models(i), digits)} apart`,
      judges: (i) => `${format.number(found.judges(i), digits)} apart`,
      loss: (i) => `loses ${format.number(found.loss(i), digits)}`,
    }[by] ?? (() => "");
    return { want, positions: sorted(ctx, index, want, found, chosen), beside, found, by, wide: WIDE };
  }

  Object.assign(rb, { select, FLAGS });
})();
