"""Weighted means over cases, their resampling by clusters within strata, and intervals made of the resamples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.stats.quantiles import beta_quantile, normal_cdf, normal_quantile, t_quantile, t_tails

# Cluster bootstrap within strata, as weight vectors over cases.
#
# A draw is a weight for each case, so that gates, macro averages and other aggregates are repeated exactly
# by calling them with other weights. In a stratum of n clusters, n - 1 are drawn and weighted n / (n - 1)
# (Rao and Wu): drawing n would make the variance too small by that factor, which shows in strata of ten.

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
            drawn = rng.integers(0, n, (rows, n - 1), dtype=np.uint32)
            drawn = np.add(drawn, np.arange(rows, dtype=np.intp)[:, None] * n, dtype=np.intp)
            counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
            weights[:, slice(None) if n == design.n_clusters else clusters] = counts * (n / (n - 1))
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


def mean_of_those_there(values: Array, axis: int = 0) -> Array:
    """The plain mean over an axis of what is there; NaN where nothing is."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Array = np.where(there, values, 0.0).sum(axis=axis) / there.sum(axis=axis)
    return mean


class WeightedMeans:
    """Means of columns under each weight vector. NaN marks a case without a value: it has no weight.

    `columns` maps a metric to systems x cases, `weights` is draws x cases.
    """

    def __init__(self, columns: Mapping[str, Array], weights: Array) -> None:
        self.columns = columns
        self.weights = weights
        self._slices: dict[int, tuple[NDArray[np.bool_], Array]] = {}
        self._totals: dict[tuple[int, bytes], Array] = {}

    def __call__(self, metric: str, members: NDArray[np.bool_]) -> Array:
        """Mean over the chosen cases, systems x draws; NaN where none of them has a value."""
        weights = self._of(members)
        values = self.columns[metric][:, members]
        present = ~np.isnan(values)
        if present.all():
            total = weights.sum(axis=1)[None, :]
            summed = values @ weights.T
        else:
            # Metrics of one reply are there or not together: their weights are added up once.
            place = id(members), np.packbits(present).tobytes()
            if place not in self._totals:
                self._totals[place] = present.astype(np.float64) @ weights.T
            total = self._totals[place]
            summed = np.where(present, values, 0.0) @ weights.T
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Array = np.where(total > 0, summed / total, np.nan)
        return mean

    def _of(self, members: NDArray[np.bool_]) -> Array:
        """Weights of the chosen cases; kept, because every metric asks for the same ones."""
        if id(members) not in self._slices:
            self._slices[id(members)] = members, self.weights if members.all() else self.weights[:, members]
        return self._slices[id(members)][1]


class SingleMeans:
    """Means of columns over each case alone, and over all of them at last: what `WeightedMeans` gives under a weight of
    1 for one case and 0 for the others, without multiplying cases by cases."""

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self.columns = columns

    def __call__(self, metric: str, members: NDArray[np.bool_]) -> Array:
        """Systems x (cases and all); NaN where a case is none of those chosen, or has no value."""
        alone = np.where(members, self.columns[metric], np.nan)
        found: Array = np.concatenate([alone, mean_of_those_there(alone, axis=1)[:, None]], axis=1)
        return found


class OneSwapMeans:
    """Means of columns over the cases twice (as they are, and swapped) when a single cluster is swapped, for each of
    them: what `WeightedMeans` gives under such weights, from sums of clusters instead of clusters times cases."""

    def __init__(self, columns: Mapping[str, Array], cluster: NDArray[np.intp], chosen: NDArray[np.intp]) -> None:
        self.columns, self.cluster, self.chosen = columns, cluster, chosen
        self._n_clusters = int(cluster.max()) + 1

    def __call__(self, metric: str, members: NDArray[np.bool_]) -> Array:
        """Mean over the chosen cases, systems x clusters; NaN where none of them has a value."""
        values = self.columns[metric]
        present = ~np.isnan(values) & members
        summed = self._swapped(np.where(present, values, 0.0))
        total = self._swapped(present.astype(np.float64))
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Array = np.where(total > 0, summed / total, np.nan)
        return mean

    def _swapped(self, values: Array) -> Array:
        """The sum of all, with one cluster's part of the first half in exchange for that of the second."""
        n = len(self.cluster)
        found: Array = np.empty((len(values), len(self.chosen)))
        for row, of_system in zip(found, values, strict=True):
            here, swapped = (
                np.bincount(self.cluster, weights=half, minlength=self._n_clusters)[self.chosen]
                for half in (of_system[:n], of_system[n:])
            )
            row[:] = of_system[:n].sum() - here + swapped
        return found


# Intervals for a number from its resamples: Korn and Graubard's for bounded scores, Student's for fewer than five
# clusters, else the bias-corrected and accelerated one, widened by Student's t; and Student's corrected for skew, for
# gaps.
#
# Chosen by measuring coverage on the released CREval item scores: docs/decisions/0004-intervals.md.

Interval = tuple[float, float] | None

