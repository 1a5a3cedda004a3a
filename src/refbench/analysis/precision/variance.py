"""How certain a ranking and a gap are: the ranks that models could hold, where the variance comes from, and
what one more seed, judge, repeat or hundred cases would buy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.compare import Comparison
from refbench.analysis.compare.draws import Panel, gain_of, numbered, panel_of
from refbench.case import AnyCase
from refbench.record import Record
from refbench.score import Score
from refbench.stats import Array, Design, effective_n, resample
from refbench.stats.components import Components, variance_components
from refbench.stats.ranks import ranks_of
from refbench.tables.result import Result
from refbench.tables.table import DRAWS, SEED, System, ranked, summaries

MORE_CASES = 100
_DEFINED = 0.95
"""The share of draws with a value that a standard error needs."""
_NO_ERROR = "there is no standard error"


class Rank(Record):
    """Where a model stands: its rank in the table, the ranks it could hold, how often it is first in a resample.

    `rank95` is from the comparison of all pairs: below the models that it resolves to be better, above those that are
    worse, with 5 % for any error among all of them. What failures could undo is not resolved.
    """

    model: str
    value: float
    rank: int
    rank95: tuple[int, int] | None
    best: float | None


class OneMore(Record):
    """The standard error of a gap with more of something; None where the run cannot tell, and why."""

    of: str
    error: float | None
    why: str | None = None
    calls: float | None = None
    """Judgements that it takes, of both models, a repeat of a question counted as one."""


class Variance(Record):
    """Where the variance of one model's marks comes from, in the units of the measure squared, and how sure its gap to
    another model is.

    `error` is the standard error of the gap to `versus` for these judges, by cluster; `level_error` is what another
    panel of as many judges would add to it. `versus` is the first of the table, for the first the second; None where
    there is one model, and `error` is that of its own number. `n_repeats` is the mean over judges, who may have been
    asked a different number of times. Sources in `merged` cannot be told from another by this run, which then holds
    both; estimates below zero are in `negative` and given as 0.
    """

    model: str
    versus: str | None
    """The model that its gap is to."""
    measure: str
    n_cases: int
    n_judges: int
    n_seeds: int
    n_repeats: float
    variance: Mapping[str, float]
    share: Mapping[str, float]
    merged: Mapping[str, str]
    negative: Mapping[str, float]
    remarks: tuple[str, ...]
    error: float | None
    level_error: float | None
    one_more: tuple[OneMore, ...]

    @property
    def error_shares(self) -> dict[str, float]:
        """What share of the square of the gap's error ever more seeds, judges or repeats would take away; they overlap
        (more seeds are asked about more often, too), and what none of them takes is cases'. Without those not known."""
        if not self.error:
            return {}
        counts = {"seed": self.n_seeds, "judge": self.n_judges, "repeat": self.n_repeats}
        gains = {one.of: self.error**2 - one.error**2 for one in self.one_more if one.error is not None}
        # A part that goes with 1 / n loses 1 / (n + 1) of itself with one more.
        return {of: min(1.0, gains[of] * (n + 1) / self.error**2) for of, n in counts.items() if of in gains}

    @property
    def best_buy(self) -> OneMore | None:
        """What takes most from the square of the gap's error for each judgement; None where no two can be compared.

        The square, since a hundred cases bought twice take about as much each time, as far as there are more to buy.
        """
        if self.error is None:
            return None
        known = [one for one in self.one_more if one.error is not None and one.calls]
        gains = {one.of: (self.error**2 - (one.error or 0.0) ** 2) / (one.calls or 1.0) for one in known}
        best = max(known, key=lambda one: gains[one.of], default=None)
        return best if best is not None and len(known) > 1 and gains[best.of] > 0 else None


