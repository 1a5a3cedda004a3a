"""Do raters agree: judges with judges, judges with people, people with people, by item, task and system.

At item level a point is one picture of a model; at task level the mean of a model over its pictures of a task's cases,
at system level over all of them, always over the pictures that both raters marked. Intervals resample cases by cluster;
models and raters stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.agree.ratings import (
    CommonScale,
    RatedItem,
    RaterScales,
    Ratings,
    bins_for,
    is_panel,
    judge_with_people,
    of_judges,
    of_people,
    ratings_of,
)
from refbench.record import Record, RefBenchError
from refbench.stats import Array, Bins, Design, bca_interval, draws_of, mean_of_those_there
from refbench.stats.agreement import FIGURES, SAME_SCALE, Forms, agreement_draws, alpha_draws, icc_draws
from refbench.stats.quantiles import t_quantile
from refbench.tables.result import Result
from refbench.tables.table import SEED

MarkPair: TypeAlias = tuple[Array, Array]
"""Two raters' marks of the same items, NaN where one gave none."""
Labels: TypeAlias = np.ndarray[Any, Any] | None
"""The point that each item belongs to (a model, a task of a model); None where each is a point of its own."""
Clusters: TypeAlias = Sequence[tuple[str, str]] | None
"""Cluster and stratum of each item's case; None where marks are means already and nothing can be resampled."""

_MOST_LEFT_OUT = 1000
"""Clusters up to which each is left out once: figures of pairs cost more than means."""
_ONE_SIDED = 0.975
"""Share of draws on one side of the figure above which there is no interval."""


Level: TypeAlias = Literal["item", "task", "system"]
LEVELS: tuple[Level, ...] = ("item", "task", "system")
Kind: TypeAlias = Literal["judge-judge", "judge-human", "human-human", "human-others", "human-pairs", "humans"]
DRAWS = 1000
_TASKS = ("task", "dimension", "category")
"""Groups that are tasks, best first."""
_MOSTLY = 0.9
"""Share of the cases that every model should have for its mean to stand beside the others'."""
_CEILING = "ceiling"
_FEWEST_FOR_ICC = 5
"""Points that an ICC needs: of three models it may come out as -2."""
_MOST_PAIRED = 6
"""People up to which each pair of them has rows; of more, each is compared with the mean of the others."""


class Figure(Record):
    """A figure with its 95 % interval, where there is one."""

    value: float
    ci95: tuple[float, float] | None = None


class AgreementRow(Record):
    """How two raters agree in one metric, at one level, on all cases or one group of them."""

    first: str
    second: str
    kind: Kind
    level: Level
    metric: str
    group: str
    """Empty for all cases, else as `category=Style`."""
    n: int
    """Points compared: items, means of a model over a task, or models."""
    n_cases: int
    figures: Mapping[str, Figure]
    missing: Mapping[str, str]
    """Figures that have no value, with the reason."""
    bins: str | None = None
    """How marks were binned for plain kappa."""
    remark: str | None = None
    ceiling: Figure | None = None
    """Of all people together: the highest Pearson correlation with their mean that their own disagreement leaves to a
    judge, the square root of that mean's reliability; None elsewhere, and where people do not agree beyond chance."""

    def flat(self) -> dict[str, Any]:
        """The row with a key for each figure: `{value, ci95}` or None."""
        row = self.model_dump(mode="json", exclude={"figures", "key"})
        return {**row, **{name: f and f.model_dump(mode="json") for name, f in self._all()}}

    def _all(self) -> Iterator[tuple[str, Figure | None]]:
        return ((name, self.figures.get(name)) for name in FIGURES)


@dataclass(frozen=True)
class AgreeOptions:
    """What is asked of the ratings: at which levels, in which groups, on which scale, in which forms of the figures,
    and what else about the raters."""

    levels: Sequence[Level] = LEVELS
    by: Sequence[str] = ()
    task: str | None = None
    """The group whose names are tasks; None for the first of task, dimension, category."""
    scale: RaterScales = field(default_factory=RaterScales)
    bins: str | None = None
    forms: Forms = field(default_factory=Forms)
    draws: int = DRAWS
    seed: int = SEED
    partitions: int = 0
    """Instead of one figure over all cases, the mean over so many random parts of them, as MultiBanana's Table 9."""
    judges: Sequence[str] = ()
    """Only these; all of them where none is named."""
    repeats: Literal["repeat", "seed"] | None = None
    """Also how steady a judge is over its repeats, or a model over its seeds."""
    failures: bool = False
    """Also how many answers each rater did not give."""
    self_preference: bool = False
    """Also whether a judge favours models of its own family."""
    families: Mapping[str, str] = field(default_factory=dict)
    """Families of judges and models whose names do not say them."""


