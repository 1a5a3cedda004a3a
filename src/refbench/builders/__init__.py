"""Builders: makers of new benchmarks from a user's own pictures, each in the official layout of its model.

What every builder gives back is here; how each works is in its package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from refbench.record import Record


class BuildReport(Record):
    """How a build went: what was made, what was left out at which stage and why, and what it cost."""

    benchmark: str
    """The name that `refbench check` and `refbench run` know it by."""
    out: str
    data: tuple[str, ...]
    """What to give as --data: one directory, or one for each split."""
    wanted: int
    made: int
    begun: int
    """Items that were begun: made, dropped or unfinished."""
    unfinished: int = 0
    """Items, or pictures not yet looked at, that a dead endpoint or the budget stopped; the next run goes on."""
    dropped: Mapping[str, Mapping[str, int]] = {}
    """How many by stage and reason; the lines are in dropped.jsonl."""
    counts: Mapping[str, int] = {}
    missing: Mapping[str, str] = {}
    """What was to be covered and is not, with the reason."""
    notes: tuple[str, ...] = ()
    asked: int = 0
    """Calls made this time; what was on record is not among them."""
    cost_usd: float | None = None
    """All that has been paid for this build; None where the price of a VLM is not known."""
    stopped: Literal["", "budget", "unreachable"] = ""

    @property
    def lost_share(self) -> float:
        """The share of the begun items that did not become part of the dataset; 1 where none was begun."""
        return 1.0 - self.made / self.begun if self.begun else 1.0
