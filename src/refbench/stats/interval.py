"""Bias-corrected and accelerated bootstrap intervals, widened by Student's t for few clusters.

Chosen by measuring coverage on the released CREval item scores: docs/decisions/0004-intervals.md.
"""

from __future__ import annotations

import numpy as np

from refbench.stats.bootstrap import Array
from refbench.stats.quantiles import normal_cdf, normal_quantile, t_quantile

_MOST_UNDEFINED = 0.05
"""Above this share of draws without a value (nothing scored in a slice) there is no interval."""


def bca_interval(
    point: float, draws: Array, influence: Array, df: int, level: float = 0.95
) -> tuple[float, float] | None:
    """Interval for `point` from its bootstrap draws.

    `influence` is the leave-one-out influence of each cluster (any common scale), from which the
    acceleration comes; pass an empty array to take it as zero. None where no interval can be had: no
    draw or degree of freedom, no variation at all, or too many undefined draws.
    """
    defined = draws[np.isfinite(draws)]
    if df < 1 or len(draws) == 0 or len(defined) < (1 - _MOST_UNDEFINED) * len(draws) or np.ptp(defined) < 1e-12:
        return None
    tail = (1 - level) / 2
    below = (np.mean(defined < point) + np.mean(defined <= point)) / 2
    half = 0.5 / len(defined)
    bias = normal_quantile(float(np.clip(below, half, 1 - half)))
    acceleration = _acceleration(influence)
    reach = t_quantile(1 - tail, df)
    low, high = (_level(bias, acceleration, z) for z in (-reach, reach))
    lower, upper = np.quantile(defined, [low, high])
    return float(lower), float(upper)


def _acceleration(influence: Array) -> float:
    spread = float(np.sum(influence**2))
    return float(np.sum(influence**3)) / (6 * spread**1.5) if spread > 0 else 0.0


def _level(bias: float, acceleration: float, z: float) -> float:
    shifted = bias + z
    return normal_cdf(bias + shifted / max(1 - acceleration * shifted, 1e-9))