def agreement_rows(
    result: Result, protocol: str | None = None, options: AgreeOptions | None = None
) -> list[dict[str, Any]]:
    """Rows for every pair of judges of a result, as the pages want them; empty where there is one judge."""
    if len({score.judge for score in result.scores} - {None}) < 2:
        return []  # before all of their marks are gathered
    ratings = ratings_of(result, protocol)
    if sum(not is_panel(judge) for judge in ratings.judges) < 2:
        return []
    return [row.flat() for row in agreement(ratings, options or AgreeOptions())]


def agreement(ratings: Ratings, options: AgreeOptions) -> list[AgreementRow]:
    """Every pair that can be compared, at every level, for every metric and group."""
    for name in options.by:
        if name not in ratings.group_names:
            known = ", ".join(("metric", *ratings.group_names))
            raise RefBenchError(f"--by {name}: the cases have no such group; there are {known}")
    n_cases = len({mark.item.case for mark in ratings.marks})
    if options.partitions > n_cases:
        raise RefBenchError(f"--partitions {options.partitions}: there are {n_cases} cases to divide into parts")
    task = task_group(ratings, options)
    levels = [level for level in options.levels if level != "task" or task is not None]
    rows = []
    # People mark a case, whichever picture of it they saw: judges meet on pictures, and people on cases.
    apart = bool(ratings.humans) and any(mark.item.seed is not None for mark in ratings.marks)
    if apart:
        judges = ratings.with_marks([mark for mark in ratings.marks if mark.rater not in ratings.humans])
        rows = agreement(replace(judges, humans=frozenset()), options)
        ratings = ratings.of_cases()
    for metric in ratings.metrics:
        items, marks = ratings.of_metric(metric)
        for group, members in _groups(ratings, items, options.by):
            chosen = [items[i] for i in members]
            here = {rater: values[members] for rater, values in marks.items()}
            for level in levels:
                cell = _Cell(metric, group, level, chosen, _points(ratings, chosen, level, task))
                pairs = _pairs(ratings, here, metric, options.scale)
                cell_rows = [_row(ratings, options, cell, p) for p in pairs if not (apart and p.kind == "judge-judge")]
                rows += [row for row in cell_rows if row is not None]
    order = {kind: i for i, kind in enumerate(("judge-human", "judge-judge", "human-pairs", "humans"))}
    return sorted(rows, key=lambda row: order.get(row.kind, len(order)))


def task_group(ratings: Ratings, options: AgreeOptions) -> str | None:
    """The group that task level averages over; None where the cases have none."""
    if options.task is not None and options.task not in ratings.group_names:
        raise RefBenchError(f"--task {options.task}: the groups are {', '.join(ratings.group_names) or 'none'}")
    known = [options.task, *_TASKS, *ratings.group_names]
    return next((name for name in known if name is not None and name in ratings.group_names), None)


@dataclass(frozen=True)
class _RaterPair:
    """Two raters, or several pairs whose figures are averaged."""

    first: str
    second: str
    kind: Kind
    scale: CommonScale
    """How their marks compare."""
    sides: tuple[MarkPair, ...]
    raters: tuple[Array, ...] = ()
    """All raters at once, for alpha and ICC of more than two."""


def _pairs(ratings: Ratings, marks: Mapping[str, Array], metric: str, scale: RaterScales) -> Iterator[_RaterPair]:
    there = {rater for rater, values in marks.items() if not np.isnan(values).all()}
    judges = [rater for rater in ratings.judges if rater in there]
    people = [rater for rater in ratings.people if rater in there]
    known = ratings.ranges.get(metric)
    if people:
        common = judge_with_people(scale, known)
        name = people[0] if len(people) == 1 else f"mean of {len(people)} humans"
        consensus = mean_of_those_there(np.stack([marks[rater] for rater in people]))
        for judge in judges:
            yield _RaterPair(judge, name, "judge-human", common, ((common.mapped(marks[judge]), consensus),))
    common = of_judges(scale, ratings.one_scale, known)
    for a, b in combinations([judge for judge in judges if not is_panel(judge)], 2):
        yield _RaterPair(a, b, "judge-judge", common, ((marks[a], marks[b]),))
    if len(people) > 1:
        yield from _between_people(people, marks, of_people(scale))


