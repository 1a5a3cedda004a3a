"""Permutation tests: sign flips for paired systems, for any aggregate of weighted means; Cochran's Q; Holm's
correction.

A flip swaps the two systems' scores in a whole cluster. Written over the cases twice, once as they are and once
swapped, a flip is nothing but a weight of 0 or 1 for each of the two copies: the aggregate is repeated exactly, macro
averages and totals included, and strata stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array, Design

_CHUNK = 4_000_000
"""Weights made at a time: 32 MB, whatever the number of cases and draws."""
_AT_HAND = 50_000
"""Weights made into numbers at a time: 400 kB."""
_ROUNDING = 1e-9
"""Gaps that agree to this share of the largest are ties: sums taken in another order differ in the last digits."""


def is_exhaustive(n_clusters: int, draws: int) -> bool:
    """Whether all flips of so many clusters are fewer than the draws asked for: then all are tried instead."""
    return n_clusters < 63 and 2**n_clusters <= draws + 1


def flips(design: Design, draws: int, seed: int) -> Iterator[Array]:
    """Weights over the cases twice, draws x 2 n in blocks: of each case, the copy as it is or the swapped one."""
    for swapped in _swapped(design, draws, seed):
        of_cases = swapped[:, design.cluster].astype(np.float64)
        yield np.concatenate([1.0 - of_cases, of_cases], axis=1)


def _swapped(design: Design, draws: int, seed: int) -> Iterator[NDArray[Any]]:
    """1 for a cluster that is swapped, else 0: draws x clusters in blocks."""
    rng = np.random.default_rng(seed)
    clusters, everything = design.n_clusters, is_exhaustive(design.n_clusters, draws)
    total = 2**clusters if everything else draws
    block = max(1, min(total, _CHUNK // max(1, 2 * len(design.cluster))))
    for start in range(0, total, block):
        rows = min(block, total - start)
        if everything:
            numbers = np.arange(start, start + rows, dtype=np.int64)
            yield (numbers[:, None] >> np.arange(clusters)) & 1
        else:
            yield rng.integers(0, 2, (rows, clusters), dtype=np.uint8)


@dataclass(frozen=True)
class FlipP:
    """A two-sided p. `bound`: none of the flips that were drawn reaches the gap, so p is below this."""

    p: float
    bound: bool = False


def flip_p(observed: float, drawn: Array, *, exhaustive: bool) -> FlipP:
    """The share of flips whose gap is as far from zero as the one observed.

    Of random flips the data as they are count as one more, so that p is never 0; all flips contain them already.
    """
    sizes = np.abs(drawn[np.isfinite(drawn)])
    if len(sizes) == 0:
        return FlipP(1.0)
    slack = _ROUNDING * max(float(sizes.max()), abs(observed))
    return _share(int((sizes >= abs(observed) - slack).sum()), len(sizes), exhaustive)


def sum_flip_p(parts: Array, draws: int, seed: int) -> list[FlipP]:
    """The same for gaps that are sums over clusters, `parts` being gaps x clusters, without repeating an aggregate.

    Where no flip drawn reaches the gap, p is also below Hoeffding's bound for sums of parts with random signs,
    2 exp(-gap^2 / 2 sum of squared parts), which has no floor: families of thousands of pairs can be told apart.
    """
    sums = parts.sum(axis=1)
    gaps, squares = np.abs(sums), (parts**2).sum(axis=1)
    slack = _ROUNDING * np.abs(parts).sum(axis=1)
    as_far = np.zeros(len(parts), dtype=np.int64)
    total = 0
    for swapped in _swaps(parts.shape[1], draws, seed):
        as_far += (np.abs(sums - 2 * (swapped @ parts.T)) >= gaps - slack).sum(axis=0)
        total += len(swapped)
    shares = [_share(int(n), total, is_exhaustive(parts.shape[1], draws)) for n in as_far]
    with np.errstate(invalid="ignore", divide="ignore"):
        # Of very many clusters the bound is smaller than any number there is: p is never 0.
        hoeffding = np.maximum(2 * np.exp(-(gaps**2) / (2 * squares)), np.finfo(np.float64).tiny)
    return [
        FlipP(min(one.p, float(h)), bound=True) if one.bound else one for one, h in zip(shares, hoeffding, strict=True)
    ]


def _share(as_far: int, total: int, exhaustive: bool) -> FlipP:
    return FlipP(as_far / total) if exhaustive else FlipP((1 + as_far) / (1 + total), bound=as_far == 0)


def _swaps(clusters: int, draws: int, seed: int) -> Iterator[Array]:
    """1 where a cluster is swapped, else 0, as numbers to multiply by: draws x clusters, in blocks that fit into a
    processor's cache."""
    design = Design(np.arange(clusters, dtype=np.intp), np.zeros(clusters, dtype=np.intp))
    rows = max(1, _AT_HAND // max(1, clusters))
    for swapped in _swapped(design, draws, seed):
        for start in range(0, len(swapped), rows):
            yield swapped[start : start + rows].astype(np.float64)


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
    """Test whether something `happened` (systems x cases, or in what share of a case's pictures) to some systems more
    than to others: Cochran's Q by permutation. None where no cluster has it more in some systems than in others.

    Were systems alike, the columns of a case could be exchanged. All cases of a cluster are exchanged together, since
    what befalls one befalls its kin.
    """
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
        exchanged = rng.permuted(counts, axis=1).sum(axis=0) - mean
        reached += bool(np.sum(exchanged**2) >= whole - _ROUNDING)
        reached_each += np.abs(exchanged).max() >= each - _ROUNDING
    return Dependence(reached / (draws + 1), excess, reached_each / (draws + 1))


def holm(values: Sequence[float]) -> list[float]:
    """Holm's correction: p values of a family such that the chance of any false claim stays at the level.

    The k-th smallest of m becomes m - k + 1 times as large, and never less than one before it; the order is kept.
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    adjusted = [0.0] * len(values)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, values[i] * (len(values) - rank)))
        adjusted[i] = highest
    return adjusted
