"""Scores to columns, columns to a table: arrays over systems, cases and seeds, aggregated with intervals and bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase
from refbench.failure import KINDS
from refbench.record import Record
from refbench.score import Score
from refbench.stats import (
    Array,
    Design,
    SingleMeans,
    WeightedMeans,
    draws_of,
    effective_n,
    interval_for,
    mean_of_those_there,
)

System: TypeAlias = tuple[str, str | None]
"""Model and judge."""
Bools: TypeAlias = NDArray[np.bool_]
Kinds: TypeAlias = NDArray[np.int8]

EMPTY: Mapping[str, float | bool] = {"drawn": np.nan, "kinds": -1, "away": False, "waiting": False, "own": False}
"""The arrays of Columns, and what each holds where a score is in no state."""
NEVER_TRIED = frozenset({"not_measured", "missing_reply"})
"""Kinds of failure of what was not measured or judged in this run at all."""


@dataclass(frozen=True)
class Columns:
    """Scores of one protocol as arrays, systems x cases x seeds for each metric.

    A seed that a system was never to draw is in no state there. What has no seeds (`values`, `failures`,
    `inapplicable`) is systems x cases: a case has failed when none of its seeds has a value.
    """

    systems: tuple[System, ...]
    drawn: Mapping[str, Array]
    """NaN where there is no value."""
    kinds: Mapping[str, Kinds]
    """Index into KINDS where the score failed, -1 elsewhere."""
    away: Mapping[str, Bools]
    """Not applicable."""
    waiting: Mapping[str, Bools]
    """Not asked for yet."""
    own: Mapping[str, Bools]
    """Failures of the model itself."""

    @classmethod
    def of_values(cls, systems: Sequence[System], values: Mapping[str, Array]) -> Columns:
        """Columns of values alone, systems x cases, one seed each; NaN stands for what does not apply."""
        no = {metric: np.zeros((*column.shape, 1), dtype=np.bool_) for metric, column in values.items()}
        return cls(
            tuple(systems),
            {metric: column[:, :, None] for metric, column in values.items()},
            {metric: np.full((*column.shape, 1), -1, dtype=np.int8) for metric, column in values.items()},
            {metric: np.isnan(column)[:, :, None] for metric, column in values.items()},
            no,
            no,
        )

    def of_seed(self, place: int) -> Columns:
        """One seed alone, by its place among all."""
        arrays: dict[str, Any] = {
            name: {metric: column[:, :, place : place + 1] for metric, column in getattr(self, name).items()}
            for name in EMPTY
        }
        return replace(self, **arrays)

    def of_cases(self, chosen: Bools) -> Columns:
        """Some of the cases alone."""
        arrays: dict[str, Any] = {
            name: {metric: column[:, chosen] for metric, column in getattr(self, name).items()} for name in EMPTY
        }
        return replace(self, **arrays)

    def tried(self, metric: str) -> bool:
        """Whether it was asked for everywhere and came to something: a value, or failures that a table must show."""
        if metric not in self.drawn or np.isfinite(self.drawn[metric]).any():
            return metric in self.drawn
        kinds = {KINDS[kind] for kind in np.unique(self.kinds[metric]) if kind >= 0}
        return bool(kinds) and not kinds & NEVER_TRIED and not self.waiting[metric].any()

    @cached_property
    def values(self) -> dict[str, Array]:
        """The mean over the seeds that have a value, NaN where none has."""
        return {metric: mean_of_those_there(drawn, axis=2) for metric, drawn in self.drawn.items()}

    @cached_property
    def failures(self) -> dict[str, Kinds]:
        """Index into KINDS where no seed has a value and one has failed (the first), -1 elsewhere."""
        found = {}
        for metric, kinds in self.kinds.items():
            first = np.take_along_axis(kinds, (kinds >= 0).argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
            found[metric] = np.where(np.isnan(self.values[metric]), first, np.int8(-1))
        return found

    @cached_property
    def inapplicable(self) -> dict[str, Bools]:
        """Where the metric concerns no seed of the case."""
        found: dict[str, Bools] = {}
        for metric, away in self.away.items():
            concerned = self.waiting[metric] | (self.kinds[metric] >= 0) | ~np.isnan(self.drawn[metric])
            found[metric] = np.logical_and(np.any(away, axis=2), ~np.any(concerned, axis=2))
        return found


def columns_of(scores: Sequence[Score], cases: Sequence[AnyCase]) -> Columns:
    """Arrange scores by system, case and seed. Every system must have a score, in some state, for every case and
    each of its seeds."""
    position = {case.id: i for i, case in enumerate(cases)}
    systems = tuple(sorted({(s.model, s.judge) for s in scores}, key=lambda system: (system[0], system[1] or "")))
    row = {system: i for i, system in enumerate(systems)}
    metrics = sorted({s.metric for s in scores})
    seeds = {seed: i for i, seed in enumerate(sorted({s.seed for s in scores}))}
    shape = (len(systems), len(cases), len(seeds))
    drawn = {m: np.full(shape, np.nan) for m in metrics}
    kinds = {m: np.full(shape, -1, dtype=np.int8) for m in metrics}
    away, waiting, own, seen = ({m: np.zeros(shape, dtype=np.bool_) for m in metrics} for _ in range(4))
    for score in scores:
        at = row[score.model, score.judge], position[score.case], seeds[score.seed]
        metric = score.metric
        if seen[metric][at]:
            raise ValueError(f"two scores of {metric} for {score.model} on {score.case}, seed {score.seed}")
        seen[metric][at] = True
        if score.value is not None:
            drawn[metric][at] = score.value
        elif score.failure is not None:
            kinds[metric][at] = KINDS.index(score.failure.kind)
            own[metric][at] = score.failure.by_model
        elif score.not_asked:
            waiting[metric][at] = True
        else:
            away[metric][at] = True
    wanted = np.zeros(shape, dtype=np.bool_)
    for there in seen.values():
        wanted |= there.any(axis=1, keepdims=True)
    for metric, there in seen.items():
        if not there[wanted].all():
            system, case, _ = np.argwhere(wanted & ~there)[0]
            raise ValueError(f"no score of {metric} for {systems[system][0]} on {cases[case].id}, not even a failure")
    return Columns(systems, drawn, kinds, away, waiting, own)


# Table: scores aggregated with intervals, coverage and bounds, under a fingerprint.
#
# Aggregation has two steps: scores become columns over cases once (`Aggregate.filled`: what stands in for failures,
# what is combined picture by picture, then the mean over seeds), then `Aggregate.summarise` turns weighted means of
# those columns into numbers, for the point estimate and every bootstrap draw alike.

DRAWS = 2000
SEED = 20251115
OVERALL: Mapping[str, str] = {"level": "overall"}
INTERVAL_VERSION = 3
"""Bumped whenever intervals of the same scores change."""

_ROUNDING = 1e-9
_SMALL_N = 50
"""Clusters, as many as they are worth, below which an interval has a remark (docs/decisions/0004-intervals.md)."""
_UNEVEN = 0.9
"""Clusters that are worth less than this share of their number have that said."""


class Estimate(Record):
    """What a number rests on that was estimated from a part of the calls (refbench.tables.sampled)."""

    share: float
    n_judged: int
    """Of the calls that the number is made of, counted once for each case and part of the judging."""
    n_all: int
    all_calls95: tuple[float, float]
    """Where the number would be with all calls: it says what was not judged, and nothing about other cases."""
    effective_n: float
    """Cases drawn at random that would tell as much."""
    n_failed: int = 0
    """Of those judged, each with every seed, how many failed."""

    @property
    def half_width(self) -> float:
        """Half of where the number would be with all calls."""
        return (self.all_calls95[1] - self.all_calls95[0]) / 2


class Row(Record):
    """One number of a table, with what is needed to believe it.

    Counts are of pictures, each case as often as there are seeds. `n_expected` = `n_scored` + the failures +
    `n_not_asked`, always; what does not concern a case is beside it. `n_imputed` of the failures were given a value,
    by the official aggregate or because a model's own failures count as the worst. `bounds` are the lowest and the
    highest value that the failed ones could have led to.
    """

    model: str
    judge: str | None
    protocol: str
    metric: str
    slice: Mapping[str, str]
    value: float | None
    n_cases: int
    n_seeds: int
    n_expected: int
    n_scored: int
    n_not_asked: int
    n_not_applicable: int
    n_imputed: int
    failures: Mapping[str, int]
    own_failures: Mapping[str, int] = {}
    """Those of the failures that are the model's own: it refused or gave no picture."""
    ci95: tuple[float, float] | None
    ci99: tuple[float, float] | None = None
    """Only where a benchmark's paper has intervals at this level."""
    bounds: tuple[float, float] | None
    remark: str | None = None
    estimate: Estimate | None = None
    """Only where a part of the calls was judged: the value is then an estimate of what all would give, and `ci95` has
    its uncertainty too."""
    sampled: bool = False
    """Whether a part of the calls was judged by a design: the value is an estimate, or there is none."""

    @property
    def n_judged(self) -> int:
        """Of an estimate: the calls that were judged, each with every seed."""
        return self.estimate.n_judged * max(self.n_seeds, 1) if self.estimate else 0

    @property
    def n_failed(self) -> int:
        """Of an estimate: how many of these failed."""
        return self.estimate.n_failed if self.estimate else 0

    @property
    def tried(self) -> bool:
        """Whether it has a value, or was asked for everywhere and failed, or for so few that it cannot be told."""
        failed = bool(self.failures) and not NEVER_TRIED & self.failures.keys()
        return self.value is not None or self.sampled or (failed and not self.n_not_asked)


