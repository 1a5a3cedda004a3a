"""One scale turned into another without changing the order, and how far off the result may be."""

from __future__ import annotations

from math import ceil

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array


def isotonic_map(x: Array, y: Array) -> tuple[Array, Array]:
    """The never falling step function of x that is nearest to y (pool adjacent violators): its distinct x and their
    values."""
    levels, place = np.unique(x, return_inverse=True)
    counts = np.bincount(place).astype(np.float64)
    means = np.bincount(place, weights=y) / counts
    blocks: list[list[float]] = []  # mean, weight, levels
    for mean, count in zip(means.tolist(), counts.tolist(), strict=True):
        blocks.append([mean, count, 1])
        while len(blocks) > 1 and blocks[-2][0] >= blocks[-1][0]:
            above, below = blocks.pop(), blocks[-1]
            weight = above[1] + below[1]
            blocks[-1] = [(above[0] * above[1] + below[0] * below[1]) / weight, weight, above[2] + below[2]]
    fitted = np.concatenate([np.full(int(block[2]), block[0]) for block in blocks]) if blocks else means
    return levels, fitted


def mapped(fit: tuple[Array, Array], x: Array) -> Array:
    """The map at x; between two levels on the line through them."""
    return np.interp(x, *fit)


def out_of_fold(x: Array, y: Array, cluster: NDArray[np.intp], folds: int = 10) -> Array:
    """What the map makes of each x when it is fitted without its cluster's fold."""
    fold = cluster % folds
    found = np.full(len(x), np.nan)
    for one in np.unique(fold):
        out = fold == one
        if not out.all():
            found[out] = mapped(isotonic_map(x[~out], y[~out]), x[out])
    return found


def conformal_width(residuals: Array, level: float = 0.9) -> float | None:
    """Half the width of the band around a prediction that holds a new value with this chance, from absolute residuals
    out of fold; None where there are too few for the level."""
    n = len(residuals)
    rank = ceil((n + 1) * level)
    return float(np.sort(np.abs(residuals))[rank - 1]) if rank <= n else None
