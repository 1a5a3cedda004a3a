"""How much a ranking owes to the weights of its criteria: the benchmark's own, some given ones, and a grid of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import comb

import numpy as np

from refbench.analysis.agree.people import HumanFit, HumanScores
from refbench.analysis.agree.ratings import Ratings
from refbench.record import Record, RefBenchError
from refbench.stats import Array
from refbench.stats.correlation import kendall_draws, number
from refbench.tables.columns import System, columns_of
from refbench.tables.result import Result
from refbench.tables.table import case_values

_STEPS = 10
"""The grid: weights that are multiples of a tenth and add up to one."""
_MOST_POINTS = 20_000
"""With many criteria the steps get larger, so that the grid has at most so many points."""
_EXACT = 1e-6
"""Relative error below which the summary counts as a weighted mean of the criteria."""
_SEEN = 1e-6


class Weighting(Record):
    """The ranking under one set of weights. `tau` is Kendall's tau-b with the benchmark's own ranking."""

    label: str
    """As it was given: 4:4:2."""
    weights: Mapping[str, float]
    values: Mapping[str, float]
    ranking: tuple[str, ...]
    tau: float | None
    human: HumanFit | None = None


_NO_WEIGHTS = "there are no weights to change: {} is no weighted mean of measures with one range"


class WeightSweep(Record):
    """The benchmark's own weights, those given, and over the grid: how often each model wins, how often the order is
    the same, and how far it departs. `human_best` is the grid's best fit with human scores, chosen by looking."""

    measure: str
    criteria: tuple[str, ...]
    default: Weighting
    given: tuple[Weighting, ...]
    n_grid: int
    winners: Mapping[str, float]
    same_order: float
    tau_lowest: float | None
    tau_median: float | None
    human_best: Weighting | None = None
    remarks: tuple[str, ...] = ()


def weight_sweep(
    result: Result, protocol: str, judge: str | None, given: Sequence[str] = (), humans: Ratings | None = None
) -> WeightSweep | str:
    """Sweep the weights; a sentence where the benchmark's number is no weighted mean of like criteria."""
    measure = result.summary(protocol)
    criteria = _criteria(result, protocol, measure)
    per_case, systems = _per_case(result, protocol, judge)
    own = _own_weights(per_case, criteria, measure) if criteria else _NO_WEIGHTS.format(measure)
    if isinstance(own, str):
        return own
    rows = [row for row in result.rows(protocol=protocol, level="overall") if row.judge == judge]
    table = {(row.model, row.metric): row.value for row in rows if row.value is not None}
    models = [model for model, _ in systems if all((model, name) in table for name in criteria)]
    if len(models) < 2:
        return "fewer than two models have all criteria, so there is no ranking to change"
    values = np.array([[table[model, name] for name in criteria] for model in models])
    grid = np.array(list(_grid(len(criteria))))
    # Equal to nine digits is equal, here as in tables: rounding must not make a winner.
    base, totals = (values @ own).round(9), (grid @ values.T).round(9)
    sign = 1 if measure in result.bench.scoring.lower else -1
    people = None if humans is None else HumanScores(humans, measure)
    if people is not None and not set(people.models) & set(models):
        raise RefBenchError(
            f"--humans: none of its models is in the run; it has {', '.join(sorted(people.models)[:3])}, "
            f"the run {', '.join(models[:6])}"
        )
    parts = np.stack([per_case[name] for name in criteria], axis=-1)

    def weighting(weights: Array, label: str = "") -> Weighting:
        total = (values @ weights).round(9)
        of_models = dict(zip(models, total.tolist(), strict=True))
        return Weighting(
            label=label or _ratio(weights),
            weights=dict(zip(criteria, weights.round(6).tolist(), strict=True)),
            values=of_models,
            ranking=tuple(models[i] for i in np.argsort(sign * total, kind="stable")),
            tau=number(kendall_draws(base, total[None, :], np.ones((1, len(models))))[0]),
            human=None if people is None else people.fit(of_models, _of_items(result, systems, parts @ weights)),
        )

    order = np.argsort(sign * totals, axis=1, kind="stable")
    ahead = sign * totals == (sign * totals).min(axis=1, keepdims=True)
    first = (ahead / ahead.sum(axis=1, keepdims=True)).mean(axis=0)  # the first place is divided among equals
    taus = kendall_draws(base, totals, np.ones_like(totals))
    taus = taus[np.isfinite(taus)]
    best = people.best(models, totals) if people is not None else None
    off = [model for i, model in enumerate(models) if abs(base[i] - table.get((model, measure), base[i])) > _SEEN]
    remarks = [] if people is None or people.remark is None else [people.remark]
    if off:
        remarks.append(
            f"criteria are weighted as the table has them; with failures {measure} itself is about fewer cases"
        )
    return WeightSweep(
        measure=measure,
        criteria=criteria,
        default=weighting(own),
        given=tuple(weighting(_parsed(text, criteria, result.bench.title), text) for text in given),
        n_grid=len(grid),
        winners={models[i]: round(float(first[i]), 6) for i in np.argsort(-first, kind="stable") if first[i]},
        same_order=float((order == np.argsort(sign * base, kind="stable")).all(axis=1).mean()),
        tau_lowest=float(taus.min()) if len(taus) else None,
        tau_median=float(np.median(taus)) if len(taus) else None,
        human_best=None if best is None else weighting(grid[best]),
        remarks=tuple(remarks),
    )