def overall_draws(
    result: Result, protocol: str, measure: str, *, draws: int = DRAWS, seed: int = SEED
) -> tuple[tuple[System, ...], Array, Array]:
    """Systems, the measure's overall value of each, and systems x draws of it: the table's own draws, in which all
    systems have the same weights."""
    aggregate = result.bench.scoring.protocols[protocol].aggregate
    columns = result.columns(protocol)
    values = aggregate.filled(columns)
    overall = aggregate.overall(result.cases)
    design = Design.of([case.cluster for case in result.cases], [case.stratum for case in result.cases])

    def value(weights: Array) -> Array:
        return summaries(aggregate, values, weights, overall, measure)[0, measure]

    point = value(np.ones((1, len(result.cases))))[:, 0]
    return columns.systems, point, np.concatenate([value(w) for w in resample(design, draws, seed)], axis=1)


def ranking(
    result: Result,
    protocol: str,
    judge: str | None,
    *,
    measure: str | None = None,
    draws: int = DRAWS,
    seed: int = SEED,
    compared: Comparison | None = None,
) -> list[Rank]:
    """The models that a judge has ranked, best first; those without a value or with too few cases are not in it.

    `compared` is a comparison of all models under this protocol and judge, where one has been made already: it serves
    where they are those that have a rank, since a family of other models has other p values.
    """
    name = measure or result.summary(protocol)
    systems, point, drawn = overall_draws(result, protocol, name, draws=draws, seed=seed)
    sign = -1 if name in result.bench.scoring.lower else 1
    rows = [row for row in result.rows(protocol=protocol, metric=name, level="overall") if row.judge == judge]
    with_rank = {place.row.model for place in ranked(rows, result.bench.scoring.lower) if place.rank is not None}
    chosen = [
        i for i, (model, by) in enumerate(systems) if by == judge and np.isfinite(point[i]) and model in with_rank
    ]
    if not chosen:
        return []
    models = [systems[i][0] for i in chosen]
    if (
        compared is None
        or compared.metric != name
        or {m for p in compared.pairs for m in (p.first, p.second)} != {*models}
    ):
        compared = _comparison(result, protocol, judge, name, models, draws, seed)
    better = (
        np.zeros((len(models), len(models)), dtype=np.bool_) if compared is None else _found_better(compared, models)
    )
    if better is None:
        ranks_held = None
    else:
        # A pair is about the cases that both have; where the table has them the other way round, nothing is claimed.
        ranks_held = ranks_of(better & (sign * (point[chosen][:, None] - point[chosen]) > 0), sign * drawn[chosen])
    ranks = [
        Rank(
            model=systems[i][0],
            value=round(float(point[i]), 9),
            rank=int(1 + (sign * point[chosen] > sign * point[i]).sum()),
            rank95=None if ranks_held is None else (int(ranks_held.low[n]), int(ranks_held.high[n])),
            best=None if ranks_held is None or ranks_held.best is None else round(float(ranks_held.best[n]), 6),
        )
        for n, i in enumerate(chosen)
    ]
    return sorted(ranks, key=lambda rank: (rank.rank, rank.model))


def _comparison(
    result: Result, protocol: str, judge: str | None, measure: str, models: Sequence[str], draws: int, seed: int
) -> Comparison | None:
    if len(models) < 2:
        return None
    return result.compare(
        *models, protocol=protocol, judges=[judge], metric=measure, draws=draws, seed=seed, by_slice=False
    )


def _found_better(comparison: Comparison, models: Sequence[str]) -> NDArray[np.bool_] | None:
    """Which models a comparison resolves to be better than which others, models x models: on the cases that both have,
    and whatever their failures would have scored. None where no pair can be compared."""
    better = np.zeros((len(models), len(models)), dtype=np.bool_)
    for pair in comparison.pairs:
        if pair.resolved and pair.gap is not None:
            ahead, behind = (pair.first, pair.second) if comparison.better(pair.gap) else (pair.second, pair.first)
            better[models.index(ahead), models.index(behind)] = True
    return better if any(pair.failure is None and pair.n_clusters > 1 for pair in comparison.pairs) else None