@dataclass(frozen=True)
class Slice:
    """A named part of the cases. `parts` are the slices that a macro average goes over."""

    level: str
    names: Mapping[str, str]
    members: NDArray[np.bool_]
    parts: tuple[Slice, ...] = ()
    ci99: bool = field(default=False, kw_only=True)
    """Whether its numbers have an interval of 99 % beside that of 95 %."""
    weight: float = field(default=1.0, kw_only=True)
    """How much it counts as a part of another slice."""

    @property
    def label(self) -> dict[str, str]:
        return {"level": self.level, **self.names}

    def weights(self, scored: NDArray[np.bool_]) -> Array:
        """What part of the slice's number each case has, where the scored ones of a part weigh alike and parts as they
        are to, down to the last; parts without any are left out."""
        if not self.parts:
            here = (self.members & scored).astype(np.float64)
            alone: Array = here / max(float(here.sum()), 1.0)
            return alone
        parts = [(part.weight, part.weights(scored)) for part in self.parts]
        there = sum(weight for weight, part in parts if part.any())
        together: Array = np.sum([weight * part for weight, part in parts], axis=0) / (there or 1.0)
        return together


@dataclass(frozen=True)
class Measure:
    """A column of the table: what it is made of, and the range of one picture's score.

    A measure of several parts is over the pictures that have all of those that apply to them: the same that its
    `n_scored` counts, and that a comparison is about.
    """

    name: str
    parts: tuple[str, ...]
    low: float | None = 0.0
    high: float | None = 1.0
    any_part: bool = False
    """Whether a picture counts as scored when some of the parts are there, not only when all are."""
    stands_for: Mapping[str, str] = field(default_factory=dict)
    """Parts that belong to it only where another one does not apply."""

    def aside(self, part: str, away: Mapping[str, Bools]) -> Bools:
        """Where a part is none of this measure's: it does not apply, or what it stands for does."""
        other = self.stands_for.get(part)
        return away[part] if other is None else np.logical_or(away[part], ~away[other])

    def whole(self, part: str) -> str:
        """The column that has a part where all parts are there; it is left out where that makes no difference."""
        return f"{part} where all of {self.name} is there"


