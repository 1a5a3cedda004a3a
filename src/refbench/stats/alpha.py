"""Krippendorff's alpha: one minus observed over expected disagreement, for any number of raters with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from refbench.stats.bootstrap import Array
from refbench.stats.correlation import has_enough, number, ranks

AlphaLevel: TypeAlias = Literal["nominal", "ordinal", "interval"]


def krippendorff_alpha(ratings: Sequence[Sequence[float]] | Array, level: AlphaLevel = "interval") -> float | None:
    """Alpha of raters x units, NaN where a rater gave nothing; None where fewer than three units have two marks, or
    all marks are one and the same (expected disagreement is then zero)."""
    values = np.asarray(ratings, dtype=np.float64)
    return number(alpha_draws(values, np.ones((1, values.shape[-1])), level)[0])


def alpha_draws(values: Array, weights: Array, level: AlphaLevel) -> Array:
    """Alpha under each weight vector; values are raters x units, or draws x raters x units."""
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