def _between_people(people: Sequence[str], marks: Mapping[str, Array], common: CommonScale) -> Iterator[_RaterPair]:
    pairs = list(combinations(people, 2))
    others = {one: mean_of_those_there(np.stack([marks[rater] for rater in people if rater != one])) for one in people}
    few = len(people) <= _MOST_PAIRED
    sides = [(marks[a], marks[b]) for a, b in pairs] if few else [(marks[one], others[one]) for one in people]
    name = f"human (mean of {len(pairs)} pairs)" if few else f"the others (mean of {len(people)} humans)"
    yield _RaterPair("human", name, "human-pairs", common, tuple(sides))
    every = tuple(marks[rater] for rater in people)
    yield _RaterPair("all humans", f"{len(people)} together", "humans", common, (), every)
    if len(people) == 2:
        return
    if few:
        for a, b in pairs:
            yield _RaterPair(a, b, "human-human", common, ((marks[a], marks[b]),))
    for one in people:
        yield _RaterPair(one, "mean of the other humans", "human-others", common, ((marks[one], others[one]),))


@dataclass(frozen=True)
class _Cell:
    """Where raters are compared: a metric, a group of cases, a level, with its items and the points they belong to."""

    metric: str
    group: str
    level: Level
    items: Sequence[RatedItem]
    points: Sequence[str] | None


def _row(ratings: Ratings, options: AgreeOptions, cell: _Cell, pair: _RaterPair) -> AgreementRow | None:
    """The figures of one pair in one cell; None where the two share nothing."""
    kept = np.flatnonzero(_shared(pair))
    if not len(kept):
        return None
    numbers: list[int] = kept.tolist()
    items = [cell.items[i] for i in numbers]
    labels = None if cell.points is None else np.array([cell.points[i] for i in numbers])
    n = len(kept) if labels is None else len(np.unique(labels))
    clusters = None if ratings.summaries else [ratings.cluster(item.case) for item in items]
    sides = tuple((x[kept], y[kept]) for x, y in pair.sides)
    scale = pair.scale
    bins = _bins(options, scale, sides, labels)
    missing: dict[str, str] = {}
    ceiling: Figure | None = None
    if pair.raters:
        cube = np.stack([rater[kept] for rater in pair.raters])
        figures = _together(cube, labels, clusters, options)
        ceiling = figures.pop(_CEILING, None) if n >= _FEWEST_FOR_ICC else None
        figures.pop(_CEILING, None)
        missing = {name: "alpha and ICC only" for name in FIGURES if name not in ("alpha", "icc")}
    else:
        figures = _figures_of(sides, labels, clusters, options, same_scale=scale.same_scale, bins=bins)
    figures, no_icc = _possible(figures, n, max(len(pair.raters), 2))
    return AgreementRow(
        first=pair.first,
        second=pair.second,
        kind=pair.kind,
        level=cell.level,
        metric=cell.metric,
        group=cell.group,
        n=n,
        n_cases=len({item.case for item in items}),
        figures=figures,
        missing={**_reasons(figures, n, scale, bins, options.partitions), **missing, **no_icc},
        bins=bins.said if bins and "kappa" in figures else None,
        remark=_uneven(items) if cell.level == "system" else None,
        ceiling=ceiling,
    )


def _possible(figures: Mapping[str, Figure], n: int, raters: int) -> tuple[dict[str, Figure], dict[str, str]]:
    """The figures without an ICC that says nothing, and why: of a handful of points, or below what it can be at all."""
    kept = dict(figures)
    if "icc" not in kept:
        return kept, {}
    if n < _FEWEST_FOR_ICC:
        why = f"an ICC of fewer than {_FEWEST_FOR_ICC} points ({n}) is mostly noise"
    elif kept["icc"].value < -1 / (raters - 1):
        why = f"the estimate ({kept['icc'].value:.2f}) is below what an ICC can be: the points differ less than chance"
    else:
        return kept, {}
    del kept["icc"]
    return kept, {"icc": why}


