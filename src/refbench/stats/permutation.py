"""Sign-flip permutation test for paired systems, for any aggregate of weighted means.

A flip swaps the two systems' scores in a whole cluster. Written over the cases twice, once as they are and once
swapped, a flip is nothing but a weight of 0 or 1 for each of the two copies: the aggregate is repeated exactly, macro
averages and totals included, and strata stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from refbench.stats.bootstrap import Array, Design

_CHUNK = 4_000_000
"""Weights made at a time: 32 MB, whatever the number of cases and draws."""
_ROUNDING = 1e-9
"""Gaps that agree to this share of the largest are ties: sums taken in another order differ in the last digits."""


def is_exhaustive(n_clusters: int, draws: int) -> bool:
    """Whether all flips of so many clusters are fewer than the draws asked for: then all are tried instead."""
    return n_clusters < 63 and 2**n_clusters <= draws + 1


def flips(design: Design, draws: int, seed: int) -> Iterator[Array]:
    """Weights over the cases twice, draws x 2 n in blocks: of each case, the copy as it is or the swapped one."""
    rng = np.random.default_rng(seed)
    clusters, everything = design.n_clusters, is_exhaustive(design.n_clusters, draws)
    total = 2**clusters if everything else draws
    block = max(1, min(total, _CHUNK // max(1, 2 * len(design.cluster))))
    for start in range(0, total, block):
        rows = min(block, total - start)
        if everything:
            numbers = np.arange(start, start + rows, dtype=np.int64)
            swapped = (numbers[:, None] >> np.arange(clusters)) & 1
        else:
            swapped = rng.integers(0, 2, (rows, clusters), dtype=np.uint8)
        of_cases = swapped[:, design.cluster].astype(np.float64)
        yield np.concatenate([1.0 - of_cases, of_cases], axis=1)


def flip_p(observed: float, drawn: Array, *, exhaustive: bool) -> float:
    """Two-sided p: the share of flips whose gap is as far from zero as the one observed.

    Of random flips the data as they are count as one more, so that p is never 0; all flips contain them already.
    """
    sizes = np.abs(drawn[np.isfinite(drawn)])
    if len(sizes) == 0:
        return 1.0
    slack = _ROUNDING * max(float(sizes.max()), abs(observed))
    as_far = int((sizes >= abs(observed) - slack).sum())
    return as_far / len(sizes) if exhaustive else (1 + as_far) / (1 + len(sizes))
