"""How sure one may be of a ranking and of a model's number: ranks over resamples, where the variance comes from, and
what one more seed, judge, repeat or hundred cases would buy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from refbench.case_values import case_values
from refbench.columns import System, columns_of
from refbench.record import Record
from refbench.result import Result
from refbench.score import Score
from refbench.stats import Array, Design, resample
from refbench.stats.components import Components, variance_components
from refbench.stats.ranks import ranks_of
from refbench.table import DRAWS, SEED, ranked, summaries

MORE_CASES = 100
_DEFINED = 0.95
"""The share of draws with a value that a standard error needs."""


class Rank(Record):
    """Where a model stands: its rank in the table, the ranks it could hold, how often it is first in a resample.

    `rank95` is from tests of all pairs: below the models that are found better, above those that are found worse, with
    5 % for any error among all of them.
    """

    model: str
    value: float
    rank: int
    rank95: tuple[int, int] | None
    best: float | None


class OneMore(Record):
    """The standard error of a model's number with more of something; None where the run cannot tell, and why."""

    of: str
    error: float | None
    why: str | None = None


class Variance(Record):
    """Where the variance of one model's marks comes from, in the units of the measure squared.

    `error` is the standard error of the model's number for these judges; `level_error` is what another panel of as
    many judges would add, by being stricter or milder.
    """

    model: str
    measure: str
    n_cases: int
    n_judges: int
    n_seeds: int
    n_repeats: float
    """The mean over judges, who may have been asked a different number of times."""
    variance: Mapping[str, float]
    share: Mapping[str, float]
    merged: Mapping[str, str]
    """Sources that this run cannot tell from another, which then holds both."""
    negative: Mapping[str, float]
    """Estimates below zero, which are given as 0."""
    remarks: tuple[str, ...]
    error: float | None
    level_error: float | None
    one_more: tuple[OneMore, ...]


def overall_draws(
    result: Result, protocol: str, measure: str, *, draws: int = DRAWS, seed: int = SEED
) -> tuple[tuple[System, ...], Array, Array]:
    """Systems, the measure's overall value of each, and systems x draws of it: the table's own draws, in which all
    systems have the same weights."""
    aggregate = result.bench.protocols[protocol].aggregate
    columns = columns_of([score for score in result.scores if score.protocol == protocol], result.cases)
    values = aggregate.filled(columns)
    overall = aggregate.overall(result.cases)
    design = Design.of([case.cluster for case in result.cases], [case.stratum for case in result.cases])

    def value(weights: Array) -> Array:
        return summaries(aggregate, values, weights, overall)[0, measure]

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
) -> list[Rank]:
    """The models that a judge has ranked, best first; those without a value or with too few cases are not in it."""
    name = measure or result.summary(protocol)
    systems, point, drawn = overall_draws(result, protocol, name, draws=draws, seed=seed)
    sign = -1 if name in result.bench.lower else 1
    rows = [row for row in result.rows(protocol=protocol, metric=name, level="overall") if row.judge == judge]
    with_rank = {place.row.model for place in ranked(rows, result.bench.lower) if place.rank is not None}
    chosen = [
        i for i, (model, by) in enumerate(systems) if by == judge and np.isfinite(point[i]) and model in with_rank
    ]
    if not chosen:
        return []
    # One cluster is the same in every draw: that is no certainty about the order.
    design = Design.of([case.cluster for case in result.cases], [case.stratum for case in result.cases])
    df = design.degrees_of_freedom(np.ones(len(result.cases), dtype=np.bool_))
    found = (
        ranks_of(sign * point[chosen], sign * drawn[chosen], design.n_clusters, df) if design.n_clusters > 1 else None
    )
    ranks = [
        Rank(
            model=systems[i][0],
            value=round(float(point[i]), 9),
            rank=int(1 + (sign * point[chosen] > sign * point[i]).sum()),
            rank95=None if found is None else (int(found.low[n]), int(found.high[n])),
            best=None if found is None else round(float(found.best[n]), 6),
        )
        for n, i in enumerate(chosen)
    ]
    return sorted(ranks, key=lambda rank: (rank.rank, rank.model))


def rank_intervals(result: Result, protocol: str, judge: str | None) -> dict[str, tuple[int, int]]:
    """The ranks that each model could hold (1 is best), at 95 % for all together; without those that have none."""
    return {rank.model: rank.rank95 for rank in ranking(result, protocol, judge) if rank.rank95 is not None}


