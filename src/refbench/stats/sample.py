"""The mean over all cases from a part of them: stratified, adjusted by regression on what is known of every case, with
the error that is due to the cases that were not looked at.

The target is the number that all cases would give, so the error vanishes when all are there. The same estimator with
another's marks of all cases as what is known is that of prediction-powered inference with a tuned weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array, Interval, bounded_interval, student_interval

Bools = NDArray[np.bool_]
Labels = NDArray[np.intp]

_LEAST = 2
"""Sampled cases of a cell below which it has no spread of its own, and is joined to another."""
_FREE = 8
"""Degrees of freedom below which no slope is fitted: it would follow the noise."""
_NOTHING = 1e-12


@dataclass(frozen=True)
class Sample:
    """Which cases were drawn, at random within each stratum. Being drawn is not having a value: it may have failed."""

    stratum: Labels
    drawn: Bools
    _cells: dict[bytes, Labels] = field(default_factory=dict, repr=False, compare=False)

    def cells(self, members: Bools) -> Labels:
        """The strata within a part of the cases, -1 outside it. Those of which fewer than two were drawn are joined,
        and with the smallest other one if they are still too few."""
        key = members.tobytes()  # asked for again and again
        if key not in self._cells:
            self._cells[key] = self._joined(members)
        return self._cells[key]

    def _joined(self, members: Bools) -> Labels:
        cells = np.where(members, self.stratum, -1)
        n = np.bincount(cells[members & self.drawn], minlength=int(self.stratum.max()) + 1)
        there = np.unique(cells[members])
        few = [cell for cell in there if n[cell] < _LEAST]
        if few and sum(n[few]) < _LEAST and len(few) < len(there):
            few.append(min((cell for cell in there if cell not in few), key=lambda cell: int(n[cell])))
        cells[np.isin(cells, few) & members] = few[0] if few else -1
        return cells


@dataclass(frozen=True)
class Residuals:
    """What is left of each drawn case when the regression has said what it can, and how much of it there was."""

    value: float
    left: Array
    """Per case: its contribution to the error of the mean, as a mean over `members`; 0 where not drawn."""
    plain: Array
    """The same without what is known of every case, by which the spread between cases is told."""


def slope(values: Array, known: Array, sample: Sample, members: Bools) -> Array:
    """The pooled slope within strata of what was drawn on what is known of every case (cases x covariates).

    A case that failed counts as average (0 in `values`, which are centred): so is it treated by the mean.
    """
    nothing = np.zeros(known.shape[1])
    inside = members & sample.drawn
    cells = sample.cells(members)[inside]
    labels, place = np.unique(cells, return_inverse=True)
    if len(place) - len(labels) < _FREE + known.shape[1] or not known.shape[1]:
        return nothing
    n = np.bincount(place)
    x = known[inside] - np.stack([np.bincount(place, column) / n for column in known[inside].T], axis=1)[place]
    y = values[inside] - (np.bincount(place, values[inside]) / n)[place]
    spread = np.linalg.norm(x, axis=0)
    use = spread > _NOTHING * np.sqrt(len(place))
    found = nothing
    found[use] = np.linalg.lstsq(x[:, use], y, rcond=None)[0]
    return found


def regression_mean(
    values: Array, known: Array, sample: Sample, members: Bools, slopes: Array, gaps: Bools | None = None
) -> Residuals | None:
    """The mean of the values over those members that have one, all of them looked at or not. None where none was drawn.

    `gaps` are cases of which nothing was known and something was filled in.

    `values` are NaN where a case was not drawn or failed. A failed case lowers the number of those the mean is over by
    its stratum's share, and is not taken to be like the others: with all cases drawn this is their plain mean.
    """
    cells, inside = sample.cells(members), members & sample.drawn
    there = inside & ~np.isnan(values)
    if not there.any():
        return None
    size = np.bincount(cells[members])
    n = np.bincount(cells[inside], minlength=len(size))
    share = size / size.sum()
    weight = np.where(inside, (share / np.maximum(n, 1))[cells], 0.0)
    response = float(weight[there].sum())
    ours = known @ slopes if known.shape[1] else np.zeros(len(values))
    centre = np.bincount(cells[members], ours[members], minlength=len(size)) / np.maximum(size, 1)
    beyond = np.where(inside, ours - centre[cells], 0.0)
    filled = np.where(there, values, 0.0)
    value = (float(weight @ filled) - float(weight @ beyond)) / response
    plain = np.where(there, values - value, 0.0) / response
    reach = _reach(n, size, size if gaps is None else np.bincount(cells[members & ~gaps], minlength=len(size)))
    return Residuals(value, np.where(inside, plain - reach[cells] * beyond / response, 0.0), plain)


def _reach(drawn: Labels, size: Labels, known: Labels) -> Array:
    """How much of the regression counts towards the error, by cell: all of it where something is known of every case,
    nothing where that is so of the drawn alone, which are then no surer for it.

    Of n drawn among K that are known of N the variance is that of sampling twice, (1/n - 1/K) of what is left plus
    (1/K - 1/N) of all. A run that stopped early is known of the very cases that others draw first.
    """
    n, all_known = np.maximum(drawn, 1), np.clip(known, np.maximum(drawn, 1), np.maximum(size, 1))
    open_ = 1 / n - 1 / np.maximum(size, n)
    told = np.where(open_ > 0, (1 / n - 1 / all_known) / np.where(open_ > 0, open_, 1.0), 1.0)
    reach: Array = 1 - np.sqrt(np.maximum(1 - told, 0.0))
    return reach


@dataclass(frozen=True)
class Shares:
    """Drawn cases with what each contributes to one number: the error of one independent draw."""

    sample: Sample
    members: Bools
    weight: Array
    """How much each case weighs in the number, all looked at; alike within a stratum of the sample."""
    left: Array
    """Per case, times its weight; the sum over all cases would be the number's error."""
    plain: Array
    cluster: Labels
    slopes: int = 0
    """How many slopes were fitted."""

    @cached_property
    def _cells(self) -> tuple[Labels, Array, Array, Array]:
        """The cell of each drawn case, and of each cell the cases it has, those drawn, and their weight."""
        labels, place = np.unique(self.sample.stratum[self.members], return_inverse=True)
        size = np.bincount(place).astype(np.float64)
        weight = np.bincount(place, self.weight[self.members]) / size
        inside = self.members & self.sample.drawn
        drawn = np.searchsorted(labels, self.sample.stratum[inside]).astype(np.intp)
        return drawn, size, np.bincount(drawn, minlength=len(size)).astype(np.float64), weight

    def _spread(self, values: Array) -> Array:
        """The variance of the drawn within each cell. A cell of a single drawn case (which may be the only one of its
        mean, and then is as far from it as from itself) has that of the others, case for case."""
        drawn, _, n, weight = self._cells
        mine = values[self.members & self.sample.drawn]
        mean = np.bincount(drawn, mine, minlength=len(n)) / np.maximum(n, 1)
        squares = np.bincount(drawn, (mine - mean[drawn]) ** 2, minlength=len(n))
        several, heavy = n > 1, np.maximum(weight, 1e-300)
        free = float((n - 1)[several].sum())
        if free:
            pooled = float((squares / heavy**2)[several].sum()) / free
        else:
            pooled = float(np.var(mine / heavy[drawn], ddof=1)) if len(mine) > 1 else 0.0
        spread: Array = np.where(several, squares / np.maximum(n - 1, 1), pooled * weight**2)
        return spread

    def of_sampling(self) -> tuple[Array, Array]:
        """The squared errors, due to the cases that were not drawn, of parts that are known apart, with their degrees
        of freedom: cells with several drawn cases each by itself, the others together."""
        _, size, n, _ = self._cells
        several = n > 1
        free = float(n.sum()) - len(n)
        raised = free / (free - self.slopes) if free > self.slopes else 1.0
        error = size**2 * np.maximum(1 - n / size, 0) * self._spread(self.left) / np.maximum(n, 1) * raised
        errors = np.append(error[several], error[~several].sum())
        return errors, np.append((n - 1)[several], self.free)

    @property
    def free(self) -> float:
        """Drawn cases less cells, over the cells with several drawn cases."""
        _, _, n, _ = self._cells
        return max(float((n - 1)[n > 1].sum()) or float(n.sum()) - 1, 1.0)

    def unadjusted(self) -> float:
        """The variance between cases within strata, as that of the number's parts: N times the sum of squares."""
        _, size, _, _ = self._cells
        return float(size.sum() * (size * self._spread(self.plain)).sum())

    def unmet(self) -> float:
        """The squared error if one more drawn case were off by a standard deviation."""
        inside, n = int(self.members.sum()), int((self.members & self.sample.drawn).sum())
        return self.unadjusted() * (1 - n / inside) / (n + 1) ** 2

    @property
    def in_one(self) -> tuple[float, float]:
        """The weight of all cases in the number, and how much of it one more drawn case would stand for; less the more
        of them were drawn, and nothing with all."""
        _, size, n, weight = self._cells
        whole = float((size * weight).sum())
        # Of cells that weigh more than they were drawn, a case stands for more: as many equal ones tell as much (Kish).
        squares = float(((size * weight) ** 2 / np.maximum(n, 1)).sum())
        equal = whole**2 / squares if squares else 0.0
        return whole, whole / (equal + 1) * float(1 - n.sum() / size.sum()) ** 0.5

    def of_cases(self) -> float:
        """The squared error that the number has with all cases, as one about other cases like these: estimated from the
        drawn, without bias, with the cases of a cluster together."""
        drawn, size, n, _ = self._cells
        inside = self.members & self.sample.drawn
        mean = np.bincount(drawn, self.plain[inside], minlength=len(n)) / np.maximum(n, 1)
        ours = self.plain[inside] - mean[drawn]
        chance = (n / size)[drawn]
        alone = float((size * self._spread(self.plain)).sum())
        if len(np.unique(self.cluster[inside])) == len(ours):
            return alone
        sums = np.bincount(self.cluster[inside], ours / chance)
        pairs = float((sums**2).sum() - (ours**2 / chance**2).sum())
        return max(alone, alone + pairs)


