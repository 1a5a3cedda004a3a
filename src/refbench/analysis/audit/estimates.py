"""A number of an audit with the influence of each case on it: what its interval, its p and the cases that it still
needs come from.

Means over cases are linear, and correlations and ratios are linearised, so no resampling is needed: the influences are
those that BCa would take its acceleration from. Shares have Wilson's interval, other numbers Student's with Hall's
correction for skew: with 48 cases both hold their level where BCa and Korn and Graubard's do not (docs/audit.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import atanh, ceil, sqrt, tanh
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.audit.records import Figure
from refbench.stats import Array, Contrast, Design, error_and_skew, leave_one_out, mean_of_those_there
from refbench.stats.correlation import Statistic
from refbench.stats.interval import score_interval, score_p
from refbench.stats.quantiles import normal_quantile, t_quantile

Cases: TypeAlias = NDArray[np.intp]
Scale: TypeAlias = Literal["share", "free", "correlation"]
POWER = 0.8
_MOST_FURTHER = 5000
"""Further cases above which none is named."""
_NOTHING = 1e-12


@dataclass(frozen=True)
class Estimate:
    """A number, each case's influence on it (its mean over cases less the mean without the case, about), and how many
    cases there are behind it. `scale` says which interval it has."""

    value: float
    influence: Array
    """By case of the audit; 0 for cases that have no part in it."""
    n: int
    scale: Scale = "free"

    @classmethod
    def nothing(cls, cases: Cases) -> Estimate:
        return cls(float("nan"), np.zeros(int(cases.max(initial=-1)) + 1), 0)

    @property
    def there(self) -> bool:
        return self.n > 1 and bool(np.isfinite(self.value))

    @cached_property
    def contrast(self) -> Contrast:
        """On the scale on which it is nearly normal: of correlations Fisher's z."""
        value, influence = self.value, self.influence
        if self.scale == "correlation":
            near = max(-0.999, min(0.999, value))
            value, influence = atanh(near), influence / (1 - near**2)
        parts = influence[np.abs(influence) > 0]
        # Cases that have no part have no influence; those with a part but none count as well.
        parts = np.concatenate([parts, np.zeros(max(0, self.n - len(parts)))])
        error, skew = error_and_skew(parts, _alone(len(parts)))
        return Contrast(value, error, skew, self.n, max(self.n - 1, 1))

    @property
    def error(self) -> float:
        return self.contrast.error

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """None where nothing varies, except of shares."""
        if not self.there:
            return None
        if self.scale == "share":
            return score_interval(self.value, self.error, self.n, self.n - 1, level)
        found = self.contrast.interval(level)
        if found is None or self.scale != "correlation":
            return found
        return tanh(found[0]), tanh(found[1])

    def p_against(self, at: float) -> float:
        """Two-sided p against a value; 1 where the number is not there, 0 where nothing varies and it is another."""
        if not self.there:
            return 1.0
        if self.scale == "share":
            return score_p(self.value, self.error, self.n, self.n - 1, at)
        if self.scale == "correlation":
            at = atanh(at)
        one = self.contrast
        moved = Contrast(one.value - at, one.error, one.skew, one.n, one.df)
        if moved.p is None:
            return 1.0 if abs(moved.value) < _NOTHING else 0.5**self.n
        return moved.p

    def p_within(self, margin: float) -> float:
        """The larger p of two one-sided tests that the number lies within the margin; 0 where no case moved at all."""
        if not self.there:
            return 1.0
        if self.error < _NOTHING:
            return 0.0 if abs(self.value) < margin else 1.0
        found = self.contrast.p_within(margin)
        return 1.0 if found is None else found

    def further_cases(self, distance: float, level: float, *, one_sided: bool = False) -> int | None:
        """How many more cases would decide it four times in five, if the number stays as far from its limit as it is
        now; None where that is more than 5,000. A share has the error of the limit in its test, not its own."""
        if not self.there or distance <= 0:
            return None
        at_limit = self.error
        if self.scale == "share" and _NOTHING < self.value < 1 - _NOTHING:
            limit = self.value - distance if self.value > 0.5 else self.value + distance
            at_limit *= sqrt(limit * (1 - limit) / (self.value * (1 - self.value)))
        reach = t_quantile(1 - level / (1 if one_sided else 2), self.n - 1) * at_limit
        needed = self.n * ((reach + normal_quantile(POWER) * self.error) / distance) ** 2
        return max(1, ceil(needed) - self.n) if needed - self.n < _MOST_FURTHER else None

    def figure(self) -> Figure:
        if not self.there:
            return Figure(n=self.n, why="no marks" if not self.n else "undefined")
        return Figure(value=self.value, ci95=self.interval(), n=self.n)


def _alone(n: int) -> Design:
    return Design(np.arange(n, dtype=np.intp), np.zeros(n, dtype=np.intp))


def mean_over_cases(values: Array, cases: Cases, scale: Scale = "free") -> Estimate:
    """The mean of one value for each output, NaN where there is none; outputs of one case hang together."""
    there = np.isfinite(values)
    if not there.any():
        return Estimate.nothing(cases)
    mean = float(values[there].mean())
    parts = np.where(there, values - mean, 0.0) / there.sum()
    size = int(cases.max()) + 1
    influence = np.bincount(cases, parts, size).astype(np.float64)
    return Estimate(mean, influence, len(np.unique(cases[there])), scale)


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of several numbers of the same cases, each weighing the same."""
    value = float(np.mean([one.value for one in estimates]))
    influence = np.mean([one.influence for one in estimates], axis=0)
    return Estimate(value, influence, min(one.n for one in estimates), estimates[0].scale)


def ratio_off_one(part: Estimate, whole: Estimate) -> Estimate:
    """1 - part / whole, linearised."""
    ratio = part.value / whole.value
    influence = -(part.influence - ratio * whole.influence) / whole.value
    return Estimate(1 - ratio, influence, min(part.n, whole.n))


def root_of(squares: Estimate) -> Estimate:
    """The square root of a mean of squares, linearised."""
    root = sqrt(max(squares.value, 0.0))
    return Estimate(root, squares.influence / (2 * root) if root else squares.influence * 0, squares.n)


def correlation(statistic: Statistic, x: Array, y: Array, cases: Cases) -> Estimate:
    """A rank correlation over outputs, with the influence of leaving each case out."""
    there = np.isfinite(x) & np.isfinite(y)
    kept, place = np.unique(cases[there], return_inverse=True)
    if len(kept) < 4:
        return Estimate.nothing(cases)
    design = Design(place.astype(np.intp), np.zeros(len(kept), dtype=np.intp))
    point = float(statistic(x[there], y[there], np.ones((1, int(there.sum()))))[0])
    left = np.concatenate([statistic(x[there], y[there], weights) for _, weights in leave_one_out(design)])
    influence = np.zeros(int(cases.max()) + 1)
    influence[kept] = np.nan_to_num((point - left) * (1 - 1 / len(kept)))
    return Estimate(point, influence, len(kept), "correlation")


def by_output(arrays: Sequence[Array]) -> Array:
    """The mean mark of each output over some variants and their repeats."""
    return mean_of_those_there(np.concatenate(arrays, axis=1), axis=1)
