"""What a comparison gives: pairs of systems, the slices behind each gap, and the sentence that may be pasted."""

from __future__ import annotations

from collections.abc import Mapping

from refbench.failure import Failure
from refbench.record import Record


class Driver(Record):
    """One slice of the cases and its part in a gap.

    `contribution` is what the second system would gain overall if it did on this slice as the first does; over the
    slices of a level that share out the cases, contributions add up to the gap. Intervals are of single slices, not
    corrected for their number: they describe a gap, they do not test it.
    """

    slice: Mapping[str, str]
    n_cases: int
    gap: float | None
    """Within the slice, in the benchmark's own aggregate."""
    gap_ci95: tuple[float, float] | None
    contribution: float
    ci95: tuple[float, float] | None
    share: float | None
    """Of the overall gap; None where that gap is not resolved, since a share of noise means nothing."""


class Pair(Record):
    """The first system less the second, over the cases that both have scores for.

    `ci95` is for this pair alone, `p_adjusted` for the whole family of pairs. `failure` says why there is no gap.
    """

    first: str
    second: str
    judge: str | None
    second_judge: str | None
    """The same as `judge`, but where the two sides were judged by different ones."""
    values: tuple[float, float] | None = None
    """Both systems on the shared cases."""
    gap: float | None = None
    ci95: tuple[float, float] | None = None
    p: float | None = None
    p_adjusted: float | None = None
    resolved: bool = False
    """Whether the corrected test finds a difference and the interval leaves out zero."""
    effect: float | None = None
    """Mean difference of the cases over the standard deviation of the clusters' mean differences."""
    detectable: float | None = None
    """The true difference that this many cases show four times in five, in this family."""
    n_cases: int = 0
    n_clusters: int = 0
    wins: int = 0
    ties: int = 0
    losses: int = 0
    """Cases in which the first is above, level and below; cases without a value of their own are in none."""
    left_out: Mapping[str, int] = {}
    """Cases that take no part, by whose they are and why; each counts once."""
    seeds: tuple[int, int] | None = None
    failure: Failure | None = None
    sentence: str = ""
    drivers: tuple[Driver, ...] = ()
    """Every slice of the table, the largest contribution first."""

    @property
    def leading(self) -> tuple[Driver, ...]:
        """The slice of each level that contributes most, if any does; one of more than half of the cases says little
        and is not named."""
        found: dict[str, Driver] = {}
        for driver in self.drivers:
            if driver.contribution and 2 * driver.n_cases <= self.n_cases:
                found.setdefault(driver.slice["level"], driver)
        return tuple(found.values())


class Comparison(Record):
    """Pairs of systems in one measure under one protocol. `family` is how many pairs the correction is over."""

    benchmark: str
    title: str
    protocol: str
    metric: str
    lower_is_better: bool = False
    digits: int
    draws: int
    permutations: int
    seed: int
    family: int
    pairs: tuple[Pair, ...]
    differences: tuple[str, ...] = ()
    """What is not the same on the two sides, and so may be behind a gap."""
    notes: tuple[str, ...] = ()