def summary_measure(measures: Sequence[Measure], tried: Collection[str], there: Collection[str] = ()) -> str:
    """The measure that systems are ranked by: the last that was tried, else the last that is there at all.

    One that was tried and failed throughout stays the summary, without a value: no other takes its place unsaid.
    """
    return next((m.name for names in (tried, there) for m in reversed(measures) if m.name in names), measures[-1].name)


Summary: TypeAlias = Mapping[str, Array]
Mean: TypeAlias = Callable[[str, NDArray[np.bool_]], Array]
Has: TypeAlias = Callable[[str, NDArray[np.bool_]], bool]
"""Whether any of the chosen cases has a value of a metric."""


def slice_mean(mean: Mean, metric: str, where: Slice) -> Array:
    """Mean over the slice's cases; where it has parts, the mean of theirs by their weights, down to the last.

    Parts in which nothing could be scored are left out, and the row's remark names them: a run stopped early has
    such parts, and its number is about the others.
    """
    if not where.parts:
        return mean(metric, where.members)
    means = np.stack([slice_mean(mean, metric, part) for part in where.parts])
    weights = np.array([part.weight for part in where.parts])
    if (weights == weights[0]).all():
        return mean_of_those_there(means)
    there = ~np.isnan(means) * weights.reshape(-1, *(1,) * (means.ndim - 1))
    with np.errstate(invalid="ignore"):
        weighted: Array = np.nansum(means * there, axis=0) / there.sum(axis=0)
    return weighted


