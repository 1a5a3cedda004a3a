"""Ranks of systems: which places each could hold, from tests of all pairs, and how often it is the best of a draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.stats.bootstrap import Array
from refbench.stats.effect import smallest_p
from refbench.stats.holm import holm
from refbench.stats.quantiles import t_tails

_MOST_UNDEFINED = 0.05
"""Above this share of draws in which some system has no value there are no rank intervals."""
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Ranks:
    """For each system: the ranks it could hold (1 is best), and the share of draws in which it is the best."""

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    best: Array


def ranks_of(point: Array, draws: Array, clusters: int, df: int, level: float = 0.95) -> Ranks | None:
    """Rank systems (higher is better) by their values and joint draws of them (systems x draws).

    A system ranks below those that a test of the pair finds better and above those that it finds worse, with Holm's
    correction over all pairs: all intervals hold the true ranks together. Ranks read off single draws do not, where
    systems are close: noise shuffles them as if it were a difference. First place in a draw is divided among equals.
    None where more than a few draws leave some system without a value.
    """
    defined = draws[:, ~np.isnan(draws).any(axis=0)]
    if defined.shape[1] < (1 - _MOST_UNDEFINED) * draws.shape[1] or defined.size == 0 or df < 1:
        return None
    n = len(point)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    found = [_p(point[i] - point[j], float(np.std(defined[i] - defined[j])), clusters, df) for i, j in pairs]
    better = np.zeros((n, n), dtype=np.bool_)
    for (i, j), p in zip(pairs, holm(found), strict=True):
        if p <= 1 - level:
            better[i, j], better[j, i] = point[i] > point[j], point[j] > point[i]
    first = defined == defined.max(axis=0)
    return Ranks(1 + better.sum(axis=0), n - better.sum(axis=1), (first / first.sum(axis=0)).mean(axis=1))


def _p(gap: float, error: float, clusters: int, df: int) -> float:
    """Student's, and no less than swapping the sides of so few clusters can give."""
    if abs(gap) <= _ROUNDING:
        return 1.0
    return max(t_tails(gap / error, df) if error > _ROUNDING * abs(gap) else 0.0, smallest_p(clusters))
