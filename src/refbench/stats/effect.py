"""How large a paired difference is beside its spread, and how large it must be to be seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from refbench.stats.bootstrap import Array
from refbench.stats.quantiles import normal_quantile

LEVEL = 0.05
POWER = 0.80


def paired_effect(differences: Array, cluster: NDArray[np.intp]) -> float | None:
    """Mean difference of the cases over the standard deviation of the clusters' mean differences (Cohen's d for
    pairs, when every case is a cluster of its own). None without two clusters that differ."""
    sizes = np.bincount(cluster)
    of_cluster = np.bincount(cluster, weights=differences) / np.maximum(sizes, 1)
    of_cluster = of_cluster[sizes > 0]
    if len(of_cluster) < 2:
        return None
    spread = float(of_cluster.std(ddof=1))
    return float(differences.mean()) / spread if spread > 1e-12 * float(np.abs(differences).max()) else None


def detectable(half_width: float, family: int = 1) -> float:
    """The true difference that a test finds four times in five, from the half-width of a 95 % interval.

    In a family of several tests the level that the first of them must reach is the family's divided by their number.
    """
    one = normal_quantile(1 - LEVEL / 2)
    return half_width / one * (normal_quantile(1 - LEVEL / 2 / family) + normal_quantile(POWER))