@dataclass(frozen=True)
class SampledNumber:
    """A number from a part of its cases. `error` is that of what was not looked at, `case_error` the one that it would
    have with all of them, about other cases like these."""

    value: float
    error: float
    df: int
    case_error: float
    effective: float
    """How many cases drawn at random, without strata and regression, would have told as much."""
    n: int
    """Cases drawn, in the draw that has the fewest."""
    unseen: float = 0.0
    """The share of the number that one more drawn case would stand for."""

    def interval(self, ends: tuple[float, float] | None = None) -> Interval:
        """Where the number of all cases lies, with 95 %; `ends` are those of its scale. None where the drawn are all
        alike, and so say nothing about the others."""
        return self._within(*self._guarded(ends), ends)

    def about_others(self, ends: tuple[float, float] | None = None) -> Interval:
        """Where the number of all such cases lies, those of the benchmark being a sample of them: what the interval of
        an ordinary table says."""
        error, df = self._guarded(ends)
        return self._within(float(np.hypot(error, self.case_error)), df, ends)

    def _guarded(self, ends: tuple[float, float] | None) -> tuple[float, int]:
        """The error, with what it would be if one more drawn case were at the farther end of the scale: the spread of a
        sample that rare failures are not in says nothing about them, and is narrow just then. With its degrees of
        freedom: those of the error are not those of what is added, which is not estimated."""
        if ends is None or self.error == 0:
            return self.error, self.df
        far = max(self.value - ends[0], ends[1] - self.value)
        error = float(np.hypot(self.error, far * self.unseen))
        return error, int(min(self.df * (error / self.error) ** 4, 1e6) + 1e-9)

    def _within(self, error: float, df: int, ends: tuple[float, float] | None) -> Interval:
        if ends is None:
            return student_interval(self.value, error, df) if error > 0 else None
        return bounded_interval(self.value, error, self.n, df, *ends)


