"""Ranks of systems over joint draws: how far down or up each could stand, and how often it is the best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.stats.bootstrap import Array

_MOST_UNDEFINED = 0.05
"""Above this share of draws in which some system has no value there are no rank intervals."""


@dataclass(frozen=True)
class RankDraws:
    """For each system: the interval of its rank (1 is best) and the share of draws in which it is the best."""

    low: NDArray[np.intp]
    high: NDArray[np.intp]
    best: Array


def rank_draws(values: Array, level: float = 0.95) -> RankDraws | None:
    """Rank systems (higher is better) within each draw, `values` being systems x draws.

    Equal systems share a range of ranks: an interval reaches from the best rank they could claim to the worst, and
    first place is divided among them. None where more than a few draws leave some system without a value.
    """
    defined = values[:, ~np.isnan(values).any(axis=0)]
    if defined.shape[1] < (1 - _MOST_UNDEFINED) * values.shape[1] or defined.size == 0:
        return None
    above = np.stack([(defined > system).sum(axis=0) for system in defined])
    below = np.stack([(defined < system).sum(axis=0) for system in defined])
    tail = (1 - level) / 2
    # Ranks are whole numbers, and so are the ends of their intervals: no quantile between two of them.
    low = np.quantile(1 + above, tail, axis=1, method="inverted_cdf")
    high = np.quantile(len(defined) - below, 1 - tail, axis=1, method="inverted_cdf")
    first = above == 0
    return RankDraws(low.astype(np.intp), high.astype(np.intp), (first / first.sum(axis=0)).mean(axis=1))
