"""Ranks of systems: which places each could hold, from tests of all pairs, and how often it is the best of a draw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array

_MOST_UNDEFINED = 0.05
"""Above this share of draws in which some system has no value, no winner is named."""


@dataclass(frozen=True)
class Ranks:
    """For each system: the ranks it could hold (1 is best), and the share of draws in which it is the best."""

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    best: Array | None


def ranks_of(better: NDArray[np.bool_], draws: Array) -> Ranks:
    """Rank systems by which of them a test finds better than which others (systems x systems) and by joint draws of
    their values (systems x draws, higher is better).

    A system ranks below those that are found better and above those that are found worse: where the tests allow for
    their number, all intervals hold the true ranks together. Ranks read off single draws do not, where systems are
    close: noise shuffles them as if it were a difference. First place in a draw is divided among equals.
    """
    defined = draws[:, ~np.isnan(draws).any(axis=0)]
    best = None
    if defined.size and defined.shape[1] >= (1 - _MOST_UNDEFINED) * draws.shape[1]:
        first = defined == defined.max(axis=0)
        best = (first / first.sum(axis=0)).mean(axis=1)
    return Ranks(1 + better.sum(axis=0), len(better) - better.sum(axis=1), best)
