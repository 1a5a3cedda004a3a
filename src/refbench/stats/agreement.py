"""Figures of agreement between raters, for the marks as they are and for every bootstrap draw: Cohen's kappa,
Krippendorff's alpha, intraclass correlations after Shrout and Fleiss, and errors; `agreement_draws` gives all at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.stats.correlation import (
    Statistic,
    centred,
    has_enough,
    kendall_draws,
    pearson_draws,
    ranks,
    spearman_draws,
    varies,
)
from refbench.stats.interval import Array

_CERTAIN = 1 - 1e-12
"""Share above which a rater uses one category only."""
_MOST_MARKS = 21
"""Whole marks up to this many are categories of their own."""


@dataclass(frozen=True)
class Bins:
    """Categories of a scale: a mark belongs to the bin after the last edge that is not above it."""

    edges: tuple[float, ...]
    said: str
    """The binning in words, for the line under the table."""

    @classmethod
    def equal(cls, count: int, low: float, high: float) -> Bins:
        """So many bins of equal width over the scale."""
        if count < 2 or not low < high:
            raise ValueError(f"at least two bins of a scale that goes up, not {count} of {low:g} to {high:g}")
        edges = np.linspace(low, high, count + 1)[1:-1]
        return cls(tuple(float(edge) for edge in edges), f"{count} equal bins of {low:g} to {high:g}")

    @classmethod
    def at(cls, *edges: float) -> Bins:
        """Bins between the edges given."""
        if not edges or any(a >= b for a, b in pairwise(edges)):
            raise ValueError("edges of bins go up")
        return cls(tuple(edges), f"bins cut at {', '.join(f'{edge:g}' for edge in edges)}")

    @classmethod
    def marks(cls, *values: Array) -> Bins | None:
        """Every whole mark a category of its own; None where marks are not whole, or too many."""
        given = np.concatenate([value[np.isfinite(value)] for value in values])
        if len(given) == 0 or np.any(given != np.round(given)):
            return None
        low, high = int(given.min()), int(given.max())
        if high - low + 1 > _MOST_MARKS:
            return None
        return cls(tuple(mark - 0.5 for mark in range(low + 1, high + 1)), f"whole marks {low} to {high}")

    def of(self, values: Array) -> NDArray[np.intp]:
        return np.searchsorted(np.asarray(self.edges), values, side="right").astype(np.intp)


def kappa_draws(bins: Bins) -> Statistic:
    """Cohen's kappa: agreement in the bins beyond what the raters' own habits give by chance."""

    def draws(x: Array, y: Array, weights: Array) -> Array:
        first, second = np.atleast_2d(bins.of(x)), np.atleast_2d(bins.of(y))
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = weights / weights.sum(axis=1)[:, None]
            observed = (shares * (first == second)).sum(axis=1)
            expected, by_first, by_second = np.zeros((3, len(weights)))
            for category in range(len(bins.edges) + 1):
                a, b = (shares * (first == category)).sum(axis=1), (shares * (second == category)).sum(axis=1)
                expected, by_first, by_second = expected + a * b, by_first + a * a, by_second + b * b
            kappa = (observed - expected) / (1 - expected)
        # Beside a rater who uses one category only, kappa is 0 whatever the other says: that measures nothing.
        return np.where(has_enough(weights) & (np.maximum(by_first, by_second) < _CERTAIN), kappa, np.nan)

    return draws


def quadratic_kappa_draws(x: Array, y: Array, weights: Array) -> Array:
    """Kappa whose disagreements weigh by the squared difference of the marks, without bins.

    On whole marks it is the usual quadratic weighted kappa; on any marks it is Lin's concordance correlation.
    """
    apart = (weights * (np.atleast_2d(x) - np.atleast_2d(y)) ** 2).sum(axis=1)
    dx, dy = centred(x, weights), centred(y, weights)
    vx, vy = (weights * dx**2).sum(axis=1), (weights * dy**2).sum(axis=1)
    shift = (np.atleast_2d(x) - dx - np.atleast_2d(y) + dy)[:, 0]
    by_chance = vx + vy + weights.sum(axis=1) * shift**2
    defined = has_enough(weights) & varies(x, vx, weights) & varies(y, vy, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(defined, 1 - apart / by_chance, np.nan)


AlphaLevel: TypeAlias = Literal["nominal", "ordinal", "interval"]


def alpha_draws(values: Array, weights: Array, level: AlphaLevel) -> Array:
    """Krippendorff's alpha under each weight vector, one minus observed over expected disagreement; values are raters x
    units, or draws x raters x units, NaN where a rater gave nothing.

    NaN where fewer than three units have two marks, or all marks are one and the same.
    """
    cube = values[None] if values.ndim == 2 else values
    present = ~np.isnan(cube)
    raters = present.sum(axis=1)
    # A unit with a single mark has nothing to agree with: it does not enter, not even the expectation.
    counted = weights * (raters >= 2)
    others = np.maximum(raters - 1, 1)
    n = (counted * raters).sum(axis=1)
    if level == "nominal":
        within, between = _nominal(cube, counted, raters, others, n)
    else:
        if level == "ordinal":
            cube = _as_ranks(cube, present, counted)
        within, between = _squared(cube, present, counted, raters, others, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(has_enough(counted) & (between > 0), 1 - (n - 1) * within / between, np.nan)


def _squared(
    cube: Array, present: Array, counted: Array, raters: Array, others: Array, n: Array
) -> tuple[Array, Array]:
    """Sums of squared differences within units and among all marks, from the first two moments."""
    weight = present * counted[:, None, :]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (weight * np.where(present, cube, 0.0)).sum(axis=(1, 2)) / n
    # Centred first: moments of large marks would cancel.
    marks = np.where(present, cube - mean[:, None, None], 0.0)
    first, second = marks.sum(axis=1), (marks**2).sum(axis=1)
    within = (counted * (raters * second - first**2) / others).sum(axis=1)
    between = n * (counted * second).sum(axis=1) - (counted * first).sum(axis=1) ** 2
    size = np.max(np.abs(np.where(present, cube, 0.0)), axis=(1, 2))
    return within, np.where(between > (n * 1e-9 * size) ** 2, between, 0.0)


def _as_ranks(cube: Array, present: Array, counted: Array) -> Array:
    """Ordinal distance is the difference of midranks among all marks that count."""
    draws, raters, units = len(counted), cube.shape[1], cube.shape[2]
    flat = np.where(present, cube, 0.0).reshape(len(cube), raters * units)
    weight = np.broadcast_to(present * counted[:, None, :], (draws, raters, units)).reshape(draws, raters * units)
    return ranks(flat, np.ascontiguousarray(weight))[0].reshape(draws, raters, units)


def _nominal(cube: Array, counted: Array, raters: Array, others: Array, n: Array) -> tuple[Array, Array]:
    equal = np.zeros(np.broadcast_shapes(raters.shape, counted.shape))
    squares = np.zeros(len(counted))
    for category in np.unique(cube[~np.isnan(cube)]):
        given = (cube == category).sum(axis=1)
        equal = equal + given**2
        squares += (counted * given).sum(axis=1) ** 2
    within = (counted * (raters**2 - equal) / others).sum(axis=1)
    return within, n**2 - squares


IccForm: TypeAlias = Literal["1,1", "2,1", "3,1", "1,k", "2,k", "3,k"]
"""1: other raters for each unit; 2: raters drawn from many, their levels count; 3: these raters, levels do not count.
1 after the comma: of a single rater; k: of the mean of the raters."""


def icc_draws(values: Array, weights: Array, form: IccForm) -> Array:
    """ICC under each weight vector, over the units that all raters marked; values are raters x units, or draws x raters
    x units. NaN for fewer than three units, fewer than two raters, or marks without variance."""
    cube = values[None] if values.ndim == 2 else values
    k = cube.shape[1]
    if k < 2:
        return np.full(len(weights), np.nan)
    complete = np.asarray(~np.isnan(cube).any(axis=1))
    w = weights * complete
    marks = np.where(complete[:, None, :], cube, 0.0)
    n = w.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        grand = (w * marks.mean(axis=1)).sum(axis=1) / n
        marks = marks - grand[:, None, None]
        by_rater = (w[:, None, :] * marks).sum(axis=2) / n[:, None]
        total = (w * (marks**2).sum(axis=1)).sum(axis=1)
        rows = k * (w * marks.mean(axis=1) ** 2).sum(axis=1)
        columns = n * (by_rater**2).sum(axis=1)
        msr, msc = rows / (n - 1), columns / (k - 1)
        mse = np.maximum(total - rows - columns, 0.0) / ((n - 1) * (k - 1))
        msw = np.maximum(total - rows, 0.0) / (n * (k - 1))
        kind, single = form[0], form.endswith("1")
        rest = msw if kind == "1" else mse
        levels = (msc - mse) / n if kind == "2" else 0.0
        below = msr + (k - 1) * rest + k * levels if single else msr + levels
        value = (msr - rest) / below
    size = np.max(np.abs(np.where(complete[:, None, :], cube, 0.0)), axis=(1, 2))
    tiny = (1e-9 * size) ** 2
    return np.where(has_enough(w) & (total > n * tiny) & (below > tiny), value, np.nan)


CORRELATIONS = ("pearson", "spearman", "kendall")
SAME_SCALE = ("kappa", "qwk", "alpha", "icc", "mse", "mae")
"""Figures that compare the marks themselves: meaningless unless both raters use one scale."""
FIGURES = CORRELATIONS + SAME_SCALE


@dataclass(frozen=True)
class Forms:
    """Which of several forms of a figure is meant; named wherever the figure is shown."""

    alpha: AlphaLevel = "interval"
    icc: IccForm = "2,1"


def mse_draws(x: Array, y: Array, weights: Array) -> Array:
    return _mean((np.atleast_2d(x) - np.atleast_2d(y)) ** 2, weights)


def mae_draws(x: Array, y: Array, weights: Array) -> Array:
    return _mean(np.abs(np.atleast_2d(x) - np.atleast_2d(y)), weights)


def _mean(apart: Array, weights: Array) -> Array:
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Array = np.where(total > 0, (weights * apart).sum(axis=1) / total, np.nan)
    return mean


def agreement_draws(
    x: Array, y: Array, weights: Array, *, same_scale: bool, bins: Bins | None, forms: Forms
) -> dict[str, Array]:
    """Every figure for every weight vector; those that the scale or the bins do not allow are not there."""
    if x.ndim == 1 and len(x):
        x, y, weights = _distinct(x, y, weights)
    figures = {
        "pearson": pearson_draws(x, y, weights),
        "spearman": spearman_draws(x, y, weights),
        "kendall": kendall_draws(x, y, weights),
    }
    if not same_scale:
        return figures
    both = np.stack([x, y], axis=-2)
    figures |= {
        "qwk": quadratic_kappa_draws(x, y, weights),
        "alpha": alpha_draws(both, weights, forms.alpha),
        "icc": icc_draws(both, weights, forms.icc),
        "mse": mse_draws(x, y, weights),
        "mae": mae_draws(x, y, weights),
    }
    return figures if bins is None else {**figures, "kappa": kappa_draws(bins)(x, y, weights)}


def _distinct(x: Array, y: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Equal pairs of marks become one point with their weights summed: all figures depend on no more than that, and
    marks of a few levels have a few hundred pairs, however many cases there are."""
    pairs, place = np.unique(np.stack([x, y], axis=1), axis=0, return_inverse=True)
    if len(pairs) == len(x):
        return x, y, weights
    place = place.ravel()
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(len(pairs)))
    return pairs[:, 0], pairs[:, 1], np.add.reduceat(weights[:, order], starts, axis=1)
