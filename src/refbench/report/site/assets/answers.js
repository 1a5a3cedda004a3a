/** What was measured and said about a case: scores, answers by question, and the judge's words whole. */
"use strict";

(() => {
  const rb = window.refbench;
  const { h, format } = rb;

  /** A failure as a labelled box: kind, what the kind means, and the detail as text. */
  function failureBox(ctx, failure, what) {
    return h("div", { class: "failure" }, h("strong", {}, `${what}: ${format.words(failure.kind)}`),
      ctx.site.failure_kinds[failure.kind] && h("span", {}, ctx.site.failure_kinds[failure.kind]),
      failure.detail && h("code", { dir: "auto" }, failure.detail));
  }

  function here(ctx, scores, model) {
    return scores.filter((score) => score.model === model && score.protocol === ctx.protocol && (score.judge === ctx.judge || score.judge === ctx.mute));
  }

  /** Marks as they were given, shares with three digits. */
  function digitsOf(one) {
    return one.scores.every((score) => score.value === null || Number.isInteger(score.value)) ? 0 : 3;
  }

  /** A score as the table has it: in per cent where that is in per cent. */
  function scoreText(ctx, one, score) {
    if (score.value !== null) {
      const { factor, digits } = rb.measureOf(ctx, score.metric);
      const tabled = factor !== 1 || (digitsOf(one) > 0 && ctx.measures.some((measure) => measure.name === score.metric));
      return tabled ? format.number(score.value * factor, digits) : format.number(score.value, digitsOf(one));
    }
    if (score.failure) {
      return h("span", { class: "bad", title: score.failure.detail || null }, `✕ ${format.words(score.failure.kind)}`);
    }
    if (score.not_asked) {
      return h("span", { class: "quiet" }, "not asked yet");
    }
    return score.not_applicable ? h("span", { class: "quiet", title: score.not_applicable }, "does not apply") : format.NONE;
  }

  /** The seed whose picture is shown: the one that the address asks for, else the first. */
  function seedOf(ctx, one, model) {
    const seeds = [...new Set(here(ctx, one.scores, model).map((score) => score.seed))].sort((a, b) => a - b);
    const asked = Number(ctx.params.get("seed") ?? NaN);
    return seeds.includes(asked) ? asked : seeds[0];
  }

  /** The scores of one model, one line for each metric; of several seeds, each. */
  function scoreList(ctx, one, model) {
    const scores = here(ctx, one.scores, model);
    if (!scores.length) {
      return h("p", { class: "note" }, "Not scored under this protocol by this judge.");
    }
    const seeds = [...new Set(scores.map((score) => score.seed))].sort((a, b) => a - b);
    const metrics = [...new Set(scores.map((score) => score.metric))];
    const text = (metric, seed) => scores.filter((score) => score.metric === metric && score.seed === seed).map((score) => scoreText(ctx, one, score));
    return [
      seeds.length > 1 && h("p", { class: "note" }, `Scores of seeds ${seeds.join(", ")}, in this order.`),
      h("dl", { class: "scores" }, metrics.map((metric) => [h("dt", { title: rb.measureTitle(rb.measureOf(ctx, metric)) }, format.words(metric)), h("dd", {}, seeds.map((seed, place) => [place > 0 && " · ", text(metric, seed)]))])),
    ];
  }

  function plain(text) {
    return text.trim().toLowerCase();
  }

  /** One answer: right or wrong by sign and word, not by colour alone. */
  function answerCell(answer, expected) {
    if (answer === null || answer === undefined) {
      return h("span", { class: "quiet" }, "– no answer");
    }
    if (expected === null) {
      return h("span", { dir: "auto" }, answer);
    }
    const right = plain(answer) === plain(expected);
    return h("span", { class: right ? "good" : "bad" }, h("span", { "aria-hidden": "true" }, right ? "✓ " : "✗ "), answer, h("span", { class: "offscreen" }, right ? " as expected" : " not as expected"));
  }

  /** Question by model. Answers whose number differs from the questions' are not laid beside them: they are listed. */
  function questionTable(ctx, one, models) {
    if (!one.questions.length) {
      return null;
    }
    const metrics = [...new Set(one.questions.map((question) => question.metric))];
    const scoreOf = (model, metric) => here(ctx, one.scores, model).find((score) => score.metric === metric && score.seed === seedOf(ctx, one, model));
    const any = (name) => one.questions.some((question) => question[name] !== null);
    const columns = [
      { title: "Question", wide: true }, any("expected") && { title: "Expected" }, any("weight") && { title: "Weight", number: true },
      ...models.map((model) => ({ title: rb.label(ctx, model) })),
    ].filter(Boolean);
    const single = metrics.length === one.questions.length;
    const rowsOf = (metric) => {
      const asked = one.questions.filter((question) => question.metric === metric);
      return asked.map((question, place) => [
        h("span", { dir: "auto" }, single && metrics.length > 1 && h("span", { class: "role" }, `${format.words(metric)} `), question.text || h("em", {}, "(a question without text)"), question.gate && h("small", { class: "gate" }, `counts only if ${question.gate}`)),
        any("expected") && (question.expected ?? format.NONE), any("weight") && format.number(question.weight, Number.isInteger(question.weight) ? 0 : 2),
        ...models.map((model) => {
          const score = scoreOf(model, metric);
          if (!score || (!score.answers.length && !score.failure)) {
            return h("span", { class: "quiet" }, score && score.value !== null && asked.length === 1 ? scoreText(ctx, one, score) : format.NONE);
          }
          if (score.failure && !score.answers.length) {
            return h("span", { class: "bad", title: score.failure.detail || null }, `✕ ${format.words(score.failure.kind)}`);
          }
          return score.answers.length === asked.length ? answerCell(score.answers[place], question.expected) : h("span", { class: "quiet" }, place ? "" : `answers: ${score.answers.map((text) => text ?? "none").join(", ")}`);
        }),
      ].filter((cell) => cell !== false));
    };
    const groups = single ? null : metrics.map((metric) => ({ title: format.words(metric), rows: rowsOf(metric) }));
    const seeds = [...new Set(one.scores.map((score) => score.seed))].sort((a, b) => a - b);
    const now = [...new Set(models.map((model) => seedOf(ctx, one, model)).filter((seed) => seed !== undefined))];
    const which = seeds.length > 1 && [h("p", { class: "note" }, `Answers about the picture of seed ${now.join(", ")}.`),
      rb.controls.bar(rb.controls.choice("seed", "Seed", seeds.map((value) => ({ value, text: String(value) })), now[0], { otherwise: seeds[0] }))];
    return rb.section("Question by question", which, rb.table(columns, single ? metrics.flatMap(rowsOf) : [], { caption: "Questions and answers", className: "questions", groups }));
  }

  /** Everything a judge said about one model here; the chosen judge first. */
  function replies(ctx, one, model) {
    const said = one.replies.filter((reply) => reply.model === model)
      .sort((a, b) => (b.judge === ctx.judge) - (a.judge === ctx.judge) || (b.protocol === ctx.protocol) - (a.protocol === ctx.protocol) || a.judge - b.judge || a.repeat - b.repeat);
    if (!said.length) {
      return null;
    }
    const several = (name) => new Set(said.map((reply) => reply[name])).size > 1;
    return h("div", { class: "replies" }, said.map((reply) => {
      const about = [
        rb.judgeName(ctx, reply.judge), format.words(reply.part), several("protocol") ? reply.protocol : "", several("seed") ? `seed ${reply.seed}` : "",
        several("repeat") ? `repeat ${reply.repeat}` : "", reply.failure ? `✕ ${format.words(reply.failure.kind)}` : "",
      ].filter(Boolean).join(" · ");
      return rb.more(about, reply.failure && failureBox(ctx, reply.failure, "No usable reply"), reply.reply !== null && rb.verbatim(reply.reply));
    }));
  }

  Object.assign(rb, { failureBox, scoreList, questionTable, replies });
})();
