"""Intraclass correlations after Shrout and Fleiss: how much of the variance of marks lies between the things marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from refbench.stats.bootstrap import Array
from refbench.stats.correlation import has_enough, number

IccForm: TypeAlias = Literal["1,1", "2,1", "3,1", "1,k", "2,k", "3,k"]
"""1: other raters for each unit; 2: raters drawn from many, their levels count; 3: these raters, levels do not count.
1 after the comma: of a single rater; k: of the mean of the raters."""


def icc(ratings: Sequence[Sequence[float]] | Array, form: IccForm = "2,1") -> float | None:
    """ICC of raters x units over the units that all raters marked; None for fewer than three of them, fewer than two
    raters, or marks without variance."""
    values = np.asarray(ratings, dtype=np.float64)
    return number(icc_draws(values, np.ones((1, values.shape[-1])), form)[0])


def icc_draws(values: Array, weights: Array, form: IccForm) -> Array:
    """ICC under each weight vector; values are raters x units, or draws x raters x units."""
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
