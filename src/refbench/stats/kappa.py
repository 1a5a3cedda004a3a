"""Cohen's kappa of two raters: plain, on stated bins, and quadratic, on the marks themselves."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from refbench.stats.bootstrap import Array
from refbench.stats.correlation import Statistic, Values, centred, has_enough, once, varies

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


def cohen_kappa(x: Values, y: Values, bins: Bins) -> float | None:
    """Agreement in the bins beyond what the raters' own habits give by chance."""
    return once(kappa_draws(bins), x, y)


def quadratic_kappa(x: Values, y: Values) -> float | None:
    """Kappa whose disagreements weigh by the squared difference of the marks, without bins.

    On whole marks it is the usual quadratic weighted kappa; on any marks it is Lin's concordance correlation.
    """
    return once(quadratic_kappa_draws, x, y)


def kappa_draws(bins: Bins) -> Statistic:
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
        # Beside a rater who uses one category only, kappa is 0 whatever the other says: that is no measurement.
        return np.where(has_enough(weights) & (np.maximum(by_first, by_second) < _CERTAIN), kappa, np.nan)

    return draws


def quadratic_kappa_draws(x: Array, y: Array, weights: Array) -> Array:
    apart = (weights * (np.atleast_2d(x) - np.atleast_2d(y)) ** 2).sum(axis=1)
    dx, dy = centred(x, weights), centred(y, weights)
    vx, vy = (weights * dx**2).sum(axis=1), (weights * dy**2).sum(axis=1)
    shift = (np.atleast_2d(x) - dx - np.atleast_2d(y) + dy)[:, 0]
    by_chance = vx + vy + weights.sum(axis=1) * shift**2
    defined = has_enough(weights) & varies(x, vx, weights) & varies(y, vy, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(defined, 1 - apart / by_chance, np.nan)