@dataclass(frozen=True)
class Aggregate:
    """How one protocol turns scores into a table, as pure functions.

    `summarise` gives each measure's value on a slice from weighted means (systems x draws); a measure that it does
    not give has no row there. `imputed` holds the values that the official aggregate puts in place of failures, by
    kind; empty for an honest one. `gaps` says what is missing from a row, where it is more than the names of the
    parts that nothing was scored in. `per_case` gives further columns from those of a picture's metrics and where
    these do not apply, both systems x cases x seeds: totals are taken of each picture, before seeds are averaged.
    """

    measures: tuple[Measure, ...]
    slices: Callable[[Sequence[AnyCase]], list[Slice]]
    summarise: Callable[[Mean, Slice], Summary]
    imputed: Mapping[str, float]
    gaps: Callable[[Has, Measure, Slice], str | None] | None = None
    per_case: Callable[[Mapping[str, Array], Mapping[str, Bools]], Mapping[str, Array]] | None = None
    turned: frozenset[str] = frozenset()
    """Metrics that `per_case` turns round: the less of them, the more there is of a total."""
    worst: Mapping[str, float] | None = None
    """With it, a model's own failures count as the worst value of each metric; NaN where none is known."""
    beside: frozenset[str] = frozenset()
    """Metrics that nothing is put in place of the failures of: those that are not the benchmark's, for example."""
    separate: bool = False
    """Whether each measure's number comes of the column of its name alone."""
    plain: bool = False
    """Whether a slice's number is a mean over its cases where the slice has no parts: then parts are but weights."""

    def overall(self, cases: Sequence[AnyCase]) -> list[Slice]:
        """The slice of all cases; none where the benchmark has no number for all of them."""
        return [where for where in self.slices(cases) if where.level == "overall"][:1]

    def counting_refusals(self, lower: Collection[str]) -> Aggregate:
        """The same with a model's own failures as the worst value; `lower` are the metrics of which less is better."""
        parts = {part for measure in self.measures for part in measure.parts}
        low, high = self.ends("low"), self.ends("high")
        return replace(self, worst={p: (high if p in lower else low).get(p, np.nan) for p in parts})

    def ends(self, side: str) -> dict[str, float]:
        """The lowest or highest value of each metric, as far as its range is finite."""
        found: dict[str, float] = {}
        for measure in self.measures:
            end = measure.low if side == "low" else measure.high
            if end is not None:
                for part in measure.parts:
                    found.setdefault(part, end)  # a part's own range, not that of a total over it
        return found

    def stands_in(self, columns: Columns, metric: str) -> Bools:
        """Which failures of a metric have a value all the same."""
        official = np.isin(columns.kinds[metric], [KINDS.index(kind) for kind in self._imputed(metric)])
        worst = self.worst is not None and np.isfinite(self.worst.get(metric, np.nan))
        return official | columns.own[metric] if worst else official

    def _imputed(self, metric: str) -> Mapping[str, float]:
        return {} if metric in self.beside else self.imputed

    def filled(self, columns: Columns, side: str = "", *, scored_too: bool = False) -> dict[str, Array]:
        """What each case's pictures give in each metric, systems x cases, with what stands in for failures; or as it
        would be if all failures had led to the lowest ("low") or highest ("high") value, where that is known; or
        (`scored_too`) all that was scored as well."""
        found = {metric: self._drawn(columns, metric, side, scored_too) for metric in columns.drawn}
        if self.per_case is not None:
            other = {"low": "high", "high": "low"}.get(side, "")
            turned = {m: self._drawn(columns, m, other, scored_too) for m in self.turned if m in found and other}
            given = {**found, **turned}
            found |= self.per_case(given, columns.away)
        for measure in self.measures:
            found |= _where_whole(measure, found, columns.away)
        return {metric: mean_of_those_there(drawn, axis=2) for metric, drawn in found.items()}

    def _drawn(self, columns: Columns, metric: str, side: str, scored_too: bool) -> Array:
        """A metric of each picture, with what stands in for failures."""
        drawn = columns.drawn[metric].copy()
        end = self.ends(side).get(metric) if side else None
        if end is not None:
            drawn[(columns.kinds[metric] >= 0) | (scored_too & ~np.isnan(drawn))] = end
        if self.worst is not None and not (scored_too and end is not None):  # the scale's own end is no value of theirs
            drawn[columns.own[metric]] = self.worst.get(metric, np.nan)
        for kind, value in self._imputed(metric).items() if not side else ():
            drawn[columns.kinds[metric] == KINDS.index(kind)] = value
        return drawn