def variances(result: Result, drawn: Iterable[Score], protocol: str, *, measure: str | None = None) -> list[Variance]:
    """Variance components of each model's marks, from the scores of each seed and repeat (`scoring.run_draws`)."""
    name = measure or result.summary(protocol)
    by_model: dict[str, list[Score]] = {}
    for score in drawn:
        if score.protocol == protocol:
            by_model.setdefault(score.model, []).append(score)
    systems, _, draws = overall_draws(result, protocol, name)
    found = []
    for model, scores in sorted(by_model.items()):
        judges = {score.judge for score in scores}
        mine = [i for i, system in enumerate(systems) if system[0] == model and system[1] in judges]
        # The mean over these judges, under weights that all of them share.
        error = _spread(draws[mine].mean(axis=0)) if mine else None
        one = _variance(result, scores, protocol, name, error)
        if one is not None:
            found.append(one)
    return found


def _spread(draws: Array) -> float | None:
    defined = draws[np.isfinite(draws)]
    return float(np.std(defined)) if len(defined) >= _DEFINED * len(draws) else None


def pooled(found: Sequence[Variance]) -> tuple[dict[str, float], int] | None:
    """The mean share of each source over the models whose marks tell most sources apart, and how many those are."""
    if not found:
        return None
    most = max(found, key=lambda one: len(one.share))
    alike = [one for one in found if one.merged == most.merged]
    return {source: float(np.mean([one.share[source] for one in alike])) for source in most.share}, len(alike)


def _variance(
    result: Result, scores: Sequence[Score], protocol: str, measure: str, error: float | None
) -> Variance | None:
    """One model's components: each draw (judge, seed, repeat) is tabled like a system of its own, case by case."""
    draws = {(s.judge, s.seed, s.repeat): f"{n:06d}" for n, s in enumerate(_firsts(scores))}
    renamed = [s.model_copy(update={"judge": draws[s.judge, s.seed, s.repeat]}) for s in scores]
    columns = columns_of(renamed, result.cases)
    values = case_values(result.bench.protocols[protocol].aggregate, columns, result.cases)[measure]
    system, case = np.nonzero(~np.isnan(values))
    if len(case) == 0:
        return None
    # `draws` and the sorted systems of the columns are in the same order.
    judges, seeds = (_numbers([draw[k] for draw in draws]) for k in (0, 1))
    strata = _numbers([one.stratum for one in result.cases])
    found = variance_components(values[system, case], case, judges[system], seeds[system], strata[case])
    if found is None or found.total == 0:
        return None
    n_judges, n_seeds = (len(set(numbers.tolist())) for numbers in (judges, seeds))
    counts = n_judges, n_seeds, len(draws) / len({draw[:2] for draw in draws})
    return Variance(
        model=scores[0].model,
        measure=measure,
        n_cases=len(np.unique(case)),
        n_judges=counts[0],
        n_seeds=counts[1],
        n_repeats=counts[2],
        variance=found.variance,
        share={source: value / found.total for source, value in found.variance.items()},
        merged=found.merged,
        negative=found.negative,
        remarks=_remarks(found, counts[0]),
        error=error,
        level_error=(found.variance["judge"] / counts[0]) ** 0.5 if "judge" in found.variance else None,
        one_more=_one_more(found, counts, len(np.unique(case)), error),
    )


def _one_more(
    found: Components, counts: tuple[int, int, float], n_cases: int, error: float | None
) -> tuple[OneMore, ...]:
    judges, seeds, repeats = counts
    now = found.of_case_mean(seeds, judges, repeats)
    wanted = {
        "seed": ("seed", found.of_case_mean(seeds + 1, judges, repeats), "two seeds"),
        "judge": ("case_by_judge", found.of_case_mean(seeds, judges + 1, repeats), "two judges"),
        "repeat": ("repeat", found.of_case_mean(seeds, judges, repeats + 1), "two repeats"),
    }
    more = []
    for of, (source, then, needs) in wanted.items():
        if error is None or now == 0:
            more.append(OneMore(of=of, error=None, why="this model's number has no standard error"))
        elif source in found.merged:
            more.append(OneMore(of=of, error=None, why=f"a run with at least {needs} can tell"))
        else:
            more.append(OneMore(of=of, error=error * (then / now) ** 0.5))
    fewer = None if error is None else error * (n_cases / (n_cases + MORE_CASES)) ** 0.5
    return (*more, OneMore(of=f"{MORE_CASES} cases", error=fewer))


def _remarks(found: Components, judges: int) -> tuple[str, ...]:
    said = [
        f"the estimate for {source.replace('_', ' ')} was below zero and is given as 0" for source in found.negative
    ]
    if "judge" in found.variance and judges < 5:
        said.append(f"the judges' levels are known from {judges} judges only")
    return tuple(said)


def _firsts(scores: Sequence[Score]) -> list[Score]:
    """One score of each draw, in the order of judge, seed and repeat."""
    found = {(score.judge or "", score.seed, score.repeat): score for score in scores}
    return [found[draw] for draw in sorted(found)]


def _numbers(names: Sequence[object]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    known: dict[object, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.intp)