def _uneven(items: Sequence[RatedItem]) -> str | None:
    """Said where models' means are not of the same cases: such a mean is about the cases as much as the model."""
    by_model: dict[str, set[str]] = {}
    for item in items:
        by_model.setdefault(item.model, set()).add(item.case)
    fewest = min(by_model, key=lambda model: len(by_model[model]))
    n, all_cases = len(by_model[fewest]), len({item.case for item in items})
    if n >= _MOSTLY * all_cases:
        return None
    return f"models were rated on different cases ({fewest} on {n} of {all_cases}): their means are of unequal things"


def _shared(pair: _RaterPair) -> NDArray[np.bool_]:
    """Items that some pair of the row's raters both marked."""
    if pair.raters:
        return np.asarray((~np.isnan(np.stack(pair.raters))).sum(axis=0) >= 2)
    return np.asarray(np.any([~np.isnan(x) & ~np.isnan(y) for x, y in pair.sides], axis=0))


def _bins(options: AgreeOptions, scale: CommonScale, sides: Sequence[MarkPair], labels: Array | None) -> Bins | None:
    if not scale.same_scale or not sides:
        return None
    marks = [column for side in sides for column in side]
    # Means of whole marks are not whole: above item level only a known range can be binned.
    return bins_for(options.bins, scale, *([np.array([0.5])] if labels is not None else marks))


def _reasons(
    figures: Mapping[str, Figure], n: int, scale: CommonScale, bins: Bins | None, partitions: int
) -> dict[str, str]:
    """Why a figure is not there, for each that is not."""
    reasons = {}
    for name in FIGURES:
        if name in figures:
            continue
        if name in SAME_SCALE and not scale.same_scale:
            reasons[name] = f"the raters are not known to use one scale: {scale.reason}"
        elif n < 3 and name not in ("mse", "mae"):
            reasons[name] = f"fewer than three points ({n})"
        elif name == "kappa" and bins is None:
            reasons[name] = "the marks are not whole: give --bins as edges, or --scale so that it can be cut"
        elif partitions:
            reasons[name] = f"in one of the {partitions} parts a rater gave one mark only, or the two share too little"
        else:
            reasons[name] = "a rater gave one mark only, or the two share too little"
    return reasons


def _groups(ratings: Ratings, items: Sequence[RatedItem], by: Sequence[str]) -> Iterator[tuple[str, NDArray[np.intp]]]:
    yield "", np.arange(len(items))
    for name in by:
        of_item = [ratings.group(item.case, name) for item in items]
        for value in sorted({value for value in of_item if value is not None}):
            yield f"{name}={value}", np.array([i for i, other in enumerate(of_item) if other == value])


def _points(ratings: Ratings, items: Sequence[RatedItem], level: Level, task: str | None) -> Sequence[str] | None:
    if level == "item":
        return None
    if level == "system":
        return [item.model for item in items]
    return [f"{ratings.group(item.case, task or '') or ''}\0{item.model}" for item in items]


def _figures_of(
    sides: Sequence[MarkPair],
    labels: Labels,
    clusters: Clusters,
    options: AgreeOptions,
    *,
    same_scale: bool,
    bins: Bins | None,
) -> dict[str, Figure]:
    """Every figure that has a value; of several pairs of raters the mean over those that have one."""
    shared = [np.flatnonzero(~np.isnan(x) & ~np.isnan(y)) for x, y in sides]

    def of_side(number: int, weights: Array) -> dict[str, Array]:
        here = shared[number]
        x, y = (column[here] for column in sides[number])
        w = weights[:, here]
        if labels is not None:
            (x, y), w = _means(np.stack([x, y]), w, labels[here])
        return agreement_draws(x, y, w, same_scale=same_scale, bins=bins, forms=options.forms)

    used = [number for number, here in enumerate(shared) if len(here)]
    points = [of_side(number, np.ones((1, len(sides[number][0])))) for number in used]
    has_value = {
        name: [number for number, point in zip(used, points, strict=True) if np.isfinite(point[name][0])]
        for name in points[0]
    }

    def evaluate(weights: Array) -> dict[str, Array]:
        by_side = {number: of_side(number, weights) for number in used}
        return {
            name: np.mean([by_side[number][name] for number in numbers], axis=0)
            for name, numbers in has_value.items()
            if numbers
        }

    return _with_intervals(evaluate, len(sides[0][0]), clusters, options)