def _where_whole(measure: Measure, drawn: Mapping[str, Array], away: Mapping[str, Bools]) -> dict[str, Array]:
    """The parts of a measure on the pictures that have all of them, where that leaves any out."""
    parts = [part for part in measure.parts if part in drawn]
    if measure.any_part or len(parts) < 2:
        return {}
    whole = np.all([~np.isnan(drawn[part]) | measure.aside(part, away) for part in parts], axis=0)
    if all((whole | np.isnan(drawn[part])).all() for part in parts):
        return {}
    return {measure.whole(part): np.where(whole, drawn[part], np.nan) for part in parts}


def tabulate(
    protocol: str,
    aggregate: Aggregate,
    scores: Sequence[Score] | Columns,
    cases: Sequence[AnyCase],
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[Row]:
    """All rows of one protocol's table. Pass `draws=0` to do without intervals."""
    if not isinstance(scores, Columns) and not scores:
        return []
    columns = scores if isinstance(scores, Columns) else columns_of(scores, cases)
    filled = aggregate.filled(columns)
    slices = aggregate.slices(cases)
    point = summaries(aggregate, filled, np.ones((1, len(cases))), slices)
    lowest, highest = (_bound(aggregate, columns, slices, side) for side in ("low", "high"))
    design = Design.of([case.cluster for case in cases], [case.stratum for case in cases])
    resampling = _Resampling(design, draws, seed)
    intervals = _intervals(aggregate, columns, filled, slices, point, resampling) if draws else {}
    stands_in = {metric: aggregate.stands_in(columns, metric) for metric in columns.kinds}
    rows = []
    for s, (model, judge) in enumerate(columns.systems):
        for i, where in enumerate(slices):
            for measure in aggregate.measures:
                place = i, measure.name
                if place not in point:
                    continue
                bounds = (
                    _pair(lowest[place][s, 0], highest[place][s, 0]) if place in lowest and place in highest else None
                )
                interval, wide, remark = intervals.get((s, *place), (None, None, None))
                value = _number(point[place][s, 0])
                endless = _without_a_worst(aggregate, columns, stands_in, measure, where, s)
                if endless:
                    value, interval, wide, bounds = None, None, None, None
                said = remark, _missing(aggregate, filled, measure, where, s), endless, _beyond(value, bounds)
                remark = "; ".join(filter(None, said)) or None
                rows.append(
                    Row(
                        model=model,
                        judge=judge,
                        protocol=protocol,
                        metric=measure.name,
                        slice=where.label,
                        value=value,
                        ci95=interval,
                        ci99=wide,
                        bounds=bounds,
                        remark=remark,
                        **_coverage(columns, stands_in, measure, where, s),
                    )
                )
    return rows


def summaries(
    aggregate: Aggregate, values: Mapping[str, Array], weights: Array | Mean, slices: Sequence[Slice], only: str = ""
) -> dict[tuple[int, str], Array]:
    """Every measure (or that one alone) on every slice (by its number) under each weight vector, systems x draws; or
    from other means of the values."""
    mean: Mean = WeightedMeans(values, weights) if isinstance(weights, np.ndarray) else weights
    # Measures that leave pictures out, because not all of their parts are there, have means of their own.
    wanted = [m for m in aggregate.measures if only in ("", m.name)]
    incomplete = [m for m in wanted if any(m.whole(part) in values for part in m.parts)]
    nothing = np.full((1, 1), np.nan)

    def asked(mean: Mean) -> Mean:
        if not only or not aggregate.separate:
            return mean
        return lambda metric, members: mean(metric, members) if metric == only else nothing

    def of_whole(measure: Measure) -> Mean:
        columns = {part: measure.whole(part) for part in measure.parts if measure.whole(part) in values}
        return lambda metric, members: mean(columns.get(metric, metric), members)

    found: dict[tuple[int, str], Array] = {}
    for i, where in enumerate(slices):
        of_slice = aggregate.summarise(asked(mean), where)
        found |= {(i, name): value for name, value in of_slice.items() if only in ("", name)}
    for measure in incomplete:
        whole = of_whole(measure)
        for i, where in enumerate(slices):
            if (i, measure.name) in found:
                found[i, measure.name] = aggregate.summarise(asked(whole), where)[measure.name]
    return found


def _bound(
    aggregate: Aggregate, columns: Columns, slices: Sequence[Slice], side: str, *, scored_too: bool = False
) -> dict[tuple[int, str], Array]:
    """The table if every failure (or every score at all) had been the lowest (or highest); nothing for measures without
    such an end."""
    bounded = {m.name for m in aggregate.measures if (m.low if side == "low" else m.high) is not None}
    filled = aggregate.filled(columns, side, scored_too=scored_too)
    found = summaries(aggregate, filled, np.ones((1, len(slices[0].members))), slices)
    return {place: value for place, value in found.items() if place[1] in bounded}


class _Resampling(NamedTuple):
    design: Design
    draws: int
    seed: int


def _intervals(
    aggregate: Aggregate,
    columns: Columns,
    values: Mapping[str, Array],
    slices: Sequence[Slice],
    point: Mapping[tuple[int, str], Array],
    resampling: _Resampling,
) -> dict[tuple[int, int, str], tuple[tuple[float, float] | None, tuple[float, float] | None, str | None]]:
    """Intervals (of 95 %, and of 99 % where that is wanted) and remark of every number of every system."""
    design = resampling.design

    def table(weights: Array) -> Array:
        found = summaries(aggregate, values, weights, slices)
        return np.stack([found[place] for place in point])

    drawn, influence = draws_of(table, *resampling)
    there = {measure.name: has_value(values, measure) for measure in aggregate.measures if measure.parts[0] in values}
    least, most = (ends_of(aggregate, columns, slices, side) for side in ("low", "high"))
    found = {}
    for place, (i, name) in enumerate(point):
        ends = least.get((i, name)), most.get((i, name))
        for s in range(drawn.shape[1]):
            weights = design.weights_of(slices[i].weights(there[name][s]))
            n, worth = int((weights > 0).sum()), effective_n(weights)
            low, high = (None if end is None else float(end[s, 0]) for end in ends)
            interval_at = partial(
                interval_for,
                point[i, name][s, 0],
                drawn[place, s],
                influence[place, s],
                n=worth,
                df=design.weighted_degrees_of_freedom(weights),
                ends=(low, high) if low is not None and high is not None and low < high else None,
            )
            interval, wide = interval_at(), interval_at(level=0.99) if slices[i].ci99 else None
            found[s, i, name] = interval and _pair(*interval), wide and _pair(*wide), _remark(interval, n, worth)
    return found


def ends_of(aggregate: Aggregate, columns: Columns, slices: Sequence[Slice], side: str) -> dict[tuple[int, str], Array]:
    """The end of each number's scale: the table if every score were the lowest (or highest); nothing for measures
    without such an end."""
    return _bound(aggregate, columns, slices, side, scored_too=True)


def has_value(values: Mapping[str, Array], measure: Measure) -> Bools:
    """Which cases have a value of a measure, systems x cases, in columns as `Aggregate.filled` gives them."""
    there: Bools = np.any([~np.isnan(values.get(measure.whole(p), values[p])) for p in measure.parts], axis=0)
    return there


def _missing(
    aggregate: Aggregate, values: Mapping[str, Array], measure: Measure, where: Slice, system: int
) -> str | None:
    """What a row is not about: what has no value at all, else what has none on the pictures that the number is over."""

    def has(metric: str, members: NDArray[np.bool_]) -> bool:
        return not np.isnan(values[metric][system, members]).all()

    def has_whole(metric: str, members: NDArray[np.bool_]) -> bool:
        return not np.isnan(values.get(measure.whole(metric), values[metric])[system, members]).all()

    if aggregate.gaps is None:
        return left_out(has_whole, measure, where)
    return aggregate.gaps(has, measure, where) or aggregate.gaps(has_whole, measure, where)


def left_out(has: Has, measure: Measure, where: Slice) -> str | None:
    """Names the parts of a macro average that nothing was scored in, at any depth: the outermost where all of a part
    is empty. Parts of one name are told apart by those that they are parts of."""

    def empty(of: Slice) -> Iterator[Slice]:
        for part in of.parts:
            if all(has(metric, part.members) for metric in measure.parts):
                yield from empty(part)
            else:
                yield part

    names = Counter(list(part.names.values())[-1] for part in _all_parts(where))
    lost = [list(part.names.values()) for part in empty(where)]
    said = [name[-1] if names[name[-1]] == 1 else " / ".join(name) for name in lost]
    return f"nothing scored in {', '.join(said)}" if said else None


def _all_parts(where: Slice) -> Iterator[Slice]:
    for part in where.parts:
        yield part
        yield from _all_parts(part)


def _remark(interval: tuple[float, float] | None, n: int, worth: float) -> str | None:
    if interval is None:
        return "no interval: too few or equal scores"
    if worth >= _SMALL_N - _ROUNDING:
        return None
    clusters = f"{n} cluster{'' if n == 1 else 's'}"
    return f"small n: {clusters}" + (f", worth {worth:.1f} of equal weight" if worth < _UNEVEN * n else "")


def _without_a_worst(
    aggregate: Aggregate,
    columns: Columns,
    stands_in: Mapping[str, Bools],
    measure: Measure,
    where: Slice,
    system: int,
) -> str | None:
    """Why there is no value when a model's own failures count as the worst, and nobody knows what that is."""
    if aggregate.worst is None:
        return None
    endless = [
        part
        for part in measure.parts
        if (columns.own[part] & ~stands_in[part] & ~measure.aside(part, columns.away))[system, where.members].any()
    ]
    return f"the model's own failures have no worst value in {', '.join(endless)}" if endless else None


def _beyond(value: float | None, bounds: tuple[float, float] | None) -> str | None:
    """A value is over whole pictures, its bounds use also the parts of those that failed in others."""
    if value is None or bounds is None or bounds[0] - _ROUNDING <= value <= bounds[1] + _ROUNDING:
        return None
    return "biased by its failures: with the parts that are there, the value would lie within the bounds"


def _coverage(
    columns: Columns, stands_in: Mapping[str, Bools], measure: Measure, where: Slice, system: int
) -> dict[str, Any]:
    """How many pictures were expected, scored, failed by kind (each counts once, by its first failed part), are not
    asked for yet, and do not concern the measure."""
    shape = int(where.members.sum()), next(iter(columns.drawn.values())).shape[2]
    failed = np.full(shape, -1, dtype=np.int8)
    imputed, out_of_scope = np.ones(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    some, waits, own = (np.zeros(shape, dtype=np.bool_) for _ in range(3))
    for part in measure.parts:
        aside = measure.aside(part, columns.away)[system, where.members]
        kinds = np.where(aside, np.int8(-1), columns.kinds[part][system, where.members])
        own = np.where(failed >= 0, own, columns.own[part][system, where.members])
        failed = np.where(failed >= 0, failed, kinds)
        imputed &= (kinds < 0) | stands_in[part][system, where.members]
        out_of_scope &= aside
        waits |= columns.waiting[part][system, where.members] & ~aside
        some |= ~np.isnan(columns.drawn[part][system, where.members]) & ~aside
    if measure.any_part:
        failed[some] = -1
        waits &= ~some
    waits &= failed < 0
    drawn = some | waits | out_of_scope | (failed >= 0)
    expected = int((drawn & ~out_of_scope).sum())
    failures = _by_kind(failed)
    return {
        "n_cases": shape[0],
        "n_seeds": int(drawn.any(axis=0).sum()),
        "n_expected": expected,
        "n_scored": expected - sum(failures.values()) - int(waits.sum()),
        "n_not_asked": int(waits.sum()),
        "n_not_applicable": int((drawn & out_of_scope).sum()),
        "n_imputed": int((imputed & (failed >= 0)).sum()),
        "failures": failures,
        "own_failures": _by_kind(np.where(own, failed, -1)),
    }


def _by_kind(failed: NDArray[np.int8]) -> dict[str, int]:
    counts = np.bincount(failed[failed >= 0], minlength=len(KINDS))
    return {KINDS[k]: int(n) for k, n in enumerate(counts) if n}


def _number(value: float) -> float | None:
    """Rounded far below any meaning, so that the order of summation does not show in a table's bytes."""
    return round(float(value), 9) if np.isfinite(value) else None


def _pair(low: float, high: float) -> tuple[float, float] | None:
    rounded = _number(low), _number(high)
    return None if rounded[0] is None or rounded[1] is None else (rounded[0], rounded[1])


class Table(Record):
    """Rows of one benchmark under one fingerprint. `parts` is what the fingerprint was taken of."""

    benchmark: str
    fingerprint: str
    parts: Mapping[str, Any]
    digest: str
    """Hash of the states of all scores: equal fingerprint and digest mean equal numbers."""
    rows: tuple[Row, ...]


def names_of(where: Mapping[str, str]) -> list[str]:
    """The names of a slice, its own last; of cases that lack a tag, `without` it."""
    names = [name for key, name in where.items() if key not in ("level", "has")]
    return [*names[:-1], f"without {names[-1]}"] if where.get("has") == "no" else names


ENOUGH = 0.5
"""The share of what is expected of a model that its number must be about for the model to be ranked by it."""


@dataclass(frozen=True)
class Ranked:
    """A row at its place in an order, best first. `rank` is None where the row has no value or is about too few
    cases: one good picture of a thousand is no first place."""

    row: Row
    rank: int | None
    unasked: int = 0
    """Cases that no model beside it has been asked for yet."""

    @property
    def why_not(self) -> str | None:
        """Why the row has no rank, in words that follow the model's name; None where it has one."""
        if self.rank is not None:
            return None
        if self.row.value is None:
            return f"not ranked: no value ({self.row.n_scored} of {self.row.n_expected} scored)"
        if self.row.estimate is not None:
            return f"not ranked: {self.row.n_failed} of the {self.row.n_judged} calls judged failed"
        so_far = " asked for so far" if self.unasked else ""
        return f"not ranked: only {_counted(self.row)} of {self.row.n_expected - self.unasked}{so_far} scored"


def ranked(rows: Sequence[Row], lower: Collection[str], *, together: bool = False) -> list[Ranked]:
    """The rows of one measure on one slice under one protocol, best first; those without a rank come last.

    The one rule for every table, page and sheet. Judges stand apart, in the order they come in: a strict judge's best
    model is not behind a mild one's worst. Equal values share a rank. Cases that no model has been asked for yet are
    expected of none, so a run that was stopped half way ranks its models; what was imputed is part of the number.
    Where judges are what is ranked, they stand `together`.
    """
    found: list[Ranked] = []
    for judge in [None] if together and rows else dict.fromkeys(row.judge for row in rows):
        mine = [row for row in rows if together or row.judge == judge]
        unasked = min(row.n_not_asked for row in mine)
        enough = [row.value is not None and is_enough(row, unasked) for row in mine]
        values = [_turned(row, lower) for row, has_rank in zip(mine, enough, strict=True) if has_rank]
        order = sorted(
            zip(mine, enough, strict=True), key=lambda one: (not one[1], one[0].value is None, -_turned(one[0], lower))
        )
        found += [
            Ranked(row, 1 + sum(v > _turned(row, lower) for v in values) if has else None, unasked)
            for row, has in order
        ]
    return found


def is_enough(row: Row, unasked: int) -> bool:
    """Whether the value is about enough of the cases; an estimate is about enough of those that were judged."""
    if row.estimate is None:
        return _counted(row) >= ENOUGH * (row.n_expected - unasked)
    return sum(row.failures.values()) <= row.n_imputed or row.n_failed <= (1 - ENOUGH) * row.n_judged


def _counted(row: Row) -> int:
    """How many of its cases a row's value is about."""
    return row.n_scored + row.n_imputed


def _turned(row: Row, lower: Collection[str]) -> float:
    """The value, turned so that more is better."""
    return (-1 if row.metric in lower else 1) * (row.value or 0.0)


# What each single case contributes: the benchmark's own aggregate, applied to one case at a time.
#
# Comparisons, pages and picture sheets rank cases by these values; tables never average them.


def case_values(aggregate: Aggregate, columns: Columns, cases: Sequence[AnyCase]) -> dict[str, Array]:
    """Each measure of the aggregate on each single case, systems x cases; NaN where the case has no value.

    A measure over several metrics (a total, a gated sum) is computed from the case's own scores, as the table
    would if this were its only case.
    """
    values: Mapping[str, Array] = aggregate.filled(columns)
    overall = aggregate.overall(cases)
    # The last is of all cases: an aggregate may look there for what the benchmark has values of at all.
    found = summaries(aggregate, values, SingleMeans(values), overall)
    return {measure: value[:, :-1] for (_, measure), value in found.items()}