def variances(result: Result, drawn: Iterable[Score], protocol: str, *, measure: str | None = None) -> list[Variance]:
    """Variance components of each model's marks, from the scores of each seed and repeat (`scoring.run_draws`), and
    the standard error of its gap to the first of the table."""
    name = measure or result.summary(protocol)
    by_model: dict[str, list[Score]] = {}
    for score in drawn:
        if score.protocol == protocol:
            by_model.setdefault(score.model, []).append(score)
    systems, point, draws = overall_draws(result, protocol, name)
    panels: dict[str, Panel] = {}
    values: dict[str, float] = {}
    joint: dict[str, Array] = {}
    for model, scores in sorted(by_model.items()):
        judges = {score.judge for score in scores}
        mine = [i for i, system in enumerate(systems) if system[0] == model and system[1] in judges]
        panel = panel_of(result.bench.scoring.protocols[protocol].aggregate, result.cases, scores, name)
        if panel is not None and mine:
            # The mean over these judges, under weights that all of them share.
            panels[model], values[model], joint[model] = panel, float(point[mine].mean()), draws[mine].mean(axis=0)
    sign = 1 if name in result.bench.scoring.lower else -1
    order = sorted((m for m in panels if np.isfinite(values[m])), key=lambda m: (sign * values[m], m))
    rows = []
    for model in panels:
        versus = next((other for other in order if other != model), None)
        both = [model, *([versus] if versus else [])]
        rows.append(_variance(result, protocol, name, [panels[m] for m in both], np.stack([joint[m] for m in both])))
    return rows


def _covariance(draws: Array) -> Array | None:
    """Of the numbers of one or two models; None where too few draws have all of them."""
    defined = draws[:, np.isfinite(draws).all(axis=0)]
    if defined.shape[1] < _DEFINED * draws.shape[1]:
        return None
    return np.atleast_2d(np.cov(defined, ddof=0))


def pooled(found: Sequence[Variance]) -> tuple[dict[str, float], int] | None:
    """The mean share of each source over the models whose marks tell most sources apart, and how many those are."""
    if not found:
        return None
    most = max(found, key=lambda one: len(one.share))
    alike = [one for one in found if one.merged == most.merged]
    return {source: float(np.mean([one.share[source] for one in alike])) for source in most.share}, len(alike)


def _variance(result: Result, protocol: str, measure: str, panels: Sequence[Panel], draws: Array) -> Variance:
    """Of the first of the panels, with its gap to the second, where there is one."""
    mine, theirs = panels[0], panels[1] if len(panels) > 1 else None
    components = mine.components
    (overall,) = result.bench.scoring.protocols[protocol].aggregate.overall(result.cases)
    there = [np.any([~np.isnan(marks) for marks in panel.by_judge.values()], axis=0) for panel in panels]
    shared = np.all(there, axis=0)
    worth = [effective_n(overall.weights(has)) for has in (*there, shared)]
    judges = [judge for judge in mine.by_judge if theirs is None or judge in theirs.by_judge]
    apart = components_of_gap(result.cases, mine, theirs, judges)
    level = apart.variance.get("judge") if apart is not None else None
    covariance = _covariance(draws)
    error = None if covariance is None else _error_of(covariance)
    return Variance(
        model=mine.model,
        versus=theirs.model if theirs else None,
        measure=measure,
        n_cases=int(there[0].sum()),
        n_judges=mine.counts[0],
        n_seeds=mine.counts[1],
        n_repeats=mine.counts[2],
        variance=components.variance,
        share={source: value / components.total for source, value in components.variance.items()},
        merged=components.merged,
        negative=components.negative,
        remarks=_remarks(components, mine.counts[0]),
        error=error,
        level_error=None if level is None else (level / len(judges)) ** 0.5,
        one_more=_with_calls(
            (
                *_one_more(panels, apart, len(judges), worth, error),
                _more_cases(covariance, [int(has.sum()) for has in there], int(shared.sum())),
            ),
            panels,
            [int(has.sum()) for has in there],
        ),
    )


def _error_of(covariance: Array) -> float | None:
    """The standard error of the number of one model, or of the gap of two."""
    signs = np.array([1.0, -1.0])[: len(covariance)]
    variance = float(signs @ covariance @ signs)
    return variance**0.5 if variance >= 0 else None


