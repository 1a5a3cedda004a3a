"""Intervals for a number from its resamples: Korn and Graubard's for bounded scores, Student's for fewer than five
clusters, else the bias-corrected and accelerated one, widened by Student's t; and Student's corrected for skew, for
gaps.

Chosen by measuring coverage on the released CREval item scores: docs/decisions/0004-intervals.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refbench.stats.bootstrap import Array
from refbench.stats.quantiles import beta_quantile, normal_cdf, normal_quantile, t_quantile, t_tails

Interval = tuple[float, float] | None

FEW = 5
"""Clusters below which resamples say too little: they cannot leave the hull of the data."""
SYMMETRIC_BELOW = 20
"""Clusters below which differences are taken to be symmetric: the skew of so few is mostly noise, and correcting for it
costs more claims that are true than it saves false ones."""
_MOST_UNDEFINED = 0.05
"""Above this share of draws without a value (nothing scored in a slice) there is no interval."""
_NO_SPREAD = 1e-12
_LEVEL = 0.95
_LOWER, _UPPER = (1 - _LEVEL) / 2, (1 + _LEVEL) / 2


def interval_for(
    value: float,
    draws: Array,
    influence: Array,
    *,
    n: float,
    df: int,
    low: float | None = None,
    high: float | None = None,
) -> Interval:
    """The 95 % interval of a number, from its draws and each cluster's influence on it (`draws_of`).

    `n` is the number of clusters behind it, as many as they are worth if their weights differ (`effective_n`), `df`
    the degrees of freedom of its standard error, `low` and `high` the ends of the scale where it has both. None where
    no interval can be had: no draw or degree of freedom, no variation at all away from the ends of the scale, or too
    many undefined draws.
    """
    defined = draws[np.isfinite(draws)]
    if df < 1 or len(draws) == 0 or len(defined) < (1 - _MOST_UNDEFINED) * len(draws):
        return None
    error = float(np.std(defined))
    if low is not None and high is not None:
        return bounded_interval(value, error, n, df, low, high)
    if np.ptp(defined) < _NO_SPREAD:
        return None
    if n < FEW:
        return student_interval(value, error, df)
    return bca_interval(value, draws, influence, df)


def bounded_interval(value: float, error: float, n: float, df: int, low: float, high: float) -> Interval:
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
    effective *= (normal_quantile(_UPPER) / t_quantile(_UPPER, df)) ** 2
    yes, no = share * effective, (1 - share) * effective
    ends = beta_quantile(_LOWER, yes, no + 1), beta_quantile(_UPPER, yes + 1, no)
    return low + (high - low) * ends[0], low + (high - low) * ends[1]


def effective_n(weights: Sequence[float] | Array) -> float:
    """How many equally weighted clusters tell as much as clusters of these weights (Kish)."""
    squares = float(np.sum(np.square(weights)))
    return float(np.sum(weights)) ** 2 / squares if squares else 0.0


def student_interval(value: float, error: float, df: int) -> tuple[float, float]:
    """The value with as many standard errors on both sides as Student's t says."""
    reach = t_quantile(_UPPER, df) * error
    return value - reach, value + reach


def bca_interval(point: float, draws: Array, influence: Array, df: int) -> Interval:
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
    reach = t_quantile(_UPPER, df)
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

    def interval(self) -> Interval:
        """All differences that neither form of the test rejects; None where there is no error to measure them by."""
        if not self._measured:
            return None
        reach = t_quantile(_UPPER, self.df)
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
        """Hall's cubic, whose distribution is without the first effect of skew."""
        k = self._k
        return t + k * t**2 / 3 + k**2 * t**3 / 27 + k / 6

    def _bent(self, z: float) -> float:
        """The inverse of the cubic."""
        k = self._k
        return z if abs(k) < 1e-9 else float(np.cbrt(1 + k * (z - k / 6)) - 1) * 3 / k


def bounds_interval(low: float, high: float, errors: tuple[float, float], df: int) -> tuple[float, float]:
    """Imbens and Manski's interval for a number known only to lie between two estimates: it holds the number, not all
    of what lies between them, with the level's chance. `errors` are the standard errors of the two."""
    apart = (high - low) / max(*errors, 1e-300)
    below, above = normal_quantile(_LEVEL), normal_quantile(_UPPER)
    for _ in range(60):
        middle = (below + above) / 2
        enough = normal_cdf(middle + apart) - normal_cdf(-middle) >= _LEVEL
        below, above = (below, middle) if enough else (middle, above)
    reach = above * t_quantile(_UPPER, df) / normal_quantile(_UPPER)
    return low - reach * errors[0], high + reach * errors[1]
