"""Means of a costly mark that is known for a sample, made more precise by a cheap one that is known for all:
prediction-powered inference with a tuned slope (PPI++), for samples of known, unequal probabilities.

With the costly marks among the cheap ones, the PPI++ mean with its optimal lambda is the regression estimator of survey
sampling: `mean of lambda f over all + mean of (y - lambda f) over the sample`. Sample means are Hajek's (weights over
their sum), so the number does not depend on where either scale begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array, Contrast, Design, error_and_skew

FEWEST = 5
"""Sampled cases below which there is no corrected mean: slope and error would be known from three differences."""
FEW = 20
"""Sampled cases below which intervals hold less often than they say: 93 % at 10 (perf/human_corrected.py)."""
_MOST_LEVERAGE = 0.9
_NO_SPREAD = 1e-12

Labels = NDArray[np.intp]


@dataclass(frozen=True)
class SampledMarks:
    """Outputs with the cheap mark of each, and the costly one of a sample (NaN: none).

    `weight` is the share of the whole that an output has, `probability` its chance of having been sampled, `noise` the
    variance that raters' differing gives its costly mark (0 where nothing is known). `case` numbers the case: what was
    sampled together or belongs together.
    """

    weight: Array
    cheap: Array
    costly: Array
    probability: Array
    noise: Array
    case: Labels

    @property
    def sampled(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.costly)


@dataclass(frozen=True)
class Linear:
    """A number, and what each case adds to its error: `sampled` by having been sampled, `covered` by being one of the
    cases at all. `noise` is the variance that raters' differing adds."""

    value: float
    slope: float
    sampled: Array
    covered: Array
    noise: Array
    n: int
    """Cases with a costly mark."""
    fitted: int = 1
    """Numbers that were fitted to the sample: the mean, and the slope."""

    def __sub__(self, other: Linear) -> Linear:
        return Linear(
            self.value - other.value,
            np.nan,
            self.sampled - other.sampled,
            self.covered - other.covered,
            self.noise + other.noise,
            min(self.n, other.n),
            max(self.fitted, other.fitted),
        )


def corrected_mean(marks: SampledMarks, n_cases: int, *, tuned: bool = True) -> Linear | None:
    """The mean of the costly mark over all outputs, with the slope that makes it most precise; without `tuned` of the
    costly marks alone. None with fewer than `FEWEST` sampled cases.

    Residuals are divided by the root of one less their leverage, which keeps the error unbiased where the slope is
    known from a few marks only.
    """
    there = marks.sampled
    cases = len(np.unique(marks.case[there]))
    if cases < FEWEST:
        return None
    weight = marks.weight / marks.weight.sum()
    share = weight[there] / marks.probability[there]
    share /= share.sum()
    y, f = marks.costly[there], marks.cheap[there]
    apart = f - share @ f
    spread = float(np.sum(share**2 * apart**2))
    fits = tuned and spread > _NO_SPREAD * max(float(np.sum(share**2 * f**2)), 1e-300)
    slope = float(np.sum(share**2 * apart * (y - share @ y))) / spread if fits else 0.0
    residual = y - slope * f
    mean = float(share @ residual)
    leverage = share + (share**2 * apart**2 / spread if fits else 0.0)
    error = share * (residual - mean) / np.sqrt(1 - np.minimum(leverage, _MOST_LEVERAGE))

    def by_case(values: Array, where: Labels) -> Array:
        return np.bincount(where, weights=values, minlength=n_cases).astype(np.float64)

    everywhere = float(weight @ marks.cheap)
    return Linear(
        value=slope * everywhere + mean,
        slope=slope,
        sampled=by_case(error, marks.case[there]),
        covered=by_case(slope * weight * (marks.cheap - everywhere), marks.case),
        noise=by_case(share**2 * marks.noise[there] * marks.probability[there], marks.case[there]),
        n=cases,
        fitted=2 if fits else 1,
    )


def cheap_mean(marks: SampledMarks, n_cases: int) -> Linear:
    """The mean of the cheap mark over all outputs, as it is."""
    weight = marks.weight / marks.weight.sum()
    value = float(weight @ marks.cheap)
    covered = np.bincount(marks.case, weights=weight * (marks.cheap - value), minlength=n_cases).astype(np.float64)
    nothing = np.zeros(n_cases)
    return Linear(value, 1.0, nothing, covered, nothing, len(np.unique(marks.case)))