def _of_items(result: Result, systems: Sequence[System], totals: Array) -> dict[tuple[str, str], float]:
    """The totals (systems x cases) of the cases that have all criteria, by case and model."""
    there = zip(*np.nonzero(np.isfinite(totals)), strict=True)
    return {(result.cases[c].id, systems[s][0]): float(totals[s, c]) for s, c in there}


def _criteria(result: Result, protocol: str, measure: str) -> tuple[str, ...]:
    """The measures of one metric each that the summary is made of, if they have one range."""
    measures = {m.name: m for m in result.bench.scoring.protocols[protocol].aggregate.measures}
    parts = [measures[part] for part in measures[measure].parts if part in measures and part != measure]
    alike = len({(m.low, m.high) for m in parts}) == 1 and len(parts) == len(measures[measure].parts)
    return tuple(m.name for m in parts) if alike and len(parts) > 1 else ()


def _per_case(result: Result, protocol: str, judge: str | None) -> tuple[Mapping[str, Array], tuple[System, ...]]:
    chosen = [score for score in result.scores if score.protocol == protocol and score.judge == judge]
    columns = columns_of(chosen, result.cases)
    return case_values(result.bench.scoring.protocols[protocol].aggregate, columns, result.cases), columns.systems


def _own_weights(per_case: Mapping[str, Array], criteria: Sequence[str], measure: str) -> Array | str:
    """The weights that the benchmark itself uses, read off its single cases (no list of benchmarks to keep up), or why
    there are none."""
    parts = np.stack([per_case[name].ravel() for name in criteria], axis=1)
    total = per_case[measure].ravel()
    whole = np.isfinite(parts).all(axis=1) & np.isfinite(total)
    if np.linalg.matrix_rank(parts[whole]) < len(criteria):
        return f"these scores are too few, or too much alike, to tell the weights of {measure}"
    weights = np.linalg.lstsq(parts[whole], total[whole], rcond=None)[0]
    off = np.abs(parts[whole] @ weights - total[whole]).max()
    if off > _EXACT * max(1.0, np.abs(total[whole]).max()) or weights.min() < -_EXACT:
        return _NO_WEIGHTS.format(measure)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _ratio(weights: Array) -> str:
    """The weights as people write them: 4:4:2 of ten, 3:3:1:1:1 of the smallest, else of ten with fractions."""
    scales = (float(_STEPS), 1 / weights[weights > _EXACT].min())
    whole = next((s for s in scales if np.abs(weights * s - (weights * s).round()).max() < _EXACT), scales[0])
    return ":".join(f"{weight:.3g}" for weight in weights * whole)


def _parsed(text: str, criteria: Sequence[str], title: str) -> Array:
    try:
        numbers = np.array([float(part) for part in text.split(":")])
    except ValueError:
        numbers = np.zeros(0)
    if len(numbers) != len(criteria) or not np.isfinite(numbers).all() or numbers.min() < 0 or numbers.sum() == 0:
        raise RefBenchError(
            f"--weights {text}: give a number for each criterion of {title}, in this order and with colons: "
            f"{':'.join(criteria)}"
        )
    weights: Array = numbers / numbers.sum()
    return weights


def _grid(criteria: int) -> Iterator[list[float]]:
    """All weights that are multiples of one step and add up to one."""
    steps = _STEPS
    while steps > 1 and comb(steps + criteria - 1, criteria - 1) > _MOST_POINTS:
        steps -= 1
    for bars in combinations(range(steps + criteria - 1), criteria - 1):
        ends = (-1, *bars, steps + criteria - 1)
        yield [(ends[i + 1] - ends[i] - 1) / steps for i in range(criteria)]
