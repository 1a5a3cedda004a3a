"""Table: scores aggregated with intervals, coverage and bounds, under a fingerprint.

Aggregation has two steps: scores become columns over cases once, then `Aggregate.summarise` turns weighted
means of those columns into numbers, for the point estimate and every bootstrap draw alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase
from refbench.columns import Columns, columns_of
from refbench.failure import KINDS
from refbench.record import Record
from refbench.score import Score
from refbench.stats import Array, Design, WeightedMeans, bca_interval, draws_of

DRAWS = 2000
SEED = 20251115
OVERALL: Mapping[str, str] = {"level": "overall"}
INTERVAL_VERSION = 1
"""Bumped whenever intervals of the same scores change."""

_SMALL_N = 50
"""Below this many clusters an interval comes with a remark (docs/decisions/0004-intervals.md)."""


class Row(Record):
    """One number of a table, with what is needed to believe it.

    `n_expected` = `n_scored` + the failures, always; `n_imputed` of the failures were given a value by the
    official aggregate. `bounds` are the worst and best value the failed cases could have led to.
    """

    model: str
    judge: str | None
    protocol: str
    metric: str
    slice: Mapping[str, str]
    value: float | None
    n_expected: int
    n_scored: int
    n_imputed: int
    failures: Mapping[str, int]
    ci95: tuple[float, float] | None
    bounds: tuple[float, float] | None
    remark: str | None = None


@dataclass(frozen=True)
class Slice:
    """A named part of the cases. `parts` are the slices that a macro average goes over."""

    level: str
    names: Mapping[str, str]
    members: NDArray[np.bool_]
    parts: tuple[Slice, ...] = ()

    @property
    def label(self) -> dict[str, str]:
        return {"level": self.level, **self.names}


@dataclass(frozen=True)
class Measure:
    """A column of the table: what it is made of, and the range of one case's score."""

    name: str
    parts: tuple[str, ...]
    low: float | None = 0.0
    high: float | None = 1.0
    any_part: bool = False
    """Whether a case counts as scored when some of the parts are there, not only when all are."""


def summary_measure(measures: Sequence[Measure], valued: Collection[str], there: Collection[str] = ()) -> str:
    """The measure that systems are ranked by: the last that has a value, else the last that is there at all."""
    return next((m.name for names in (valued, there) for m in reversed(measures) if m.name in names), measures[-1].name)


Summary: TypeAlias = Mapping[str, Array]
Mean: TypeAlias = Callable[[str, NDArray[np.bool_]], Array]
Has: TypeAlias = Callable[[str, NDArray[np.bool_]], bool]
"""Whether any of the chosen cases has a value of a metric."""


def slice_mean(mean: Mean, metric: str, where: Slice) -> Array:
    """Mean over the slice's cases; where it has parts, the unweighted mean of theirs.

    Parts in which nothing could be scored are left out, and the row's remark names them: a run stopped early has
    such parts, and its number is about the others.
    """
    if not where.parts:
        return mean(metric, where.members)
    parts = np.stack([mean(metric, part.members) for part in where.parts])
    there = ~np.isnan(parts)
    with np.errstate(invalid="ignore"):
        averaged: Array = np.where(there, parts, 0.0).sum(axis=0) / there.sum(axis=0)
    return averaged


@dataclass(frozen=True)
class Aggregate:
    """How one protocol turns scores into a table, as pure functions.

    `summarise` gives each measure's value on a slice from weighted means (systems x draws); a measure that it does
    not give has no row there. `imputed` holds the values that the official aggregate puts in place of failures, by
    kind; empty for an honest one. `gaps` says what is missing from a row, where it is more than the names of the
    parts that nothing was scored in.
    """

    measures: tuple[Measure, ...]
    slices: Callable[[Sequence[AnyCase]], list[Slice]]
    summarise: Callable[[Mean, Slice], Summary]
    imputed: Mapping[str, float]
    gaps: Callable[[Has, Measure, Slice], str | None] | None = None

    def overall(self, cases: Sequence[AnyCase]) -> list[Slice]:
        """The slice of all cases; none where the benchmark has no number for all of them."""
        return [where for where in self.slices(cases) if where.level == "overall"][:1]

    def filled(self, columns: Columns) -> dict[str, Array]:
        """The values of each metric with what the official aggregate puts in place of failures."""
        found = {metric: values.copy() for metric, values in columns.values.items()}
        for metric, values in found.items():
            for kind, value in self.imputed.items():
                values[columns.failures[metric] == KINDS.index(kind)] = value
        return found