def error_of(found: Linear, design: Design, probability: Array, strata: Labels, *, these_cases: bool) -> Contrast:
    """The number with its standard error and skew, for `Contrast.interval`.

    `design` says which cases belong together, `probability` and `strata` how cases were sampled. With `these_cases` the
    number is about these cases alone: what was sampled in full has no error but the raters' noise. Else it is about
    cases of their kind, by cluster: the variance of the mean over all cases, and that of the sampling on top, which
    together are the squares of the clusters' sums less what sampling by strata has saved.
    """
    there = np.flatnonzero(found.sampled)
    z, missed = found.sampled[there], 1 - probability[there]
    as_drawn = _by_stratum(z, missed, strata[there])
    alone = Design.of([str(case) for case in there.tolist()], [""] * len(there))
    if these_cases:
        variance = as_drawn + float(found.noise.sum())
        _, skew = error_and_skew(z, alone) if len(z) > 2 else (0.0, 0.0)
        clusters = len(there)
    else:
        error, skew = _as_of_their_kind(found, design)
        variance = max(error**2 + as_drawn - float(np.sum(missed * z**2)), as_drawn)
        clusters = len(np.unique(design.cluster[there])) if len(there) else design.n_clusters
    drawn_strata = len(np.unique(strata[there])) if len(there) else 1
    df = clusters - found.fitted - (drawn_strata - 1)
    if not len(there):
        df = design.degrees_of_freedom(np.ones(len(design.cluster), dtype=np.bool_))
    return Contrast(found.value, max(variance, 0.0) ** 0.5, skew, clusters, max(df, 1))


def _by_stratum(z: Array, missed: Array, strata: Labels) -> float:
    """The variance by the sampling of cases, by stratum of the sample; strata of one case are not centred."""
    total = 0.0
    for stratum in np.unique(strata).tolist():
        mine = strata == stratum
        n = int(mine.sum())
        several = len(np.unique(strata)) > 1 and n > 1
        apart = z[mine] - (z[mine].mean() if several else 0.0)
        total += float(np.sum(missed[mine] * apart**2)) * (n / (n - 1) if several else 1.0)
    return total


def _as_of_their_kind(found: Linear, design: Design) -> tuple[float, float]:
    """Error and skew of a number about cases of this kind.

    What the cases add by being covered is centred in each of the benchmark's strata, and enlarged for that. What they
    add by having been sampled is not: the sample was drawn across those strata, and sums to zero over all of them only.
    """
    covered = _centred(design.weights_of(found.covered), design)
    if not found.sampled.any():
        return error_and_skew(covered, design)
    n, n_all = np.bincount(design.stratum)[design.stratum], design.n_clusters
    lost = (n / np.maximum(n - 1, 1)) * ((n_all - 1) / n_all)
    across = Design(design.cluster, np.zeros_like(design.stratum))
    return error_and_skew(design.weights_of(found.sampled) + np.sqrt(lost) * covered, across)


def _centred(clusters: Array, design: Design) -> Array:
    n = np.bincount(design.stratum)
    return clusters - (np.bincount(design.stratum, weights=clusters) / n)[design.stratum]


def marks_alike(error: float, alone: float, n: int, n_all: int, *, these_cases: bool) -> float:
    """How many costly marks alone would have had this error, where `n` of them have the error `alone`."""
    if error <= 0 or alone <= 0:
        return float(n)
    if not these_cases or n >= n_all:
        return n * (alone / error) ** 2
    # Of n of n_all the variance is s^2 (1/n - 1/n_all).
    return 1 / ((error / alone) ** 2 * (1 / n - 1 / n_all) + 1 / n_all)


def pooled_variance(groups: Sequence[Sequence[float]]) -> float:
    """The variance within groups, from those with two values or more; 0 where there is none."""
    squares = sum(float(np.var(group)) * len(group) for group in groups if len(group) > 1)
    df = sum(len(group) - 1 for group in groups)
    return squares / df if df else 0.0
