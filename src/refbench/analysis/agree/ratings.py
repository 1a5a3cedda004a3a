"""Ratings: what several raters, judges or people, said about the same items, whatever it was read from; and the scales
that they use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.judges.panel import MEAN
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.stats import Array, Bins
from refbench.tables.result import Result
from refbench.tables.table import Aggregate, Columns, case_values, columns_of, summaries

MEASURED = "measured"
"""The rater of metrics that no judge gives."""

Range = tuple[float, float]


class RatedItem(NamedTuple):
    """What is rated: a model's output for a case, by one metric."""

    case: str
    model: str
    metric: str
    seed: int | None = None
    """Which of the model's pictures; None where that is not known, or the mean over all of them is meant."""


class Mark(NamedTuple):
    """What one rater said of an item; None where it should have said something and did not."""

    item: RatedItem
    rater: str
    value: float | None
    repeat: str = ""


@dataclass(frozen=True)
class Ratings:
    """Marks of all raters, with what is known about the cases and the scales."""

    marks: tuple[Mark, ...]
    humans: frozenset[str] = frozenset()
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By case: the names it can be grouped by."""
    clusters: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """By case: its cluster and stratum, where they are not the case itself."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """By metric: the range of the judges' marks, where it is known."""
    one_scale: bool = False
    """Whether the judges are known to use one scale (they follow the same rubric)."""
    summaries: bool = False
    """Whether the marks are means already, so that there are no cases to resample."""
    notes: tuple[str, ...] = ()

    @property
    def raters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(mark.rater for mark in self.marks))

    @property
    def judges(self) -> tuple[str, ...]:
        return tuple(rater for rater in self.raters if rater not in self.humans)

    @property
    def people(self) -> tuple[str, ...]:
        return tuple(rater for rater in self.raters if rater in self.humans)

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(mark.item.metric for mark in self.marks))

    def of_metric(self, metric: str) -> tuple[tuple[RatedItem, ...], dict[str, Array]]:
        """The items of a metric, and each rater's marks of them (NaN: none); several repeats are averaged."""
        items = tuple(dict.fromkeys(mark.item for mark in self.marks if mark.item.metric == metric))
        place = {item: i for i, item in enumerate(items)}
        sums = {rater: np.zeros((2, len(items))) for rater in self.raters}
        for mark in self.marks:
            if mark.value is not None and mark.item.metric == metric:
                sums[mark.rater][:, place[mark.item]] += mark.value, 1
        with np.errstate(invalid="ignore", divide="ignore"):
            return items, {rater: total / count for rater, (total, count) in sums.items()}

    def group(self, case: str, name: str) -> str | None:
        return self.groups.get(case, {}).get(name)

    @property
    def group_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for of_case in self.groups.values() for name in of_case))

    def cluster(self, case: str) -> tuple[str, str]:
        return self.clusters.get(case, (case, ""))

    def only(self, judges: Sequence[str]) -> Ratings:
        """The ratings of these judges and of all people."""
        stranger = next((judge for judge in judges if judge not in self.judges), None)
        if stranger is not None:
            raise RefBenchError(f"--judges {stranger}: the judges here are {', '.join(self.judges) or 'none'}")
        kept = {*judges, *self.humans}
        return self.with_marks([mark for mark in self.marks if mark.rater in kept])

    def of_cases(self) -> Ratings:
        """The marks of cases: each rater's mean over the pictures of a case that it marked."""
        values: dict[tuple[RatedItem, str, str], list[float]] = {}
        for mark in self.marks:
            given = values.setdefault((mark.item._replace(seed=None), mark.rater, mark.repeat), [])
            given += [] if mark.value is None else [mark.value]
        return self.with_marks(
            Mark(item, rater, float(np.mean(given)) if given else None, repeat)
            for (item, rater, repeat), given in values.items()
        )

    def with_marks(self, marks: Iterable[Mark], **changed: object) -> Ratings:
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Ratings(**{**values, "marks": tuple(marks), **changed})


