"""What a comparison gives: pairs of systems, the slices behind each gap, and the sentence that may be pasted."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log10

from refbench.failure import Failure
from refbench.record import Record, counted
from refbench.stats.effect import LEVEL

ABSENT = "not among its cases"
OUT_OF_SCOPE = "not applicable"
NOT_ASKED = "not asked yet"
NO_FAILURE = tuple(f": {why}" for why in (ABSENT, OUT_OF_SCOPE, NOT_ASKED))
"""How the reasons end that are not failures."""


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
    p: float | None = None
    """For no gap within the slice, the larger of Student's and that of flips of its clusters. What failed has no bounds
    here."""
    p_adjusted: float | None = None
    """Holm over all slices of the level and all pairs of the family."""
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
    """None where no judge gave the measure."""
    second_judge: str | None
    """The same as `judge`, but where the two sides were judged by different ones."""
    supplementary: bool = False
    """A single judge's pair where the benchmark's number is the mean of the judges: of a family of its own."""
    family: int = 0
    """How many tests `p_adjusted` is over: pairs, times measures where it is over those too."""
    measures: int = 1
    """How many measures `p_adjusted` is over."""
    values: tuple[float, float] | None = None
    """Both systems on the shared cases."""
    gap: float | None = None
    ci95: tuple[float, float] | None = None
    ci95_family: tuple[float, float] | None = None
    """As much wider as it takes that those of all pairs of the family hold together (Bonferroni)."""
    p: float | None = None
    """The larger of `p_flips` and that of Student's t with and without correction for skew."""
    p_flips: float | None = None
    """Of swapping the two systems' scores in whole clusters."""
    p_adjusted: float | None = None
    p_is_bound: bool = False
    """No flip that was drawn reaches the gap: p is below what is given."""
    margin: float | None = None
    """A difference up to which models count as equal, where one was given."""
    p_equal: float | None = None
    """The larger of two one-sided tests that the gap is within the margin, corrected like `p_adjusted`."""
    equal: bool = False
    """Whether the gap was found to be within the margin, whatever the failures would have scored."""
    resolved: bool = False
    """Whether the corrected test finds a difference, the interval leaves out zero, and whatever the failures would
    have scored does not bring zero back."""
    hopeless: str | None = None
    """Why no data on these clusters could be resolved, where that is so."""
    effect: float | None = None
    """The gap over the standard deviation of what single clusters contribute to it."""
    detectable: float | None = None
    """The true difference that this many cases show at least four times in five, in this family, whatever the failed
    ones had scored; None where it is not known or larger than the scale."""
    n_cases: int = 0
    n_clusters: int = 0
    symmetric: bool = False
    """Fewer clusters than it takes to correct for skew: differences are taken to be symmetric about their mean."""
    wins: int = 0
    ties: int = 0
    losses: int = 0
    """Cases in which the first is better, level and worse; cases without a value of their own are in none."""
    left_out: Mapping[str, int] = {}
    """Cases that take no part, by whose they are and why; each counts once."""
    lost: tuple[int, int] = (0, 0)
    """Pictures of cases that do take part, of the first and of the second, that failed beside other seeds."""
    bounds: tuple[float, float] | None = None
    """Between what the gap would lie with the failed cases, whatever they had scored; None where none has failed, or
    where the measure has no finite range."""
    bounds_ci95: tuple[float, float] | None = None
    """Imbens and Manski's interval for the gap that is known to lie between the bounds."""
    undone: bool = False
    """Whether what failed could undo the gap: the bounds or their interval hold zero, or a model's own failures have no
    bounds."""
    imputed: tuple[int, int] = (0, 0)
    """Failed pictures of the first and of the second that count by a value, as the protocol or `refusals` says."""
    seeds: tuple[int, int] | None = None
    failure: Failure | None = None
    sentence: str = ""
    drivers: tuple[Driver, ...] = ()
    """Every slice of the table, the largest contribution first."""

    @property
    def undone_by(self) -> str:
        """What could undo a gap that chance alone does not explain: what failed, or, where its bounds leave out zero
        and only their interval holds it, what failed and chance together; "" where nothing could."""
        if not self.undone:
            return ""
        alone = self.bounds is None or self.bounds[0] <= 0 <= self.bounds[1]
        return "what failed" if alone else "what failed and chance together"

    @property
    def only_failures(self) -> bool:
        """Whether nothing but what failed keeps the pair from being resolved."""
        tested = self.p_adjusted is not None and self.p_adjusted <= LEVEL and self.hopeless is None
        return tested and self.undone and not (self.ci95 is not None and self.ci95[0] <= 0 <= self.ci95[1])

    @property
    def n_failed(self) -> int:
        """Cases left out for a failure, and failed pictures of the others."""
        return sum(self.failed.values()) + sum(self.lost)

    @property
    def failed(self) -> dict[str, int]:
        """Of those left out, the ones that failed: not what was never asked, or is not among a side's cases."""
        return {why: n for why, n in self.left_out.items() if not why.endswith(NO_FAILURE)}

    @property
    def leading(self) -> tuple[Driver, ...]:
        """The slice of each level that contributes most, if any does; where it has more than half of the cases, that
        says little, and nothing of the level is named: the next one is not the largest."""
        by_level: dict[str, Driver] = {}
        for driver in self.drivers:
            if driver.contribution:
                by_level.setdefault(driver.slice["level"], driver)
        return tuple(driver for driver in by_level.values() if 2 * driver.n_cases <= self.n_cases)


