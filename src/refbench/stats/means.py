"""Weighted means over cases, for all systems and all draws at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from refbench.stats.bootstrap import Array


def mean_of_those_there(values: Array, axis: int = 0) -> Array:
    """The plain mean over an axis of what is there; NaN where nothing is."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Array = np.where(there, values, 0.0).sum(axis=axis) / there.sum(axis=axis)
    return mean


class WeightedMeans:
    """Means of columns under each weight vector. NaN marks a case without a value: it has no weight.

    `columns` maps a metric to systems x cases, `weights` is draws x cases.
    """

    def __init__(self, columns: Mapping[str, Array], weights: Array) -> None:
        self.columns = columns
        self.weights = weights
        self._slices: dict[int, tuple[NDArray[np.bool_], Array]] = {}

    def __call__(self, metric: str, members: NDArray[np.bool_]) -> Array:
        """Mean over the chosen cases, systems x draws; NaN where none of them has a value."""
        weights = self._of(members)
        values = self.columns[metric][:, members]
        present = ~np.isnan(values)
        if present.all():
            total = weights.sum(axis=1)[None, :]
            summed = values @ weights.T
        else:
            total = present.astype(np.float64) @ weights.T
            summed = np.where(present, values, 0.0) @ weights.T
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Array = np.where(total > 0, summed / total, np.nan)
        return mean

    def _of(self, members: NDArray[np.bool_]) -> Array:
        """Weights of the chosen cases; kept, because every metric asks for the same ones."""
        if id(members) not in self._slices:
            self._slices[id(members)] = members, self.weights if members.all() else self.weights[:, members]
        return self._slices[id(members)][1]