FEW = 5
"""Clusters below which resamples say too little: they cannot leave the hull of the data."""
SYMMETRIC_BELOW = 20
"""Clusters below which differences are taken to be symmetric: the skew of so few is mostly noise, and correcting for it
costs more claims that are true than it saves false ones."""
_MOST_UNDEFINED = 0.05
"""Above this share of draws without a value (nothing scored in a slice) there is no interval."""
_NO_SPREAD = 1e-12
_MOST_ANSWERS = 1e12
"""Above so many answers, of scores that are all but equal, beta's quantiles drown in rounding, and are Student's."""
_LEVEL = 0.95
_UPPER = (1 + _LEVEL) / 2


def interval_for(
    value: float,
    draws: Array,
    influence: Array,
    *,
    n: float,
    df: int,
    ends: tuple[float, float] | None = None,
    level: float = _LEVEL,
) -> Interval:
    """The interval of a number (of 95 % by default), from its draws and each cluster's influence on it (`draws_of`).

    `n` is the number of clusters behind it, as many as they are worth if their weights differ (`effective_n`), `df`
    the degrees of freedom of its standard error, `ends` those of the scale where it has both. None where
    no interval can be had: no draw or degree of freedom, no variation at all away from the ends of the scale, or too
    many undefined draws.
    """
    defined = draws[np.isfinite(draws)]
    if df < 1 or len(draws) == 0 or len(defined) < (1 - _MOST_UNDEFINED) * len(draws):
        return None
    error = float(np.std(defined))
    if ends is not None:
        return bounded_interval(value, error, n, df, *ends, level)
    if np.ptp(defined) < _NO_SPREAD:
        return None
    if n < FEW:
        return student_interval(value, error, df, level)
    return bca_interval(value, draws, influence, df, level)


def bounded_interval(
    value: float, error: float, n: float, df: int, low: float, high: float, level: float = _LEVEL
) -> Interval:
    """Korn and Graubard's interval for the mean of scores between `low` and `high`.

    The ends are Clopper and Pearson's, for as many yes-or-no answers as would have this standard error. A sample
    whose scores all lie at one end of the scale still has an interval: as many clusters do not exclude others. `n` is
    `effective_n` where clusters weigh unequally: one that holds most of the cases is one answer, not many.
    """
    share = min(max(float((value - low) / (high - low)), 0.0), 1.0)
    spread = error / (high - low)
    if share < _NO_SPREAD or share > 1 - _NO_SPREAD:
        effective, share = float(n), float(round(share))
    elif spread < _NO_SPREAD:
        return None
    else:
        effective = max(share * (1 - share) / spread**2, n)
    if effective > _MOST_ANSWERS:
        lower, upper = student_interval(value, error, df, level)
        return max(low, lower), min(high, upper)
    tail, upper_tail = (1 - level) / 2, (1 + level) / 2
    effective *= (normal_quantile(upper_tail) / t_quantile(upper_tail, df)) ** 2
    yes, no = share * effective, (1 - share) * effective
    lower, upper = beta_quantile(tail, yes, no + 1), beta_quantile(upper_tail, yes + 1, no)
    return low + (high - low) * lower, low + (high - low) * upper


def score_interval(value: float, error: float, n: int, df: int, level: float = _LEVEL) -> tuple[float, float]:
    """Wilson's interval for a mean of scores between 0 and 1, for as many yes-or-no answers as would have this standard
    error, with Student's t. Equal scores count as one answer each.

    Of 48 clusters it holds its level also where nearly all scores are 1, where Korn and Graubard's ends are wider than
    they need be (docs/audit.md).
    """
    t, answers = t_quantile((1 + level) / 2, df), _answers(value, error, n)
    spread = t**2 / answers
    middle = (value + spread / 2) / (1 + spread)
    half = float(np.sqrt(value * (1 - value) * spread + spread**2 / 4)) / (1 + spread)
    return max(0.0, middle - half), min(1.0, middle + half)


def score_p(value: float, error: float, n: int, df: int, at: float) -> float:
    """Two-sided p of such a mean against the value `at`: the level at which an end of `score_interval` reaches it."""
    return t_tails((value - at) * float(np.sqrt(_answers(value, error, n) / (at * (1 - at)))), df)


def _answers(value: float, error: float, n: int) -> float:
    return max(value * (1 - value) / error**2, n) if error > _NO_SPREAD else float(n)


def effective_n(weights: Sequence[float] | Array) -> float:
    """How many equally weighted clusters tell as much as clusters of these weights (Kish)."""
    squares = float(np.sum(np.square(weights)))
    return float(np.sum(weights)) ** 2 / squares if squares else 0.0


def student_interval(value: float, error: float, df: int, level: float = _LEVEL) -> tuple[float, float]:
    """The value with as many standard errors on both sides as Student's t says."""
    reach = t_quantile((1 + level) / 2, df) * error
    return value - reach, value + reach