def _together(cube: Array, labels: Labels, clusters: Clusters, options: AgreeOptions) -> dict[str, Figure]:
    """Alpha, ICC and the noise ceiling of all raters at once, raters x items; alpha makes do with gaps, the others take
    items without."""

    def evaluate(weights: Array) -> dict[str, Array]:
        marks, w = cube, weights
        if labels is not None:
            means = [_means(rater[None], weights * ~np.isnan(rater), labels) for rater in cube]
            marks = np.stack([np.where(there > 0, mean[0], np.nan) for mean, there in means], axis=1)
            w = np.ones((len(weights), marks.shape[-1]))
        # A correlation does not care how strict each person is: consistency of their mean, ICC(3,k).
        reliable = icc_draws(marks, w, "3,k")
        return {
            "alpha": alpha_draws(marks, w, options.forms.alpha),
            "icc": icc_draws(marks, w, options.forms.icc),
            _CEILING: np.sqrt(np.where(reliable > 0, reliable, np.nan)),
        }

    return _with_intervals(evaluate, cube.shape[1], clusters, replace(options, partitions=0))


def _means(columns: Array, weights: Array, labels: np.ndarray[Any, Any]) -> tuple[Array, Array]:
    """Weighted means of the columns over each point's items, columns x draws x points, and 1 where there is one."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.r_[True, labels[order][1:] != labels[order][:-1]])
    total = np.add.reduceat(weights[:, order], starts, axis=1)
    summed = np.stack([np.add.reduceat(weights[:, order] * np.nan_to_num(c[order]), starts, axis=1) for c in columns])
    there = total > 0
    return np.where(there, summed / np.where(there, total, 1.0), 0.0), there.astype(np.float64)


def _with_intervals(
    evaluate: Callable[[Array], Mapping[str, Array]], n: int, clusters: Clusters, options: AgreeOptions
) -> dict[str, Figure]:
    point = {name: float(value[0]) for name, value in evaluate(np.ones((1, n))).items() if np.isfinite(value[0])}
    if clusters is None or not point:
        return {name: Figure(value=value) for name, value in point.items()}
    design = Design.of([cluster for cluster, _ in clusters], [stratum for _, stratum in clusters])
    if options.partitions:
        return _over_parts(evaluate, design, options.partitions, options.seed)

    def figures(weights: Array) -> Array:
        drawn_figures = evaluate(weights)
        return np.stack([drawn_figures[name] for name in point])

    drawn, influence = draws_of(figures, design, options.draws, options.seed, most_left_out=_MOST_LEFT_OUT)
    df = design.degrees_of_freedom(np.ones(n, dtype=np.bool_))
    return {
        name: Figure(value=value, ci95=_surrounding(value, drawn[i], influence[i], df))
        for i, (name, value) in enumerate(point.items())
    }


def _surrounding(value: float, drawn: Array, influence: Array, df: int) -> tuple[float, float] | None:
    """The interval, where the draws surround the figure. Errors between means of many cases are mostly noise, which
    resampling doubles: all draws lie above, and no correction of bias can tell how far."""
    interval = bca_interval(value, drawn, influence, df)
    if interval is None or interval[0] == interval[1] or not interval[0] <= value <= interval[1]:
        return None
    defined = drawn[np.isfinite(drawn)]
    return interval if max(np.mean(defined < value), np.mean(defined > value)) <= _ONE_SIDED else None


def _over_parts(
    evaluate: Callable[[Array], Mapping[str, Array]], design: Design, count: int, seed: int
) -> dict[str, Figure]:
    """The mean of a figure over random parts of the clusters, with Student's interval of that mean."""
    part = np.random.default_rng(seed).permutation(design.n_clusters) % count
    weights = (part[design.cluster][None, :] == np.arange(count)[:, None]).astype(np.float64)
    means = {}
    for name, values in evaluate(weights).items():
        if np.isfinite(values).all():
            mean = float(np.mean(values))
            half = t_quantile(0.975, count - 1) * float(np.std(values, ddof=1)) / count**0.5
            means[name] = Figure(value=mean, ci95=(mean - half, mean + half))
    return means
