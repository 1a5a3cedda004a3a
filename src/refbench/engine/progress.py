"""Progress: what a run has done, for a terminal as one live line, elsewhere as a line now and then."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TextIO


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
    in_flight: int = 0
    spent_usd: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def line(self) -> str:
        """Done, failed by kind, rate, in flight, spent, time left."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        rate = self.done / seconds
        left = max(self.expected - self.known - self.done, 0)
        words = []
        if self.to_make:
            words.append(f"{self.made}/{self.to_make} made")
        if self.expected or not (self.to_measure or self.to_make):
            words.append(f"{self.known + self.done}/{self.expected} calls")
        if self.to_measure:
            words.append(f"{self.measured}/{self.to_measure} measured")
        if self.failed:
            words.append("failed " + ", ".join(f"{n} {kind}" for kind, n in sorted(self.failed.items())))
        if self.expected or not (self.to_measure or self.to_make):
            words.append(f"{rate:.1f}/s")
            words.append(f"{self.in_flight} in flight")
        if self.spent_usd:
            words.append(f"{self.spent_usd:.4f} usd")
        if left and rate > 0:
            words.append(f"{_clock(left / rate)} left")
        return ", ".join(words)


class ProgressPrinter:
    """Shows a Progress: every half second on a terminal, every ten seconds into a file."""

    def __init__(self, progress: Progress, out: TextIO | None = None) -> None:
        self.progress = progress
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._last = 0.0

    @property
    def every(self) -> float:
        return 0.5 if self._live else 10.0

    def show(self, *, final: bool = False) -> None:
        now = time.monotonic()
        if not final and now - self._last < self.every:
            return
        self._last = now
        text = self.progress.line()
        if self._live:
            self._out.write(f"\r\x1b[K{text}" + ("\n" if final else ""))
        else:
            self._out.write(text + "\n")
        self._out.flush()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


# Showing the progress of a run while it goes on.


@contextlib.asynccontextmanager
async def shown(printer: ProgressPrinter | None) -> AsyncIterator[None]:
    """Show it every now and then until the block ends, and once more at its end."""

    async def show() -> None:
        while True:
            await asyncio.sleep(0.5)
            if printer is not None:
                printer.show()

    task = asyncio.create_task(show())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if printer is not None:
            printer.show(final=True)
