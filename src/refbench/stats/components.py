"""Variance components of marks over case, judge, seed and repeat, by moments, balanced or not.

Half the mean squared difference of two marks is the sum of the components in which they may differ. Six kinds of
pairs (same case, seed and judge; same case and seed; ...) give six equations, whose solution is the ANOVA estimate
where the design is balanced, and which stay unbiased where marks are missing at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.stats.interval import Array

Labels = NDArray[np.intp]

SOURCES = ("case", "judge", "case_by_judge", "seed", "seed_by_judge", "repeat")
"""`seed` is within its case: the same seed paints unrelated pictures of two cases. `seed_by_judge` is judges' differing
about single pictures, beyond what they differ about the case."""


@dataclass(frozen=True)
class Components:
    """Variances by source. What the design cannot tell apart is counted under `merged`: {"seed": "case"} says that
    the variance of seeds is within that of cases. `negative` keeps estimates below zero, which are given as 0."""

    variance: Mapping[str, float]
    merged: Mapping[str, str]
    negative: Mapping[str, float]
    n: int

    @property
    def total(self) -> float:
        return sum(self.variance.values())

    def of_case_mean(self, seeds: float, judges: int, repeats: float) -> float:
        """Variance of a case's mean mark by a given panel: what the variance of a model's number goes with, for as
        many cases. The judges' own levels are not in it: they are the same for all cases."""
        v = dict.fromkeys(SOURCES, 0.0) | dict(self.variance)
        by_judge = v["case_by_judge"] + (v["seed_by_judge"] + v["repeat"] / repeats) / seeds
        return v["case"] + v["seed"] / seeds + by_judge / judges


def variance_components(
    marks: Array, case: Labels, judge: Labels, seed: Labels, stratum: Labels | None = None
) -> Components | None:
    """Components from one mark for each repeat, with the numbers of its case, judge and seed.

    With strata, cases are compared within theirs: differences that the design fixes are not error. None where there
    are not two cases in any stratum.
    """
    strata = np.zeros_like(case) if stratum is None else stratum
    pairs = _Pairs(marks)
    cell = pairs.within(case, seed, judge)
    picture, by_judge, one_case = pairs.within(case, seed), pairs.within(case, judge), pairs.within(case)
    level, everything = pairs.within(strata, judge), pairs.within(strata)
    halves = {
        "again": _half(cell),
        "other judge": _half(picture - cell),
        "other seed": _half(by_judge - cell),
        "other both": _half(one_case - picture - by_judge + cell),
        "other case": _half(level - by_judge),
        "other case and judge": _half(everything - one_case - level + by_judge),
    }
    if halves["other case"] is None:
        return None
    variance, merged = _solved(halves)
    negative = {name: value for name, value in variance.items() if value < 0}
    return Components({name: max(value, 0.0) for name, value in variance.items()}, merged, negative, len(marks))


def _solved(h: Mapping[str, float | None]) -> tuple[dict[str, float], dict[str, str]]:
    """The components, and for those that no pair of marks shows, the one they are counted in."""
    again, judge, seed, both = h["again"], h["other judge"], h["other seed"], h["other both"]
    case, all_other = h["other case"], h["other case and judge"]
    assert case is not None
    variance: dict[str, float] = {}
    merged: dict[str, str] = {}
    if judge is None or all_other is None:  # one judge: what is its own cannot be seen
        merged = {"judge": "none", "case_by_judge": "case", "seed_by_judge": "seed" if seed is not None else "case"}
        if seed is None:
            variance["case"] = case - (again or 0.0)
            merged["seed"] = "case"
        else:
            variance["case"] = case - seed
            variance["seed"] = seed - (again or 0.0)
    else:
        variance["judge"] = all_other - case
        if seed is None or both is None:
            variance["case"] = all_other - judge
            variance["case_by_judge"] = case - variance["case"] - (again or 0.0)
            merged = {"seed": "case", "seed_by_judge": "case_by_judge"}
        else:
            variance["case"] = all_other - both
            variance["seed"] = both - judge
            variance["case_by_judge"] = both - seed - variance["judge"]
            variance["seed_by_judge"] = judge + seed - both - (again or 0.0)
    if again is None:
        last = (
            "seed_by_judge" if "seed_by_judge" in variance else "case_by_judge" if "case_by_judge" in variance else None
        )
        merged["repeat"] = last or ("seed" if "seed" in variance else "case")
    else:
        variance["repeat"] = again
    return variance, merged


class _Pairs:
    """Sums over all pairs of marks with equal labels: number of pairs, and squared differences."""

    def __init__(self, marks: Array) -> None:
        # About zero, so that squares do not drown the differences of marks such as 98.1 and 98.2.
        self._marks = marks - marks.mean()

    def within(self, *labels: Labels) -> Array:
        key = labels[0]
        for label in labels[1:]:
            key = key * (int(label.max()) + 1) + label
        group = np.unique(key, return_inverse=True)[1]
        n = np.bincount(group).astype(np.float64)
        total, squares = (np.bincount(group, weights=w) for w in (self._marks, self._marks**2))
        return np.array([np.sum(n * (n - 1)) / 2, np.sum(n * squares - total**2)])


def _half(pairs: Array) -> float | None:
    """Half the mean squared difference; None where there is no such pair."""
    count, squares = pairs
    return float(squares / count / 2) if count > 0.5 else None
