"""Progress: what a run has done so far, as live bars on a terminal, elsewhere as a line now and then."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from refbench.failure import Failure

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

_BARS_S, _LINES_S = 0.5, 10.0
"""Seconds between two looks at the counts, on a terminal and elsewhere."""


@dataclass
class Progress:
    """Counts of a run while it goes on."""

    expected: int = 0
    known: int = 0
    """Calls that earlier runs have made."""
    done: int = 0
    to_make: int = 0
    made: int = 0
    to_measure: int = 0
    measured: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    first_failure: str = ""
    """What failed first, and why: mostly the others failed for the same reason."""
    in_flight: int = 0
    spent_usd: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def fail(self, what: str, failure: Failure) -> None:
        """Count a failure; `what` failed."""
        self.failed[failure.kind] += 1
        self.first_failure = self.first_failure or f"{what}: {failure}"

    def parts(self) -> Iterator[tuple[str, int, int]]:
        """What is being done, how much of it is, and of how many."""
        if self.to_make:
            yield "made", self.made, self.to_make
        if self.expected or not (self.to_measure or self.to_make):
            yield "calls", self.known + self.done, self.expected
        if self.to_measure:
            yield "measured", self.measured, self.to_measure

    def remarks(self) -> Iterator[str]:
        """Failed by kind, in flight, spent."""
        if self.failed:
            yield "failed " + ", ".join(f"{n} {kind}" for kind, n in sorted(self.failed.items()))
        if self.in_flight:
            yield f"{self.in_flight} in flight"
        if self.spent_usd:
            yield f"{self.spent_usd:.4f} usd"

    def line(self) -> str:
        words = [f"{done}/{expected} {name}" for name, done, expected in self.parts()] + [*self.remarks()]
        left = max(self.expected - self.known - self.done, 0)
        if left and self.done:
            seconds = left * (time.monotonic() - self.started) / self.done
            words.append(f"{timedelta(seconds=int(seconds))} left")
        return ", ".join(words)


@contextlib.asynccontextmanager
async def shown(progress: Progress, *, show: bool) -> AsyncIterator[None]:
    """Show the progress on stderr until the block ends, and once more at its end."""
    if not show:
        yield
        return
    live = sys.stderr.isatty()
    with _bars() if live else contextlib.nullcontext() as bars:

        def look() -> None:
            if bars is None:
                print(progress.line(), file=sys.stderr, flush=True)
            else:
                _draw(bars, progress)

        async def keep_looking() -> None:
            while True:
                await asyncio.sleep(_BARS_S if live else _LINES_S)
                look()

        looking = asyncio.create_task(keep_looking())
        try:
            yield
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            look()


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    return Bars(*columns, console=Console(stderr=True))


def _draw(bars: Bars, progress: Progress) -> None:
    """A bar for each thing that is done, and what else there is to say beside the first."""
    known = {task.fields["part"]: task.id for task in bars.tasks}
    remarks = ", ".join(progress.remarks())
    for place, (name, done, expected) in enumerate(progress.parts()):
        if name not in known:
            known[name] = bars.add_task(name, part=name)
        words = f"{name}, {remarks}" if remarks and not place else name
        bars.update(known[name], completed=done, total=expected or None, description=words)