def sampled_number(value: float, draws: Sequence[Shares], n_cases: int) -> SampledNumber:
    """Puts together the error of a number from those of its independent draws.

    How the same case's contributions go together in different draws is hardly ever seen: for `case_error` they are
    taken to go together fully, which makes it rather too large.
    """
    cells = [share.of_sampling() for share in draws]
    squares = np.concatenate([error for error, _ in cells]) if cells else np.zeros(0)
    free = np.concatenate([df for _, df in cells]) if cells else np.ones(0)
    total = float(squares.sum())
    spread = sum(share.unadjusted() for share in draws)
    # Few drawn that the regression meets exactly do not say that it always does: one more might be as far off as cases
    # are from each other.
    least = sum(share.unmet() for share in draws)
    n = min((int((share.members & share.sample.drawn).sum()) for share in draws), default=0)
    nothing = _NOTHING**2 * (value**2 + spread)
    if total > nothing:
        df = int(total**2 / float((squares**2 / free).sum()) + 1e-9)
        effective = 1 / (total / spread + 1 / n_cases) if spread > 0 else 0.0
    else:
        # What rounding left has no cells that tell more than others.
        total, df = 0.0, int(sum(share.free for share in draws))
        effective = float(n_cases if spread > nothing else n)
    whole, one = np.array([share.in_one for share in draws]).reshape(-1, 2).T
    return SampledNumber(
        value=value,
        error=max(total, least if least > nothing else 0.0) ** 0.5,
        df=max(1, df),
        case_error=sum(share.of_cases() ** 0.5 for share in draws),
        effective=min(effective, float(n_cases)),
        n=n,
        unseen=float(np.sqrt((one**2).sum()) / whole.sum()) if whole.any() else 0.0,
    )


def residual_spread(references: Array, stratum: Labels) -> float:
    """How much of a model's scores other models' do not tell: the mean SD within strata left of each reference model
    (models x cases) by regression on the mean of the others; of a single one its own SD."""
    place = np.unique(stratum, return_inverse=True)[1]
    n = np.bincount(place)

    def within(values: Array) -> Array:
        centred: Array = values - (np.bincount(place, values) / n)[place]
        return centred

    left = []
    for number, mine in enumerate(references):
        y = within(mine)
        if len(references) > 1:
            x = within(np.delete(references, number, axis=0).mean(axis=0))
            square = float(x @ x)
            y = y - x * (float(x @ y) / square) if square > _NOTHING else y
        left.append(float(np.sqrt(y @ y / max(len(y) - len(n), 1))))
    return float(np.mean(left))
