"""Progress: what a run has done so far, as live bars on a terminal, elsewhere as a line now and then."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from refbench.failure import Failure
from refbench.text.console import console, printable, quiet

_LIVE_S, _LINES_S = 0.5, 10.0
"""Seconds between two looks at the counts, on a terminal or in a notebook and elsewhere."""
_CELL = 110
"""Signs of the line in a notebook, which has no width that one could ask for."""


class Part(NamedTuple):
    """What is being done: how much of it there is, how much of that was there before, and of how many."""

    name: str
    done: int
    known: int
    total: int
    about: bool = False
    """Whether the total is read off the cases that were laid out so far."""

    def __str__(self) -> str:
        return f"{self.done}/{'~' if self.about else ''}{self.total} {self.name}"


@dataclass
class Progress:
    """Counts of a run while it goes on."""

    cases: int = 0
    """How many cases there are."""
    outputs: int = 1
    """Of each case, all models and seeds together; calls and measurements are laid out output by output."""
    to_ask: int = 0
    """Of how many a judge is to be asked, where that is not about all of them once."""
    laid_out: int = 0
    """Outputs whose calls are in `expected`."""
    expected: int = 0
    known: int = 0
    """Calls that earlier runs have made."""
    done: int = 0
    asked_again: int = 0
    """Replies that could not be read and were asked for once more."""
    to_find: int = 0
    """Outputs that are there already and only put on record."""
    found: int = 0
    to_make: int = 0
    made: int = 0
    laid_out_to_measure: int = 0
    to_measure: int = 0
    measured_before: int = 0
    measured: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    """What failed first of each kind, and why: mostly the others failed for the same reason."""
    in_flight: int = 0
    """Calls that are with a provider, in batches."""
    calling: int = 0
    painting: int = 0
    spent_usd: float = 0.0
    waits: Callable[[], list[str]] = list
    """For whom we wait because a server asked us to, and how long still."""
    tries: Callable[[], int] = int
    """How many tries had to be made once more."""
    started: float = field(default_factory=time.monotonic)

    @property
    def new(self) -> int:
        """How much was done that was not on record."""
        return self.done + self.made + self.measured

    def fail(self, what: str, failure: Failure) -> None:
        """Count a failure; `what` failed."""
        self.failed[failure.kind] += 1
        self.examples.setdefault(failure.kind, printable(f"{what}: {failure}", line=True))

    @contextlib.contextmanager
    def picture(self) -> Iterator[None]:
        """While a picture is being made."""
        self.painting += 1
        try:
            yield
        finally:
            self.painting -= 1

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """While a judge is being asked."""
        self.calling += 1
        try:
            yield
        finally:
            self.calling -= 1

    def flight(self) -> str:
        """What has been begun and is not in yet, in words."""
        calls = self.in_flight + self.calling
        words = [f"{n} {name}{'' if n == 1 else 's'}" for n, name in ((calls, "call"), (self.painting, "picture")) if n]
        return " and ".join(words) or "0 calls"

    def parts(self) -> Iterator[Part]:
        """What is being done, each with its total from the start."""
        if self.to_find:
            yield Part("looked for", self.found, 0, self.to_find)
        if self.to_make:
            yield Part("made", self.made, 0, self.to_make)
        if self.expected or not (self.to_measure or self.to_make or self.to_find):
            to_ask = (self.to_ask or self.cases) * self.outputs
            total = self._in_all(self.expected, self.laid_out, to_ask)
            yield Part("calls", self.known + self.done, self.known, total, self.laid_out < to_ask)
        if self.to_measure:
            in_all = self.cases * self.outputs
            total = self._in_all(self.to_measure, self.laid_out_to_measure, in_all)
            about = self.laid_out_to_measure < in_all
            yield Part("measured", self.measured, self.measured_before, total, about)

    def _in_all(self, so_far: int, laid_out: int, of: int) -> int:
        """What all outputs will take, if the others are like those that were laid out."""
        return max(so_far, round(so_far * of / laid_out)) if laid_out else so_far

    def remarks(self) -> Iterator[str]:
        """Failed by kind, asked again, in flight, waited for, spent."""
        if self.failed:
            yield "failed " + ", ".join(f"{n} {kind}" for kind, n in sorted(self.failed.items()))
        if self.asked_again:
            yield f"{self.asked_again} asked again"
        if tries := self.tries():
            yield f"{tries} tries repeated"
        if self.in_flight or self.calling or self.painting:
            yield f"{self.flight()} in flight"
        yield from self.waits()
        if self.spent_usd:
            yield f"{self.spent_usd:.4f} usd"

    def seconds_left(self) -> float | None:
        """How long it takes still at the pace so far, of what takes longest; None before anything is done."""
        passed = time.monotonic() - self.started
        left = [
            (part.total - part.done) * passed / (part.done - part.known)
            for part in self.parts()
            if part.done > part.known
        ]
        waiting = any(part.total > part.done == part.known for part in self.parts())
        return None if waiting or not left else max(left)

    def line(self) -> str:
        parts = [*self.parts()]
        words = [*map(str, parts), *self.remarks()]
        left = self.seconds_left()
        if left:
            words.append(f"{timedelta(seconds=int(left))} left")
        return ", ".join(words)


@contextlib.asynccontextmanager
async def shown(progress: Progress, *, show: bool) -> AsyncIterator[None]:
    """Show the progress on stderr until the block ends, and once more at its end: one line that stays in its place on a
    terminal and in a notebook, elsewhere a line now and then."""
    progress.started = time.monotonic()
    if not show or quiet():
        yield
        return
    with _drawn() as (draw, seconds):

        def look() -> None:
            draw(printable(progress.line(), line=True))

        async def keep_looking() -> None:
            while True:
                await asyncio.sleep(seconds)
                look()

        looking = asyncio.create_task(keep_looking())
        try:
            yield
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            look()


@contextlib.contextmanager
def _drawn() -> Iterator[tuple[Callable[[str], None], float]]:
    """How a line is drawn here, and how often."""
    if sys.stderr.isatty():
        from rich.live import Live
        from rich.text import Text

        # Clipped, so that it is one line at any width.
        with Live(console=console(stderr=True), auto_refresh=False) as live:
            yield lambda line: live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True), _LIVE_S
    elif _in_notebook():
        last = [""]

        def write(line: str) -> None:
            clipped = line if len(line) <= _CELL else f"{line[: _CELL - 1]}…"
            print(f"\r{clipped.ljust(len(last[0]))}", end="", file=sys.stderr, flush=True)
            last[0] = clipped

        try:
            yield write, _LIVE_S
        finally:
            print(file=sys.stderr)
    else:
        yield lambda line: print(line, file=sys.stderr, flush=True), _LINES_S


def _in_notebook() -> bool:
    """Whether standard error is a cell's, which goes back to the beginning of its line as a terminal does."""
    return type(sys.stderr).__module__.startswith("ipykernel.")