class Comparison(Record):
    """Pairs of systems in one measure under one protocol. `family` is how many pairs the correction is over; single
    judges beside the mean of all are `supplementary`, with a family of their own."""

    benchmark: str
    title: str
    protocol: str
    metric: str
    lower_is_better: bool = False
    refusals: str = "conditional"
    """How a model's own failures count: left out with bounds beside, or as the worst value."""
    digits: int
    draws: int
    permutations: int
    seed: int
    family: int
    pairs: tuple[Pair, ...]
    differences: tuple[str, ...] = ()
    """What is not the same on the two sides, and so may be behind a gap."""
    notes: tuple[str, ...] = ()

    def better(self, gap: float) -> bool:
        """Whether a gap speaks for the first of its pair."""
        return (gap < 0) == self.lower_is_better

    def by_judge(self, judge: str | None) -> Comparison:
        """The pairs of one judge, and those of a measure that no judge gives; corrected as all pairs are."""
        return self.model_copy(update={"pairs": tuple(p for p in self.pairs if p.judge == judge or not p.judge)})


# The sentence of a pair that may be pasted into a paper: gap, interval, corrected p, n, seeds, judges, and what was
# left out.

REFUSALS = {
    "worst": "a model's own failures as the worst",
    "worst,unsupported": "a model's own failures and what it cannot take as the worst",
}


def sentence(
    pair: Pair, *, on: str, protocol: str, digits: int, lower: bool = False, refusals: str = "conditional"
) -> str:
    """What may be said about the pair on a measure. An unresolved gap is never called equality: it names what could be
    seen."""
    on = f"{on} (lower is better)" if lower else on
    if pair.gap is None or pair.p_adjusted is None:
        why = pair.failure.detail if pair.failure else "no value"
        return f"{pair.first} and {pair.second} cannot be compared on {on} ({protocol}): {why}."
    facts = _facts(pair, protocol, digits, refusals)
    if pair.equal and not pair.resolved:
        return (
            f"{pair.first} and {pair.second} are equal within {as_given(pair.margin or 0.0, digits)} on {on} ({facts})."
        )
    if pair.resolved:
        side = "above" if pair.gap > 0 else "below"
        if lower:
            side += f" ({'better' if pair.gap < 0 else 'worse'} than)"
        small = f", which is within {as_given(pair.margin or 0.0, digits)}" if pair.equal else ""
        return f"{pair.first} scores {amount(abs(pair.gap), digits)} {side} {pair.second}{small} on {on} ({facts})."
    neither = f" nor find them equal within {as_given(pair.margin, digits)}" if pair.margin is not None else ""
    who = f"{pair.first} and {pair.second}{neither}"
    claim = f"Cannot resolve {who} on {on}: the gap is {signed(pair.gap, digits)} ({facts})"
    if pair.hopeless:
        return f"{claim}; {pair.hopeless}."
    if pair.only_failures:
        return f"{claim}; on the cases both have it is more than chance explains, but {_doubt(pair, digits)}."
    if pair.detectable is None:
        return f"{claim}."
    return f"{claim}; a true difference of {_rough(pair.detectable)} would be found at least 4 times in 5 with this n."


def _doubt(pair: Pair, digits: int) -> str:
    """What keeps a gap from being resolved that chance does not explain. Bounds that leave out zero are undone only
    together with chance, and their interval says how far."""
    if pair.undone_by == "what failed":
        return "what failed could undo it"
    assert pair.bounds_ci95 is not None
    return f"with those that failed and chance together the gap could be {between(pair.bounds_ci95, digits)}"


def holds_zero(interval: tuple[float, float] | None) -> bool:
    return interval is not None and interval[0] <= 0 <= interval[1]