def bca_interval(point: float, draws: Array, influence: Array, df: int, level: float = _LEVEL) -> Interval:
    """Interval for `point` from its bootstrap draws.

    `influence` is the leave-one-out influence of each cluster (any common scale), from which the
    acceleration comes; pass an empty array to take it as zero. None where no interval can be had: no
    draw or degree of freedom, no variation at all, or too many undefined draws.
    """
    defined = draws[np.isfinite(draws)]
    if df < 1 or len(draws) == 0 or len(defined) < (1 - _MOST_UNDEFINED) * len(draws) or np.ptp(defined) < _NO_SPREAD:
        return None
    below = (np.mean(defined < point) + np.mean(defined <= point)) / 2
    half = 0.5 / len(defined)
    bias = normal_quantile(float(np.clip(below, half, 1 - half)))
    acceleration = _acceleration(influence)
    reach = t_quantile((1 + level) / 2, df)
    low, high = (_level(bias, acceleration, z) for z in (-reach, reach))
    lower, upper = np.quantile(defined, [low, high])
    return float(lower), float(upper)


def _acceleration(influence: Array) -> float:
    spread = float(np.sum(influence**2))
    return float(np.sum(influence**3)) / (6 * spread**1.5) if spread > 0 else 0.0


def _level(bias: float, acceleration: float, z: float) -> float:
    shifted = bias + z
    return normal_cdf(bias + shifted / max(1 - acceleration * shifted, 1e-9))


@dataclass(frozen=True)
class Contrast:
    """A difference with its standard error by cluster, and the skew of its distribution (third cumulant over the
    cubed standard error), for Student's t with and without Hall's correction for skew.

    Both are needed: on skewed differences the plain t claims too much, on symmetric ones of few clusters the
    corrected one does. The larger p and the wider interval keep the level on both (perf/compare.py).
    """

    value: float
    error: float
    skew: float
    n: int
    """Clusters."""
    df: int

    @property
    def p(self) -> float | None:
        """Two-sided, for no difference; None where there is no error to measure it by."""
        if not self._measured:
            return None
        t = self.value / self.error
        return max(t_tails(t, self.df), t_tails(self._straightened(t), self.df))

    def p_within(self, margin: float) -> float | None:
        """The larger of two one-sided tests: that the difference is not below minus the margin, and not above it. None
        where there is no error to measure it by."""
        if not self._measured:
            return None
        below, above = ((self.value + margin) / self.error, (margin - self.value) / self.error)
        ps = [_upper_tail(t, self.df) for t in (below, self._straightened(below))]
        ps += [_upper_tail(t, self.df) for t in (above, -self._straightened(-above))]
        return max(ps)

    def interval(self, level: float = _LEVEL) -> Interval:
        """All differences that neither form of the test rejects; None where there is no error to measure them by."""
        if not self._measured:
            return None
        reach = t_quantile((1 + level) / 2, self.df)
        ends = [self.value - self.error * t for r in (-reach, reach) for t in (r, self._bent(r))]
        return min(ends), max(ends)

    @property
    def effect(self) -> float | None:
        """The difference over the standard deviation of the clusters' contributions (Cohen's d of pairs, where every
        case is a cluster of its own)."""
        return self.value / (self.error * self.n**0.5) if self._measured else None

    @property
    def _measured(self) -> bool:
        return self.df >= 1 and np.isfinite(self.value) and self.error > _NO_SPREAD * max(abs(self.value), 1e-300)

    @property
    def _k(self) -> float:
        return self.skew if self.n >= SYMMETRIC_BELOW else 0.0

    def _straightened(self, t: float) -> float:
        """Hall's cubic, whose distribution is without the first effect of skew; without end from where it is flat.

        It is flat at 3 / |k| errors to the side of the longer tail and says nothing about what lies further out, where
        it would go on to rise: such a value is for Student's t alone to judge.
        """
        k = self._k
        if k * t < -3:
            return float(-np.copysign(np.inf, k))
        return t + k * t**2 / 3 + k**2 * t**3 / 27 + k / 6

    def _bent(self, z: float) -> float:
        """The inverse of the cubic, which ends where that is flat."""
        k = self._k
        return z if abs(k) < 1e-9 else float(np.cbrt(max(1 + k * (z - k / 6), 0.0)) - 1) * 3 / k


def _upper_tail(t: float, df: int) -> float:
    """One-sided p of Student's t."""
    half = t_tails(t, df) / 2
    return half if t > 0 else 1 - half


def bounds_interval(
    low: float, high: float, errors: tuple[float, float], df: int, level: float = _LEVEL
) -> tuple[float, float]:
    """Imbens and Manski's interval for a number known only to lie between two estimates: it holds the number, not all
    of what lies between them, with the level's chance. `errors` are the standard errors of the two."""
    apart = (high - low) / max(*errors, 1e-300)
    upper = (1 + level) / 2
    below, above = normal_quantile(level), normal_quantile(upper)
    for _ in range(60):
        middle = (below + above) / 2
        enough = normal_cdf(middle + apart) - normal_cdf(-middle) >= level
        below, above = (below, middle) if enough else (middle, above)
    reach = above * t_quantile(upper, df) / normal_quantile(upper)
    return low - reach * errors[0], high + reach * errors[1]
