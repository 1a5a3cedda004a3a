"""Cluster bootstrap within strata, as weight vectors over cases.

A draw is a weight for each case, so that gates, macro averages and other aggregates are repeated exactly
by calling them with other weights. In a stratum of n clusters, n - 1 are drawn and weighted n / (n - 1)
(Rao and Wu): drawing n would make the variance too small by that factor, which shows in strata of ten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CHUNK = 4_000_000
"""Weights made at a time: 32 MB, whatever the number of cases and draws."""
MOST_LEFT_OUT = 2000
"""Clusters up to which each is left out once: with more, the acceleration is too small to matter and its cost is not
(docs/decisions/0004-intervals.md)."""


@dataclass(frozen=True)
class Design:
    """Which cases belong together (`cluster`, per case) and which clusters to one `stratum` (per cluster)."""

    cluster: NDArray[np.intp]
    stratum: NDArray[np.intp]

    @classmethod
    def of(cls, clusters: Sequence[str], strata: Sequence[str]) -> Design:
        """From names per case. A cluster that spans strata belongs to the first it is seen in.

        Strata of a single cluster cannot be resampled and would look free of error; they are pooled, and a
        last single one is joined to the smallest other stratum.
        """
        cluster_number: dict[str, int] = {}
        stratum_of: list[str] = []
        for name, stratum_name in zip(clusters, strata, strict=True):
            if name not in cluster_number:
                cluster_number[name] = len(cluster_number)
                stratum_of.append(stratum_name)
        cluster = np.array([cluster_number[name] for name in clusters], dtype=np.intp)
        _, stratum = np.unique(np.array(stratum_of, dtype=object).astype(str), return_inverse=True)
        return cls(cluster, _pooled(stratum.astype(np.intp)))

    @property
    def n_clusters(self) -> int:
        return len(self.stratum)

    def clusters_of(self, members: NDArray[np.bool_]) -> NDArray[np.intp]:
        """The distinct clusters of the chosen cases."""
        return np.unique(self.cluster[members])

    def degrees_of_freedom(self, members: NDArray[np.bool_]) -> int:
        """Clusters less strata among the chosen cases."""
        clusters = self.clusters_of(members)
        return len(clusters) - len(np.unique(self.stratum[clusters]))

    def weights_of(self, cases: Array) -> Array:
        """The weight of each cluster, from those of the cases."""
        return np.bincount(self.cluster, weights=cases, minlength=self.n_clusters).astype(np.float64)

    def weighted_degrees_of_freedom(self, clusters: Array) -> int:
        """Clusters less strata, fewer where few clusters of a stratum have most of the weight (Satterthwaite, for equal
        variances): the error of a mean over a part of 5 and one of 95 is known as well as that of the 5."""
        n = np.bincount(self.stratum, weights=clusters > 0)
        shares = np.bincount(self.stratum, weights=clusters**2)
        known = n > 1
        if not known.any():
            return 0
        return max(1, int(shares[known].sum() ** 2 / (shares[known] ** 2 / (n[known] - 1)).sum() + 1e-9))


def _pooled(stratum: NDArray[np.intp]) -> NDArray[np.intp]:
    sizes = np.bincount(stratum)
    single = np.flatnonzero(sizes == 1)
    if len(single) == 0 or len(sizes) == 1:
        return stratum
    target = single[0]
    if len(single) == 1:
        others = np.where(sizes > 1, sizes, np.iinfo(np.intp).max)
        target = np.argmin(others)
    pooled = np.where(np.isin(stratum, single), target, stratum)
    return np.unique(pooled, return_inverse=True)[1].astype(np.intp)


def resample(design: Design, draws: int, seed: int) -> Iterator[Array]:
    """Weights of `draws` resamples, in blocks of draws x cases."""
    rng = np.random.default_rng(seed)
    strata = [np.flatnonzero(design.stratum == h) for h in range(design.stratum.max() + 1)]
    one_case_each = np.array_equal(design.cluster, np.arange(design.n_clusters))
    block = max(1, min(draws, _CHUNK // max(1, len(design.cluster))))
    for start in range(0, draws, block):
        rows = min(block, draws - start)
        weights = np.ones((rows, design.n_clusters))
        for clusters in strata:
            n = len(clusters)
            if n == 1:
                continue
            drawn = rng.integers(0, n, (rows, n - 1), dtype=np.uint32).astype(np.intp)
            drawn += np.arange(rows, dtype=np.intp)[:, None] * n
            counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
            weights[:, clusters] = counts * (n / (n - 1))
        yield weights if one_case_each else weights[:, design.cluster]


def leave_one_out(design: Design) -> Iterator[tuple[NDArray[np.intp], Array]]:
    """Weights with one cluster left out and the rest of its stratum raised to make up for it, in blocks."""
    sizes = np.bincount(design.stratum)
    block = max(1, _CHUNK // max(1, len(design.cluster)))
    for start in range(0, design.n_clusters, block):
        out = np.arange(start, min(start + block, design.n_clusters), dtype=np.intp)
        n = sizes[design.stratum[out]]
        same = design.stratum[None, :] == design.stratum[out][:, None]
        weights = np.where(same, (n / np.maximum(n - 1, 1))[:, None], 1.0)
        weights[np.arange(len(out)), out] = np.where(n > 1, 0.0, 1.0)
        yield out, weights[:, design.cluster]


def draws_of(
    statistic: Callable[[Array], Array], design: Design, draws: int, seed: int, *, most_left_out: int = MOST_LEFT_OUT
) -> tuple[Array, Array]:
    """A statistic under every resample, and the influence of each cluster on it, for `bca_interval`.

    `statistic` gives one number or many for each weight vector, along its last axis. With more clusters than
    `most_left_out` there are no influences.
    """
    point = statistic(np.ones((1, len(design.cluster))))
    blocks = (statistic(weights) for weights in resample(design, draws, seed))
    drawn = np.concatenate([point[..., :0], *blocks], axis=-1)
    if design.n_clusters > most_left_out or not draws:
        return drawn, point[..., :0]
    left = np.concatenate([statistic(weights) for _, weights in leave_one_out(design)], axis=-1)
    # A cluster of a small stratum moves the statistic more when it is left out than it does in a resample.
    shrink = 1 - 1 / np.bincount(design.stratum)[design.stratum]
    return drawn, np.nan_to_num((point - left) * shrink)


def error_and_skew(influence: Array, design: Design) -> tuple[float, float]:
    """The standard error of a statistic from the influence of each cluster, and the skew of its distribution: the
    third cumulant over the cubed error. Strata of fewer than three clusters say nothing about skew."""
    n = np.bincount(design.stratum)[design.stratum].astype(np.float64)
    error = float(np.sqrt(np.sum(np.where(n > 1, n / np.maximum(n - 1, 1), 0.0) * influence**2)))
    third = float(np.sum(np.where(n > 2, n**2 / np.maximum((n - 1) * (n - 2), 1), 0.0) * influence**3))
    return error, third / error**3 if error > 0 else 0.0