def _facts(pair: Pair, protocol: str, digits: int, refusals: str) -> str:
    interval = f"95 % CI {plain(pair.ci95[0], digits)} to {plain(pair.ci95[1], digits)}" if pair.ci95 else "no interval"
    if pair.ci95 is None and pair.n_clusters > 1:
        interval += ", as the differences do not vary"
    assert pair.p_adjusted is not None
    of = "pairs of single judges" if pair.supplementary else "pairs"
    # Not every pair has a value in every measure: what the correction is over are tests.
    of = f"tests in {pair.measures} measures" if pair.measures > 1 else of
    over = f", Holm over {pair.family} {of}" if pair.family > 1 else ""
    tested = probability(pair.p_adjusted, pair.p_is_bound) + over
    if pair.equal and pair.gap is not None and pair.p_equal is not None:
        tested = f"two one-sided tests, {probability(pair.p_equal)}{over}"
        tested = (
            tested if pair.resolved is False else f"{probability(pair.p_adjusted, pair.p_is_bound)}{over}; {tested}"
        )
        interval = f"gap {signed(pair.gap, digits)}, {interval}" if not pair.resolved else interval
    size = f"n = {counted(pair.n_cases, 'case')}"
    if pair.n_clusters != pair.n_cases:
        size += f" in {counted(pair.n_clusters, 'cluster')}"
    if pair.seeds is not None:
        a, b = pair.seeds
        size += f", {counted(a, 'seed')}" if a == b else f", {a} and {b} seeds"
    under = f"{protocol}, {REFUSALS[refusals]}" if refusals in REFUSALS else protocol
    facts = [under, interval, tested, f"{size}, {judged(pair)}"]
    if pair.symmetric:
        facts.append("few clusters: differences taken to be symmetric")
    if any(pair.imputed):
        how = "the worst value" if refusals in REFUSALS else "the protocol says"
        facts.append(
            f"{counted(sum(pair.imputed), 'failed picture')} counted as {how} ({_of_each(pair, pair.imputed)})"
        )
    return "; ".join([*facts, *left_out(pair, digits)])


def _of_each(pair: Pair, counts: tuple[int, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in zip((pair.first, pair.second), counts, strict=True) if n)


def left_out(pair: Pair, digits: int) -> list[str]:
    """What takes no part, and what it could have done to the gap."""
    parts = []
    if pair.left_out:
        reasons = ", ".join(f"{why} {n}" for why, n in pair.left_out.items())
        parts.append(f"{counted(sum(pair.left_out.values()), 'case')} left out ({reasons})")
    if any(pair.lost):
        parts.append(
            f"{counted(sum(pair.lost), 'failed picture')} left out of the cases compared ({_of_each(pair, pair.lost)})"
        )
    if pair.bounds is not None:
        parts.append(f"with those that failed the gap is {between(pair.bounds, digits)}")
    elif pair.n_failed and pair.gap is not None:
        parts.append("what those that failed could change is not known, as the measure has no finite range")
    return parts


def judged(pair: Pair) -> str:
    """Who judged, both sides where they differ."""
    return judges_said(pair.judge, pair.second_judge)


def judges_said(first: str | None, second: str | None) -> str:
    if first == second:
        return f"judge {first}" if first else "no judge"
    return f"judges {first or 'none'} and {second or 'none'}"


def plain(value: float, digits: int) -> str:
    """Without a sign where nothing but zeros is left."""
    text = f"{value:.{digits}f}"
    return text if float(text) else text.removeprefix("-")


def signed(value: float, digits: int) -> str:
    text = plain(value, digits)
    return text if text.startswith("-") or not float(text) else f"+{text}"


def between(ends: tuple[float, float], digits: int) -> str:
    return f"{signed(ends[0], digits)} to {signed(ends[1], digits)}"


def amount(value: float, digits: int) -> str:
    """A difference on the benchmark's scale; marks and percentages are points."""
    return f"{value:.{digits}f} points" if digits == 2 else f"{value:.{digits}f}"


def as_given(margin: float, digits: int) -> str:
    """A margin as it was given: rounded it would be another."""
    unit = "" if digits != 2 else " point" if margin == 1 else " points"
    return f"{margin:.12g}{unit}"


def probability(p: float, bound: bool = False) -> str:
    """Two significant digits, as "p = 0.012", or more where these would put it on the other side of the level; "<"
    where p is only known to be below, and for all that are below 0.0001."""
    if p < 0.0001:
        return "p < 0.0001"
    if bound:  # rounded up: p is below what is printed, whatever is dropped
        step = 10.0 ** (floor(log10(p)) - 1)
        return f"p < {ceil(p / step - 1e-9) * step:.2g}"
    shown, digits = f"{p:.2g}", 2
    while digits < 9 and (float(shown) <= LEVEL) != (p <= LEVEL):
        digits += 1
        shown = f"{p:.{digits}g}"
    return f"p = {shown}"


def _rough(value: float) -> str:
    """Two digits, rounded up: a smaller difference would be found less often than is claimed."""
    step = 10.0 ** (floor(log10(value)) - 1) if value > 0 else 1.0
    return f"{float(f'{ceil(value / step - 1e-9) * step:.2g}'):g}"
