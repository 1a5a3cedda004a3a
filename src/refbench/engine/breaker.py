"""A circuit breaker: a model or judge that fails in the same way again and again is asked nothing more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from refbench.failure import Failure

_OUTCOMES = frozenset({"refused", "unsupported", "no_detection", "out_of_range", "undefined", "budget"})
"""Kinds that say something about what was asked, or cost nothing: a model that refuses everything has that result."""
_NUMBERS = re.compile(r"[0-9a-fA-F-]*\d[0-9a-fA-F-]*")
"""What differs in messages that are the same: times, addresses, ids of requests."""


@dataclass
class Breaker:
    """Counts failures of one sort in a row, for each model and judge; `most` of them end it, 0 never does."""

    most: int
    stopped: dict[str, str] = field(default_factory=dict)
    """Who is asked nothing more, and the sentence that says why."""
    _row: dict[str, tuple[str, int]] = field(default_factory=dict)

    def note(self, who: str, failure: Failure | None) -> None:
        """What came of asking a model or judge."""
        if failure is not None and failure.kind in _OUTCOMES:
            return
        said = "" if failure is None else _NUMBERS.sub("#", f"{failure.kind}: {failure.detail}")
        before, times = self._row.get(who, ("", 0))
        self._row[who] = (said, times + 1 if said == before else 1)
        if failure is not None and self.most and self._row[who][1] >= self.most and who not in self.stopped:
            self.stopped[who] = (
                f"{who} was stopped after {self.most} failures in a row, all alike ({failure}): what is there is "
                "kept, the same command goes on, and --give-up-after N sets the number (0: never)"
            )

    def all_of(self, names: Iterable[str]) -> bool:
        """Whether none of these is asked anything more."""
        given = list(names)
        return bool(given) and all(name in self.stopped for name in given)
