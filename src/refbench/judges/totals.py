"""Totals: several marks of one case to one, for a single case or for whole columns of cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure

Rule = Literal["mean", "weighted_mean", "geometric_mean", "minimum"]

Array = NDArray[np.float64]


def combine(rule: Rule, marks: Sequence[Any], weights: Sequence[float] | None = None) -> float | Failure:
    """One mark from several; the first failure among them when there is one."""
    for mark in marks:
        if isinstance(mark, Failure):
            return mark
    if not marks or None in marks:
        return Failure(kind="undefined", detail="there is no mark to combine")
    column = np.array(marks, dtype=np.float64).reshape(-1, 1)
    return float(combine_columns(rule, column, weights, np.ones_like(column, dtype=np.bool_))[0])


def combine_columns(rule: Rule, marks: Array, weights: Sequence[float] | None, applies: NDArray[np.bool_]) -> Array:
    """Combine over the first axis. Marks that do not apply take no part; NaN where one that applies is missing."""
    shares = np.ones(len(marks)) if weights is None or rule == "mean" else np.asarray(weights, dtype=np.float64)
    weight = np.where(applies, shares.reshape(-1, *[1] * (marks.ndim - 1)), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        if rule == "minimum":
            least = np.where(applies, marks, np.inf).min(axis=0)
            # min passes NaN on, and infinity is left where nothing applies.
            return np.where(np.isfinite(least), least, np.nan)
        values = np.where(applies, marks, 1.0)
        if rule == "geometric_mean":
            # Zero to the power of its weight is zero: no logarithm, which would turn it into -inf.
            product: Array = np.prod(np.power(values, weight / weight.sum(axis=0)), axis=0)
            # 1 to any power is 1, also to that of no weight at all.
            return np.where(weight.sum(axis=0) > 0, product, np.nan)
        average: Array = (values * weight).sum(axis=0) / weight.sum(axis=0)
        return average
