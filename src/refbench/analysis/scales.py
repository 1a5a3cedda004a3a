"""Scales of raters: whether two may be compared mark by mark, how one maps onto the other, and how marks are binned."""

from __future__ import annotations

import re
from dataclasses import dataclass

from refbench.analysis.ratings import Range
from refbench.record import RefBenchError
from refbench.stats import Array, Bins

DEFAULT_BINS = 5
_NUMBER = r"(-?\d+(?:\.\d+)?)"
_RANGE = re.compile(f"{_NUMBER}-{_NUMBER}")


@dataclass(frozen=True)
class Scale:
    """What the user says of the scales: the people's range, and the judges' where it differs from what a run knows."""

    humans: Range | None = None
    judges: Range | None = None
    same: bool = False

    @classmethod
    def parse(cls, text: str | None) -> Scale:
        """From `same`, the people's `1-5`, or the people's and the judges', `1-5:1-10`."""
        if text is None:
            return cls()
        if text == "same":
            return cls(same=True)
        sides = [_RANGE.fullmatch(part) for part in text.split(":")]
        ranges = [(float(side[1]), float(side[2])) for side in sides if side is not None]
        if len(ranges) != len(sides) or len(ranges) > 2 or any(low >= high for low, high in ranges):
            raise RefBenchError(
                f"--scale {text}: write same, the people's scale as 1-5, or theirs and the judges' as 1-5:1-10"
            )
        return cls(humans=ranges[0], judges=ranges[1] if len(ranges) == 2 else None)


@dataclass(frozen=True)
class Compared:
    """How the marks of a pair of raters are compared."""

    same_scale: bool
    limits: Range | None
    """The scale's range, where it is known."""
    judged: Range | None = None
    """The judges' range that is mapped onto the limits."""
    reason: str = ""

    def mapped(self, marks: Array) -> Array:
        """Judges' marks on the people's scale."""
        if self.judged is None or self.limits is None or self.judged == self.limits:
            return marks
        (low, high), (a, b) = self.judged, self.limits
        return a + (marks - low) * (b - a) / (high - low)


def of_judges(scale: Scale, one_scale: bool, known: Range | None) -> Compared:
    """Judges of one rubric share their scale; columns of a file do when the user says so."""
    if one_scale or scale.same or scale.judges:
        return Compared(True, known or scale.judges)
    return Compared(False, None, reason="say --scale same if all columns use one scale")


def of_people(scale: Scale) -> Compared:
    return Compared(True, scale.humans)


def judge_with_people(scale: Scale, known: Range | None) -> Compared:
    """Judge and people, in the people's units; nobody is taken to share a scale that was not said."""
    if scale.same:
        return Compared(True, known)
    if scale.humans is None:
        return Compared(False, None, reason="say --scale same, or both scales as --scale 1-5:1-10 (people's first)")
    judges = scale.judges or known
    if judges is None:
        return Compared(False, None, reason="say the judges' scale as well, as --scale 1-5:1-10")
    return Compared(True, scale.humans, judged=judges)


def bins_for(said: str | None, compared: Compared, *marks: Array) -> Bins | None:
    """The bins of plain kappa: the user's, else whole marks as they are, else equal bins of a known range."""
    if said is None:
        whole = Bins.marks(*marks)
        if whole is not None:
            return whole
        return Bins.equal(DEFAULT_BINS, *compared.limits) if compared.limits else None
    try:
        if re.fullmatch(r"\d+", said):
            return Bins.equal(int(said), *compared.limits) if compared.limits else None
        return Bins.at(*(float(edge) for edge in said.split(",")))
    except ValueError as error:
        raise RefBenchError(f"--bins {said}: give how many (5), or rising edges (2.5,3.5): {error}") from error
