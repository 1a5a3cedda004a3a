"""Whether something that happens to cases (a failure) happens to some systems more than to others.

Cochran's Q by permutation: were systems alike, the columns of a case could be exchanged. All cases of a cluster are
exchanged together, since what befalls one befalls its kin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.stats.bootstrap import Array


@dataclass(frozen=True)
class Dependence:
    """`p` of the whole table; `excess` is each system's count less the mean of all, with a p that allows for having
    looked at every system."""

    p: float
    excess: Array
    p_each: Array


def depends_on_system(
    happened: NDArray[np.bool_] | Array, cluster: NDArray[np.intp], *, draws: int, seed: int
) -> Dependence | None:
    """Test `happened` (systems x cases), or in what share of a case's pictures it did. None where no cluster
    has it more in some systems than in others."""
    _, number = np.unique(cluster, return_inverse=True)
    counts = np.stack([np.bincount(number, weights=row) for row in happened.astype(np.float64)], axis=1)
    # Clusters in which all systems are alike are the same however they are exchanged.
    counts = counts[np.ptp(counts, axis=1) > _ROUNDING]
    if len(counts) == 0:
        return None
    rng = np.random.default_rng(seed)
    mean = counts.sum() / counts.shape[1]
    excess: Array = counts.sum(axis=0) - mean
    whole, each = np.sum(excess**2), np.abs(excess)
    reached, reached_each = 1, np.ones(len(each))
    for _ in range(draws):
        found = rng.permuted(counts, axis=1).sum(axis=0) - mean
        reached += bool(np.sum(found**2) >= whole - _ROUNDING)
        reached_each += np.abs(found).max() >= each - _ROUNDING
    return Dependence(reached / (draws + 1), excess, reached_each / (draws + 1))


_ROUNDING = 1e-9
"""Sums in another order differ in the last digits: an equal draw must count as one."""