def ratings_of(result: Result, protocol: str | None = None) -> Ratings:
    """The judges of a result as raters: each measure of its table, of each single picture, in the table's units."""
    chosen = protocol or next(iter(dict.fromkeys(score.protocol for score in result.scores)))
    scores = [score for score in result.scores if score.protocol == chosen]
    return Ratings(
        marks=tuple(marks_of(result.bench, chosen, scores, result.cases)),
        groups=groups_of(result.cases),
        clusters={case.id: (case.cluster, case.stratum) for case in result.cases},
        ranges=ranges_of(result.bench.scoring.protocols[chosen].aggregate, result.cases),
        one_scale=True,
    )


def groups_of(cases: Sequence[AnyCase]) -> dict[str, dict[str, str]]:
    return {case.id: dict(case.groups) for case in cases}


def marks_of(
    bench: Benchmark, protocol: str, scores: Sequence[Score], cases: Sequence[AnyCase], repeat: str = ""
) -> Iterable[Mark]:
    """Marks from scores of one protocol, one for each system, picture and measure; none of what was not asked for yet.

    What is measured without a judge is listed once, under a rater of its own: every judge would agree on it.
    """
    aggregate = bench.scoring.protocols[protocol].aggregate
    columns = columns_of(scores, cases)
    seeds = sorted({score.seed for score in scores})
    drawn = [columns.of_seed(place) for place in range(len(seeds))]
    by_seed = [case_values(aggregate, one, cases) for one in drawn]
    values = {name: np.stack([of_seed[name] for of_seed in by_seed], axis=2) for name in by_seed[0]}
    measured = {measure.name for measure in aggregate.measures if set(measure.parts) <= bench.asking.measured}
    seen: set[tuple[str, str]] = set()
    for name in _different(values):
        parts = next(measure.parts for measure in aggregate.measures if measure.name == name)
        for s, (model, judge) in enumerate(columns.systems):
            if name in measured:
                if (model, name) in seen:
                    continue
                seen.add((model, name))
            elif judge is None:
                continue
            rater = MEASURED if name in measured else str(judge)
            there = np.isfinite(values[name][s])
            expected = there & ~np.all([columns.away[part][s] for part in parts], axis=0)
            expected |= ~there & np.any([columns.kinds[part][s] >= 0 for part in parts], axis=0)
            for i, k in np.argwhere(expected).tolist():
                item = RatedItem(cases[i].id, model, name, seeds[k])
                yield Mark(item, rater, float(values[name][s, i, k]) if there[i, k] else None, repeat)


def _different(values: Mapping[str, Array]) -> list[str]:
    """Measures that differ on single pictures: two ways of averaging over cases are one there; the last is kept."""
    names: list[str] = []
    for name, column in values.items():
        names = [other for other in names if not np.array_equal(values[other], column, equal_nan=True)]
        names.append(name)
    return names


def ranges_of(aggregate: Aggregate, cases: Sequence[AnyCase]) -> dict[str, Range]:
    """The range of each measure of a single case in the table's units: the aggregate of the worst and of the best."""
    overall = aggregate.overall(cases)
    ends_of_measures: list[dict[str, float]] = []
    for side in ("low", "high"):
        ends = {m.name: getattr(m, side) for m in aggregate.measures if m.parts == (m.name,)}
        columns = {
            part: np.full((1, len(cases)), np.nan if ends.get(part) is None else ends[part])
            for measure in aggregate.measures
            for part in measure.parts
        }
        for measure in aggregate.measures:
            for part in measure.parts:
                if part not in ends and getattr(measure, side) is not None:
                    columns[part][:] = getattr(measure, side)
        filled = aggregate.filled(Columns.of_values([("", None)], columns))
        values = summaries(aggregate, filled, np.ones((1, len(cases))), overall)
        ends_of_measures.append({name: float(value[0, 0]) for (_, name), value in values.items()})
    return {
        name: (low, ends_of_measures[1][name])
        for name, low in ends_of_measures[0].items()
        if np.isfinite(low) and np.isfinite(ends_of_measures[1].get(name, np.nan)) and low < ends_of_measures[1][name]
    }


