"""Processes that tests wait for: whether one is gone, and time that is up when something has happened, and not before,
however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

_HOURS_S = 36_000.0


class Clock:
    """In the place of `time` in a module: hours go by whenever something happens."""

    sleep = staticmethod(time.sleep)

    def __init__(self, happened: Callable[[], int]) -> None:
        self._happened, self._seen = happened, 0

    def monotonic(self) -> float:
        gone, self._seen = self._seen, self._happened()  # a look later: what was said before it is read first
        return time.monotonic() + _HOURS_S * gone


def late_when_written(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """What processes may take is over each time that a line is written to the file."""

    def lines() -> int:
        return path.read_text().count("\n") if path.exists() else 0

    monkeypatch.setattr("refbench.calls.process.time", Clock(lines))


def ended(pid: int) -> bool:
    """Whether a process is gone, or dead and only waiting for its parent to notice. A killed one may need a moment."""
    until = time.monotonic() + 600
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False