def tabulate(
    protocol: str,
    aggregate: Aggregate,
    scores: Sequence[Score],
    cases: Sequence[AnyCase],
    *,
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[Row]:
    """All rows of one protocol's table. Pass `draws=0` to do without intervals."""
    if not scores:
        return []
    columns = columns_of(scores, cases)
    filled = aggregate.filled(columns)
    slices = aggregate.slices(cases)
    point = summaries(aggregate, filled, np.ones((1, len(cases))), slices)
    lowest, highest = (_bound(aggregate, columns, slices, side) for side in ("low", "high"))
    intervals = {}
    if draws:
        intervals = _intervals(aggregate, filled, columns.inapplicable, cases, slices, point, draws, seed)
    rows = []
    for s, (model, judge) in enumerate(columns.systems):
        for i, where in enumerate(slices):
            for measure in aggregate.measures:
                place = i, measure.name
                if place not in point:
                    continue
                bounded = place in lowest and place in highest
                interval, remark = intervals.get((s, *place), (None, None))
                remark = "; ".join(filter(None, (remark, _missing(aggregate, filled, measure, where, s)))) or None
                rows.append(
                    Row(
                        model=model,
                        judge=judge,
                        protocol=protocol,
                        metric=measure.name,
                        slice=where.label,
                        value=_number(point[place][s, 0]),
                        ci95=interval,
                        bounds=_pair(lowest[place][s, 0], highest[place][s, 0]) if bounded else None,
                        remark=remark,
                        **_coverage(columns, measure, where, s, aggregate.imputed),
                    )
                )
    return rows


def summaries(
    aggregate: Aggregate, values: Mapping[str, Array], weights: Array, slices: Sequence[Slice]
) -> dict[tuple[int, str], Array]:
    """Every measure on every slice (by its number) under each weight vector, systems x draws."""
    mean = WeightedMeans(values, weights)
    return {
        (i, name): value for i, where in enumerate(slices) for name, value in aggregate.summarise(mean, where).items()
    }


def _bound(aggregate: Aggregate, columns: Columns, slices: Sequence[Slice], side: str) -> dict[tuple[int, str], Array]:
    """The table if every failed case had the worst (or best) score; nothing for measures without a finite range."""
    extreme: dict[str, float] = {}
    bounded = []
    for measure in aggregate.measures:
        value = measure.low if side == "low" else measure.high
        if value is None:
            continue
        bounded.append(measure.name)
        for part in measure.parts:
            extreme.setdefault(part, value)  # a part's own range, not that of a total over it
    filled = {
        m: np.where(columns.failures[m] >= 0, extreme[m], values) if m in extreme else values
        for m, values in columns.values.items()
    }
    found = summaries(aggregate, filled, np.ones((1, len(slices[0].members))), slices)
    return {place: value for place, value in found.items() if place[1] in bounded}


def _intervals(
    aggregate: Aggregate,
    values: Mapping[str, Array],
    inapplicable: Mapping[str, NDArray[np.bool_]],
    cases: Sequence[AnyCase],
    slices: Sequence[Slice],
    point: Mapping[tuple[int, str], Array],
    draws: int,
    seed: int,
) -> dict[tuple[int, int, str], tuple[tuple[float, float] | None, str | None]]:
    design = Design.of([case.cluster for case in cases], [case.stratum for case in cases])

    def table(weights: Array) -> Array:
        found = summaries(aggregate, values, weights, slices)
        return np.stack([found[place] for place in point])

    drawn, influence = draws_of(table, design, draws, seed)
    measures = {measure.name: measure for measure in aggregate.measures}
    found = {}
    for place, (i, name) in enumerate(point):
        for s in range(drawn.shape[1]):
            there = [~np.isnan(values[part][s]) for part in measures[name].parts]
            apart = [inapplicable[part][s] for part in measures[name].parts]
            has_value = np.any(there, axis=0)
            if not measures[name].any_part:
                has_value &= np.all(np.logical_or(there, apart), axis=0)
            scored = slices[i].members & has_value
            n = len(design.clusters_of(scored))
            df = design.degrees_of_freedom(scored)
            interval = bca_interval(point[i, name][s, 0], drawn[place, s], influence[place, s], df)
            found[s, i, name] = interval and _pair(*interval), _remark(interval, n)
    return found


def _missing(
    aggregate: Aggregate, values: Mapping[str, Array], measure: Measure, where: Slice, system: int
) -> str | None:
    if aggregate.gaps is None:
        return _left_out(values, measure, where, system)
    return aggregate.gaps(lambda m, members: not np.isnan(values[m][system, members]).all(), measure, where)


def _left_out(values: Mapping[str, Array], measure: Measure, where: Slice, system: int) -> str | None:
    """Names the parts of a macro average that nothing was scored in."""
    empty = [
        list(part.names.values())[-1]
        for part in where.parts
        if any(np.isnan(values[m][system, part.members]).all() for m in measure.parts)
    ]
    return f"nothing scored in {', '.join(empty)}" if empty else None


def _remark(interval: tuple[float, float] | None, n: int) -> str | None:
    if interval is None:
        return "no interval: too few or equal scores"
    return f"small n: {n} clusters" if n < _SMALL_N else None


def _coverage(
    columns: Columns, measure: Measure, where: Slice, system: int, imputed: Mapping[str, float]
) -> dict[str, Any]:
    """How many cases were expected, scored, and failed by kind (a case counts once, by its first failed part)."""
    failed = np.full(where.members.sum(), -1, dtype=np.int8)
    stands_in = np.ones(len(failed), dtype=np.bool_)
    out_of_scope = np.ones(len(failed), dtype=np.bool_)
    some = np.zeros(len(failed), dtype=np.bool_)
    imputed_kinds = [KINDS.index(kind) for kind in imputed]
    for part in measure.parts:
        kinds = columns.failures[part][system, where.members]
        failed = np.where(failed >= 0, failed, kinds)
        stands_in &= (kinds < 0) | np.isin(kinds, imputed_kinds)
        out_of_scope &= columns.inapplicable[part][system, where.members]
        some |= ~np.isnan(columns.values[part][system, where.members])
    if measure.any_part:
        failed[some] = -1
    expected = int((~out_of_scope).sum())
    counts = np.bincount(failed[failed >= 0], minlength=len(KINDS))
    failures = {KINDS[k]: int(n) for k, n in enumerate(counts) if n}
    return {
        "n_expected": expected,
        "n_scored": expected - sum(failures.values()),
        "n_imputed": int((stands_in & (failed >= 0)).sum()),
        "failures": failures,
    }


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
    rows: tuple[Row, ...]
