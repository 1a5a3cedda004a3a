"""Criteria: what a judge is asked for, each a mark on a scale, a yes or no, or a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

from refbench.failure import Failure
from refbench.record import RefBenchError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)*")


@dataclass(frozen=True)
class Scale:
    """A number from `low` to `high`; with `whole`, a fraction is out of range."""

    low: float
    high: float
    whole: bool = False

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise RefBenchError(f"a scale from {self.low:g} to {self.high:g} has no values: give the lower end first")

    def words(self) -> str:
        return f"a {'whole ' if self.whole else ''}number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class YesNo:
    """Yes or no."""

    def words(self) -> str:
        return '"Yes" or "No"'


@dataclass(frozen=True)
class Text:
    """Free words: a reason, a description. Not a measure."""

    def words(self) -> str:
        return "a text"


Kind: TypeAlias = Scale | YesNo | Text
Reading: TypeAlias = float | bool | str | Failure | None
"""A mark, a yes (True) or no, a text, or why it is not there; None for an optional criterion that was left out."""


@dataclass(frozen=True)
class Criterion:
    """One thing the judge is asked for. `name` is the key in replies and the name of the measure."""

    name: str
    kind: Kind
    description: str = ""
    optional: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise RefBenchError(
                f"{self.name!r} cannot be the name of a criterion: use letters and digits, words joined by one _"
            )

    @property
    def range(self) -> tuple[float, float]:
        """The ends of a mark; of yes and no 0 and 1."""
        return (self.kind.low, self.kind.high) if isinstance(self.kind, Scale) else (0.0, 1.0)

    @property
    def label(self) -> str:
        """The name as people write it: `visual_quality` is `Visual quality`."""
        return self.name[0].upper() + self.name[1:].replace("_", " ")

    @cached_property
    def spelled(self) -> str:
        """The name as replies are searched for it."""
        return letters(self.name)


def letters(text: str) -> str:
    """One spelling for `Visual-Quality`, `visual quality` and `visualQuality`."""
    return _spelled(text) if len(text) <= _KEPT else _spelled.__wrapped__(text)


_KEPT = 64
"""Characters of a text whose spelling is kept: the keys of replies are the same thousands of times."""


@lru_cache(4096)
def _spelled(text: str) -> str:
    return "".join(c for c in text.casefold() if c.isalnum())