def joined(first: Ratings, second: Ratings, names: tuple[str, str]) -> Ratings:
    """Two runs of the same benchmark: judges of one name are told apart by the run."""
    shared = set(first.raters) & set(second.raters)

    def renamed(ratings: Ratings, run: str) -> list[Mark]:
        return [m._replace(rater=f"{m.rater} ({run})") if m.rater in shared else m for m in ratings.marks]

    return first.with_marks(
        [*renamed(first, names[0]), *renamed(second, names[1])],
        groups={**second.groups, **first.groups},
        clusters={**second.clusters, **first.clusters},
    )


def is_panel(rater: str) -> bool:
    """Whether a rater is made of the judges' marks or of no judge's at all: not to be paired with a judge."""
    return rater in (MEAN, MEASURED) or rater.startswith((f"{MEAN} (", f"{MEASURED} ("))


DEFAULT_BINS = 5
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_RANGE = re.compile(f"{_NUMBER}-{_NUMBER}")


@dataclass(frozen=True)
class RaterScales:
    """What the user says of the scales: the people's range, and the judges' where it differs from what a run knows."""

    humans: Range | None = None
    judges: Range | None = None
    same: bool = False

    @classmethod
    def parse(cls, text: str | None) -> RaterScales:
        """From `same`, the people's `1-5`, or the people's and the judges', `1-5:1-10`."""
        if text is None:
            return cls()
        if text == "same":
            return cls(same=True)
        sides = [_RANGE.fullmatch(part) for part in text.split(":")]
        ranges = [(float(side[1]), float(side[2])) for side in sides if side is not None]
        if len(ranges) != len(sides) or len(ranges) > 2 or any(low >= high for low, high in ranges):
            raise RefBenchError(
                f"--scale {text}: write same, the people's scale as 1-5, or theirs and the judges' as 1-5:1-10"
            )
        return cls(humans=ranges[0], judges=ranges[1] if len(ranges) == 2 else None)

    def limits(self, person: bool, known: Range | None = None) -> Range | None:
        """The range that a rater's marks lie in; `known` is that of the judges of a run."""
        if self.same:
            return known
        return self.humans if person else self.judges


@dataclass(frozen=True)
class CommonScale:
    """The scale that the marks of a pair of raters are compared on, if there is one."""

    same_scale: bool
    limits: Range | None
    """The scale's range, where it is known."""
    judged: Range | None = None
    """The judges' range that is mapped onto the limits."""
    reason: str = ""

    def mapped(self, marks: Array) -> Array:
        """Judges' marks on the people's scale."""
        if self.judged is None or self.limits is None or self.judged == self.limits:
            return marks
        (low, high), (a, b) = self.judged, self.limits
        return a + (marks - low) * (b - a) / (high - low)


def of_judges(scale: RaterScales, one_scale: bool, known: Range | None) -> CommonScale:
    """Judges of one rubric share their scale; columns of a file do when the user says so."""
    if one_scale or scale.same or scale.judges:
        return CommonScale(True, known or scale.judges)
    return CommonScale(False, None, reason="say --scale same if all columns use one scale")


def of_people(scale: RaterScales) -> CommonScale:
    return CommonScale(True, scale.humans)


def judge_with_people(scale: RaterScales, known: Range | None) -> CommonScale:
    """Judge and people, in the people's units; raters share a scale only where the user says so."""
    if scale.same:
        return CommonScale(True, known)
    if scale.humans is None:
        return CommonScale(False, None, reason="say --scale same, or both scales as --scale 1-5:1-10 (people's first)")
    judges = scale.judges or known
    if judges is None:
        return CommonScale(False, None, reason="say the judges' scale as well, as --scale 1-5:1-10")
    return CommonScale(True, scale.humans, judged=judges)


def bins_for(said: str | None, scale: CommonScale, *marks: Array) -> Bins | None:
    """The bins of plain kappa: the user's, else whole marks as they are, else equal bins of a known range."""
    if said is None:
        whole = Bins.marks(*marks)
        if whole is not None:
            return whole
        return Bins.equal(DEFAULT_BINS, *scale.limits) if scale.limits else None
    try:
        if re.fullmatch(r"\d+", said):
            return Bins.equal(int(said), *scale.limits) if scale.limits else None
        return Bins.at(*(float(edge) for edge in said.split(",")))
    except ValueError as error:
        raise RefBenchError(f"--bins {said}: give how many (5), or rising edges (2.5,3.5): {error}") from error
