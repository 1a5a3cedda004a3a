"""The figures of one row of agreement with their intervals: cases are resampled by cluster, models and raters stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from refbench.record import Record
from refbench.stats import Array, Bins, Design, bca_interval, draws_of
from refbench.stats.agreement import Forms, agreement_draws
from refbench.stats.alpha import alpha_draws
from refbench.stats.icc import icc_draws
from refbench.stats.quantiles import t_quantile

Side: TypeAlias = tuple[Array, Array]
"""Two raters' marks of the same items, NaN where one gave none."""
Labels: TypeAlias = np.ndarray[Any, Any] | None
"""The point that each item belongs to (a model, a task of a model); None where each is a point of its own."""
Clusters: TypeAlias = Sequence[tuple[str, str]] | None
"""Cluster and stratum of each item's case; None where marks are means already and nothing can be resampled."""

_MOST_LEFT_OUT = 1000
"""Clusters up to which each is left out once: figures of pairs cost more than means."""


_ONE_SIDED = 0.975
"""Share of draws on one side of the figure above which there is no interval."""


class Figure(Record):
    """A figure with its 95 % interval, where there is one."""

    value: float
    ci95: tuple[float, float] | None = None


def figures_of(
    sides: Sequence[Side],
    labels: Labels,
    clusters: Clusters,
    *,
    same_scale: bool,
    bins: Bins | None,
    forms: Forms,
    draws: int,
    seed: int,
    partitions: int = 0,
) -> dict[str, Figure]:
    """Every figure that has a value; of several pairs of raters the mean over those that have one."""
    shared = [np.flatnonzero(~np.isnan(x) & ~np.isnan(y)) for x, y in sides]

    def of_side(number: int, weights: Array) -> dict[str, Array]:
        here = shared[number]
        x, y = (column[here] for column in sides[number])
        w = weights[:, here]
        if labels is not None:
            (x, y), w = _means(np.stack([x, y]), w, labels[here])
        return agreement_draws(x, y, w, same_scale=same_scale, bins=bins, forms=forms)

    used = [number for number, here in enumerate(shared) if len(here)]
    points = [of_side(number, np.ones((1, len(sides[number][0])))) for number in used]
    has_value = {
        name: [number for number, point in zip(used, points, strict=True) if np.isfinite(point[name][0])]
        for name in points[0]
    }

    def evaluate(weights: Array) -> dict[str, Array]:
        found = {number: of_side(number, weights) for number in used}
        return {
            name: np.mean([found[number][name] for number in numbers], axis=0)
            for name, numbers in has_value.items()
            if numbers
        }

    return _with_intervals(evaluate, len(sides[0][0]), clusters, draws, seed, partitions)


def together(cube: Array, labels: Labels, clusters: Clusters, forms: Forms, draws: int, seed: int) -> dict[str, Figure]:
    """Alpha and ICC of all raters at once, raters x items; alpha makes do with gaps, ICC takes items without."""

    def evaluate(weights: Array) -> dict[str, Array]:
        marks, w = cube, weights
        if labels is not None:
            means = [_means(rater[None], weights * ~np.isnan(rater), labels) for rater in cube]
            marks = np.stack([np.where(there > 0, mean[0], np.nan) for mean, there in means], axis=1)
            w = np.ones((len(weights), marks.shape[-1]))
        return {"alpha": alpha_draws(marks, w, forms.alpha), "icc": icc_draws(marks, w, forms.icc)}

    return _with_intervals(evaluate, cube.shape[1], clusters, draws, seed, 0)


def _means(columns: Array, weights: Array, labels: np.ndarray[Any, Any]) -> tuple[Array, Array]:
    """Weighted means of the columns over each point's items, columns x draws x points, and 1 where there is one."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.r_[True, labels[order][1:] != labels[order][:-1]])
    total = np.add.reduceat(weights[:, order], starts, axis=1)
    summed = np.stack([np.add.reduceat(weights[:, order] * np.nan_to_num(c[order]), starts, axis=1) for c in columns])
    there = total > 0
    return np.where(there, summed / np.where(there, total, 1.0), 0.0), there.astype(np.float64)


def _with_intervals(
    evaluate: Callable[[Array], Mapping[str, Array]],
    n: int,
    clusters: Clusters,
    draws: int,
    seed: int,
    partitions: int,
) -> dict[str, Figure]:
    point = {name: float(value[0]) for name, value in evaluate(np.ones((1, n))).items() if np.isfinite(value[0])}
    if clusters is None or not point:
        return {name: Figure(value=value) for name, value in point.items()}
    design = Design.of([cluster for cluster, _ in clusters], [stratum for _, stratum in clusters])
    if partitions:
        return _over_parts(evaluate, design, partitions, seed)

    def figures(weights: Array) -> Array:
        found = evaluate(weights)
        return np.stack([found[name] for name in point])

    drawn, influence = draws_of(figures, design, draws, seed, most_left_out=_MOST_LEFT_OUT)
    df = design.degrees_of_freedom(np.ones(n, dtype=np.bool_))
    return {
        name: Figure(
            value=value,
            ci95=_surrounding(value, drawn[i], influence[i], df),
        )
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
    found = {}
    for name, values in evaluate(weights).items():
        if np.isfinite(values).all():
            mean = float(np.mean(values))
            half = t_quantile(0.975, count - 1) * float(np.std(values, ddof=1)) / count**0.5
            found[name] = Figure(value=mean, ci95=(mean - half, mean + half))
    return found
