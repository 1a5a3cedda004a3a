"""How much a ranking owes to the weights of its criteria: the benchmark's own, some given ones, and a grid of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from refbench.analysis.agree.people import HumanFit, HumanScores
from refbench.analysis.agree.ratings import Ratings
from refbench.record import Record, RefBenchError
from refbench.stats import Array
from refbench.stats.correlation import kendall_draws, number
from refbench.tables.result import Result
from refbench.tables.table import Aggregate, Columns, System, case_values

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


_TOO_FEW = "these scores are too few, or too much alike, to tell the weights of {}"
_NO_WEIGHTS = "there are no weights to change: the measure {} is not a weighted mean of measures that share a range"


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
    """Sweep the weights. Returns a sentence where the benchmark's number is not a weighted mean of like criteria."""
    measure = result.summary(protocol)
    aggregate = result.bench.scoring.protocols[protocol].aggregate
    criteria = criteria_of(aggregate, measure)
    if not criteria:
        return _NO_WEIGHTS.format(measure)
    columns = result.columns(protocol, [judge])
    per_case = case_values(aggregate, columns, result.cases)
    own = own_weights(aggregate, columns, per_case, criteria, measure)
    if isinstance(own, str):
        return own
    rows = [row for row in result.rows(protocol=protocol, level="overall") if row.judge == judge]
    table = {(row.model, row.metric): row.value for row in rows if row.value is not None}
    models = [model for model, _ in columns.systems if all((model, name) in table for name in criteria)]
    if len(models) < 2:
        return "fewer than two models have all criteria, so there is no ranking to change"
    people = _people(humans, measure, models)
    parts = np.stack([per_case[name] for name in criteria], axis=-1)
    contest = _Contest(
        criteria=criteria,
        models=models,
        values=np.array([[table[model, name] for name in criteria] for model in models]),
        own=own,
        sign=1 if measure in result.bench.scoring.lower else -1,
        people=people,
        items=lambda weights: _of_items(result, columns.systems, parts @ weights),
    )
    remarks = [] if people is None or people.remark is None else [people.remark]
    if any(abs(total - table.get((model, measure), total)) > _SEEN for model, total in contest.totals(own).items()):
        remarks.append(
            f"criteria are weighted as the table has them; with failures {measure} itself is about fewer cases"
        )
    given_weights = [(text, _parsed(text, criteria, result.bench.title)) for text in given]
    return contest.swept(measure, given_weights, remarks)


def _people(humans: Ratings | None, measure: str, models: Sequence[str]) -> HumanScores | None:
    if humans is None:
        return None
    people = HumanScores(humans, measure)
    if not set(people.models) & set(models):
        raise RefBenchError(
            f"--humans: none of its models is in the run; it has {', '.join(sorted(people.models)[:3])}, "
            f"the run {', '.join(models[:6])}"
        )
    return people


@dataclass(frozen=True)
class _Contest:
    """Models ranked by weighted criteria; `values` is models x criteria, as the table has them."""

    criteria: Sequence[str]
    models: Sequence[str]
    values: Array
    own: Array
    sign: int
    """1 where less is better, else -1: what is sorted by rises."""
    people: HumanScores | None
    items: Callable[[Array], dict[tuple[str, str], float]]
    """The totals of single outputs under some weights."""

    def totals(self, weights: Array) -> dict[str, float]:
        # Equal to nine digits is equal, here as in tables: rounding must not make a winner.
        return dict(zip(self.models, (self.values @ weights).round(9).tolist(), strict=True))

    def weighting(self, weights: Array, label: str = "") -> Weighting:
        totals = self.totals(weights)
        base, total = (np.array(list(one.values())) for one in (self.totals(self.own), totals))
        return Weighting(
            label=label or _ratio(weights),
            weights=dict(zip(self.criteria, weights.round(6).tolist(), strict=True)),
            values=totals,
            ranking=tuple(self.models[i] for i in np.argsort(self.sign * total, kind="stable")),
            tau=number(kendall_draws(base, total[None, :], np.ones((1, len(total))))[0]),
            human=None if self.people is None else self.people.fit(totals, self.items(weights)),
        )

    def swept(self, measure: str, given: Sequence[tuple[str, Array]], remarks: Sequence[str]) -> WeightSweep:
        grid = np.array(list(_grid(len(self.criteria))))
        base, totals = (self.values @ self.own).round(9), (grid @ self.values.T).round(9)
        ranked = self.sign * totals
        ahead = ranked == ranked.min(axis=1, keepdims=True)
        first = (ahead / ahead.sum(axis=1, keepdims=True)).mean(axis=0)  # the first place is divided among equals
        same = np.argsort(ranked, axis=1, kind="stable") == np.argsort(self.sign * base, kind="stable")
        taus = kendall_draws(base, totals, np.ones_like(totals))
        taus = taus[np.isfinite(taus)]
        best = self.people.best(self.models, totals) if self.people is not None else None
        return WeightSweep(
            measure=measure,
            criteria=tuple(self.criteria),
            default=self.weighting(self.own),
            given=tuple(self.weighting(weights, text) for text, weights in given),
            n_grid=len(grid),
            winners={self.models[i]: round(float(first[i]), 6) for i in np.argsort(-first, kind="stable") if first[i]},
            same_order=float(same.all(axis=1).mean()),
            tau_lowest=float(taus.min()) if len(taus) else None,
            tau_median=float(np.median(taus)) if len(taus) else None,
            human_best=None if best is None else self.weighting(grid[best]),
            remarks=tuple(remarks),
        )


def _of_items(result: Result, systems: Sequence[System], totals: Array) -> dict[tuple[str, str], float]:
    """The totals (systems x cases) of the cases that have all criteria, by case and model."""
    there = zip(*np.nonzero(np.isfinite(totals)), strict=True)
    return {(result.cases[c].id, systems[s][0]): float(totals[s, c]) for s, c in there}


def criteria_of(aggregate: Aggregate, measure: str) -> tuple[str, ...]:
    """The measures of one metric each that a measure is made of, if they have one range."""
    measures = {m.name: m for m in aggregate.measures}
    parts = [measures[part] for part in measures[measure].parts if part in measures and part != measure]
    alike = len({(m.low, m.high) for m in parts}) == 1 and len(parts) == len(measures[measure].parts)
    return tuple(m.name for m in parts) if alike and len(parts) > 1 else ()


def own_weights(
    aggregate: Aggregate, columns: Columns, per_case: Mapping[str, Array], criteria: Sequence[str], measure: str
) -> Array | str:
    """The weights that the benchmark itself uses, read off its single cases (no list of benchmarks to keep up), or why
    there are none. `per_case` are the columns' `case_values`."""
    if not {measure, *criteria} <= per_case.keys():  # a criterion that nobody was asked for has no values at all
        return _TOO_FEW.format(measure)
    parts = np.stack([per_case[name].ravel() for name in criteria], axis=1)
    total = per_case[measure].ravel()
    # Of several seeds a criterion may have lost one: its mean is over other pictures than the total's.
    metrics = {part for m in aggregate.measures if m.name in criteria for part in m.parts} & set(columns.drawn)
    lost = np.stack([np.isnan(columns.drawn[metric]) for metric in sorted(metrics)])
    alike = (lost == lost.any(axis=0)).all(axis=(0, 3)).ravel()
    whole = np.isfinite(parts).all(axis=1) & np.isfinite(total) & alike
    if np.linalg.matrix_rank(parts[whole]) < len(criteria):
        return _TOO_FEW.format(measure)
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