def components_of_gap(
    cases: Sequence[AnyCase], mine: Panel, theirs: Panel | None, judges: Sequence[str | None]
) -> Components | None:
    """Components of the gap's marks (of the model's own, without another) by case and judge: what judges share about
    both models is in none of them."""
    marks = [mine.by_judge[j] - (0.0 if theirs is None else theirs.by_judge[j]) for j in judges]
    if not marks:
        return None
    values = np.stack(marks)
    judge, case = np.nonzero(~np.isnan(values))
    if len(case) == 0:
        return None
    strata = numbered([one.stratum for one in cases])
    return variance_components(values[judge, case], case, judge, np.zeros_like(case), strata[case])


def _one_more(
    panels: Sequence[Panel], apart: Components | None, judges: int, worth: Sequence[float], error: float | None
) -> tuple[OneMore, ...]:
    """What of the error would go: of two models a seed or a repeat more takes its part from each, over the cases that
    this model has; a judge, from those that both have. What cases of one cluster share stays, so the change is taken
    from the error's square and does not scale it. `worth` is how many cases each panel, then all of them, count as."""
    *own, shared = worth
    by_judge = apart.variance.get("case_by_judge") if apart is not None else None

    def gain(**more: float) -> float | None:
        if gain_of(panels, **more) is None or not all(own):
            return None
        return sum((gain_of([panel], **more) or 0.0) / n for panel, n in zip(panels, own, strict=True))

    of_judge = None if by_judge is None or not shared else by_judge / judges / (judges + 1) / shared
    gains = {"seed": gain(seeds=1), "judge": of_judge, "repeat": gain(repeats=1)}
    more = []
    for of, less in gains.items():
        if error is None or not all(own):
            more.append(OneMore(of=of, error=None, why=_NO_ERROR))
        elif less is None:
            more.append(OneMore(of=of, error=None, why=f"a run with at least two {of}s can tell"))
        elif less >= error**2:
            more.append(OneMore(of=of, error=None, why="too few cases to tell"))
        else:
            more.append(OneMore(of=of, error=(error**2 - less) ** 0.5))
    return tuple(more)


def _with_calls(more: Sequence[OneMore], panels: Sequence[Panel], cases: Sequence[int]) -> tuple[OneMore, ...]:
    """With what each takes: a seed or a judge is a mark more for each case, and a hundred cases are so many more."""
    calls: dict[str, float] = {f"{MORE_CASES} cases": 0.0, "seed": 0.0, "judge": 0.0, "repeat": 0.0}
    for panel, n in zip(panels, cases, strict=True):
        judges, seeds, repeats = panel.counts
        calls[f"{MORE_CASES} cases"] += MORE_CASES * judges * seeds * repeats
        calls["seed"] += n * judges * repeats
        calls["judge"] += n * seeds * repeats
        calls["repeat"] += n * judges * seeds
    return tuple(one.model_copy(update={"calls": calls[one.of]}) for one in more)


def _more_cases(covariance: Array | None, own: Sequence[int], shared: int) -> OneMore:
    """With cases more for each model: its variance shrinks by its own number of cases, and what two models have in
    common by the number that they share."""
    of = f"{MORE_CASES} cases"
    if covariance is None:
        return OneMore(of=of, error=None, why=_NO_ERROR)
    shrink = [n / (n + MORE_CASES) for n in own]
    then = covariance * np.outer(shrink, shrink) * ((shared + MORE_CASES) / shared if shared else 1.0)
    np.fill_diagonal(then, np.diag(covariance) * shrink)
    error = _error_of(then)
    return OneMore(of=of, error=error, why=None if error is not None else "too few cases to tell")


def _remarks(found: Components, judges: int) -> tuple[str, ...]:
    remarks = [
        f"the estimate for {source.replace('_', ' ')} was below zero and is given as 0" for source in found.negative
    ]
    if "judge" in found.variance and judges < 5:
        remarks.append(f"the judges' levels are known from {judges} judges only")
    return tuple(remarks)
