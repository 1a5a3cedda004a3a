"""Correlation of two raters' marks: Pearson, Spearman and Kendall's tau-b, plain and under weights.

Each has two forms: `pearson(x, y)` gives a number or None where there is none to give, `pearson_draws(x, y, weights)`
gives one for each weight vector (NaN: undefined in that draw). Values are one row, or one row for each draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array

Statistic: TypeAlias = Callable[[Array, Array, Array], Array]
"""From x and y (points, or draws x points) and weights (draws x points), a value for each draw."""
Values: TypeAlias = Sequence[float] | Array

FEWEST = 3
"""Two points always lie on a line: a correlation of fewer than three says nothing."""
_FLAT = 1e-9
"""Spread, relative to the values' size, below which a column counts as constant (rounding makes no correlation)."""
_MOST_DENSE = 6000
"""Distinct pairs of values up to which all pairs of them are compared for every draw (36 million signs)."""


def pearson(x: Values, y: Values) -> float | None:
    """Product-moment correlation; None for fewer than three points or where a side is constant."""
    return once(pearson_draws, x, y)


def spearman(x: Values, y: Values) -> float | None:
    """Pearson's correlation of the midranks: ties share their ranks."""
    return once(spearman_draws, x, y)


def kendall(x: Values, y: Values) -> float | None:
    """Kendall's tau-b: concordant less discordant pairs, with ties taken out of the denominator."""
    return once(kendall_draws, x, y)


def once(statistic: Statistic, x: Values, y: Values) -> float | None:
    """The statistic of the values as they are."""
    first, second = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"two raters give two rows of one length, not {first.shape} and {second.shape}")
    if len(first) == 0:
        return None
    return number(statistic(first, second, np.ones((1, len(first))))[0])


def number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def pearson_draws(x: Array, y: Array, weights: Array) -> Array:
    dx, dy = centred(x, weights), centred(y, weights)
    vx, vy = (weights * dx**2).sum(axis=1), (weights * dy**2).sum(axis=1)
    defined = has_enough(weights) & varies(x, vx, weights) & varies(y, vy, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        r = (weights * dx * dy).sum(axis=1) / np.sqrt(vx * vy)
    return np.where(defined, np.clip(r, -1, 1), np.nan)


def spearman_draws(x: Array, y: Array, weights: Array) -> Array:
    return pearson_draws(ranks(x, weights)[0], ranks(y, weights)[0], weights)


def kendall_draws(x: Array, y: Array, weights: Array) -> Array:
    """Undefined in every draw where there are too many distinct points to compare all pairs for all draws."""
    if len(weights) > 1 and weights.shape[1] > _MOST_DENSE:
        return np.full(len(weights), np.nan)
    x, y = rounded(x), rounded(y)
    total = weights.sum(axis=1)
    untied = [total**2 - (weights * ranks(side, weights)[1]).sum(axis=1) for side in (x, y)]
    defined = has_enough(weights) & np.all([pairs > _FLAT * total**2 for pairs in untied], axis=0)
    net = _net_concordance(x, y, weights) if x.ndim == y.ndim == 1 else _net_by_draw(x, y, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = net / np.sqrt(untied[0] * untied[1])
    return np.where(defined, np.clip(tau, -1, 1), np.nan)


def _net_concordance(x: Array, y: Array, weights: Array) -> Array:
    """Concordant less discordant pairs, each counted twice, of values that all draws share."""
    # Single precision for the many draws (their noise is a thousand times larger), double for the figure itself.
    kind = np.float64 if len(weights) == 1 else np.float32
    net = np.zeros(len(weights))
    step = max(1, 8_000_000 // len(x))
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        signs = np.sign(x[rows, None] - x[None, :]) * np.sign(y[rows, None] - y[None, :])
        against = weights.astype(kind) @ signs.T.astype(kind)
        net += (against * weights[:, rows]).sum(axis=1)
    return net


def _net_by_draw(x: Array, y: Array, weights: Array) -> Array:
    """The same where each draw has values of its own (means of resampled cases)."""
    shape = weights.shape
    x, y = np.broadcast_to(x, shape), np.broadcast_to(y, shape)
    net = np.empty(len(weights))
    step = max(1, 4_000_000 // shape[1] ** 2)
    for start in range(0, len(weights), step):
        rows = slice(start, start + step)
        signs = np.sign(x[rows, :, None] - x[rows, None, :]) * np.sign(y[rows, :, None] - y[rows, None, :])
        net[rows] = np.einsum("dij,di,dj->d", signs, weights[rows], weights[rows])
    return net


def ranks(values: Array, weights: Array) -> tuple[Array, Array]:
    """Midranks under each weight vector, and the weight of all values tied with each: draws x points.

    A weight of two ranks as two equal values would, so a resample is ranked as if it were written out.
    """
    rows = np.atleast_2d(rounded(values))
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    fresh = np.ones(ordered.shape, dtype=np.bool_)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    last = np.ones(ordered.shape, dtype=np.bool_)
    last[:, :-1] = fresh[:, 1:]
    wide = np.broadcast_to(order, weights.shape)
    sorted_weights = np.take_along_axis(weights, wide, axis=1)
    up_to = np.cumsum(sorted_weights, axis=1)
    before = np.maximum.accumulate(np.where(fresh, up_to - sorted_weights, 0.0), axis=1)
    after = np.minimum.accumulate(np.where(last, up_to, np.inf)[:, ::-1], axis=1)[:, ::-1]
    middle, tied = np.empty(weights.shape), np.empty(weights.shape)
    np.put_along_axis(middle, wide, (before + after) / 2, axis=1)
    np.put_along_axis(tied, wide, after - before, axis=1)
    return middle, tied


def rounded(values: Array) -> Array:
    """Values without the last digits, so that 0.1 + 0.2 ties with 0.3: rounding must not make an order."""
    size = np.max(np.abs(values), initial=0.0)
    return np.round(values, 10 - int(np.ceil(np.log10(size)))) if size > 0 else values


def centred(values: Array, weights: Array) -> Array:
    """Values less their weighted mean, draws x points."""
    rows = np.atleast_2d(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (weights * rows).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(rows - mean[:, None])


def has_enough(weights: Array) -> NDArray[np.bool_]:
    """Whether three points or more take part; equal ones may have been made one with their weights summed."""
    enough: NDArray[np.bool_] = weights.sum(axis=1) > FEWEST - 0.5
    return enough


def varies(values: Array, squares: Array, weights: Array) -> NDArray[np.bool_]:
    """Whether a side has spread: its weighted sum of squares against the size of its values."""
    size = np.max(np.abs(np.atleast_2d(values)), axis=1)
    with np.errstate(invalid="ignore"):
        spread: NDArray[np.bool_] = squares > weights.sum(axis=1) * (_FLAT * size) ** 2
    return spread
