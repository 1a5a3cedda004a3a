"""A journal: what was begun outside of this machine, one JSON line for each step of it, safe from any kill."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, must_not_link, open_own

Entry = dict[str, Any]


class JournalFile:
    """Lines that are only ever added, each on disk before the next step is taken.

    Read and written only by whoever holds the ledger. A line that a kill cut short counts for nothing: what it
    intended was not sent yet, and what it reported can be found out again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0

    def read(self, take: Callable[[Entry, int], None]) -> None:
        """Hand over every whole line with its place in the file."""
        must_not_link(self.path)
        if not self.path.exists():
            return
        try:
            if not self.path.is_file():  # a pipe would be waited for without end
                raise ValueError("it is no plain file")
            with self.path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        take(orjson.loads(line), self._size)
                        self._size += len(line)
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            why = "a line is not what was written" if isinstance(error, ValidationError) else error
            raise RefBenchError(f"{self.path} cannot be read ({why}): restore it from a copy of the run") from error

    def append(self, entry: Entry) -> tuple[Entry, int]:
        """Write a line; what was written, with its time, and its place in the file."""
        entry = {**entry, "time": round(time.time(), 3)}
        line, place = orjson.dumps(entry) + b"\n", self._size
        try:
            # Where there was one that is gone, nothing is handed in: what it held would be paid for and never found.
            with open_own(self.path, "r+b" if place or self.path.exists() else "w+b") as file:
                file.truncate(place)  # what a kill cut short
                file.seek(place)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise disk_error(error, self.path) from error
        self._size += len(line)
        return entry, place

    def line_at(self, place: int) -> Entry:
        with self.path.open("rb") as file:
            file.seek(place)
            entry: Entry = orjson.loads(file.readline())
        return entry


def beside(ledger: Path, name: str) -> Path:
    """RUN/NAME.jsonl, or the like beside a shard's ledger."""
    return ledger.with_name(f"{name}.jsonl" if ledger.stem == "ledger" else f"{ledger.stem}.{name}.jsonl")
