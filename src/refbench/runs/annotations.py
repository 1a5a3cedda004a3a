"""Annotations: what people noted about cases while looking at a run. Appended to a file of the run, never rewritten."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from refbench.record import Record
from refbench.runs.disk import disk_error, open_own
from refbench.runs.run import Run, own_bytes

FILE = "annotations.jsonl"

ShortText = Annotated[str, Field(max_length=200)]


class Annotation(Record):
    """What someone thinks of a case: the whole of it, so that the last line about a case is what stands."""

    case: Annotated[str, Field(min_length=1, max_length=2000)]
    star: bool = False
    tags: Annotated[tuple[ShortText, ...], Field(max_length=100)] = ()
    comment: Annotated[str, Field(max_length=20_000)] = ""
    time: float = 0.0
    """Seconds since 1970; 0 for now."""

    @property
    def empty(self) -> bool:
        """Whether it takes back what was there."""
        return not (self.star or self.tags or self.comment)


class Annotations(Record):
    """The standing annotations by case, in the order in which the cases were first noted, and how many lines of the
    file could not be read."""

    standing: dict[str, Annotation]
    unread: int = 0


def annotate(run: Run, annotation: Annotation) -> Annotation:
    """Append an annotation to the run; returns it as recorded, with its time."""
    recorded = annotation if annotation.time else annotation.model_copy(update={"time": time.time()})
    append(run.path, [recorded])
    return recorded


def append(folder: Path, annotations: Iterable[Annotation]) -> None:
    """Append lines in one write each: two servers on one run do not tear each other's lines."""
    path = folder / FILE
    try:
        with open_own(path, "ab+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if file.tell() and not _ends_a_line(path):  # a writer was killed in the middle of its line
                file.write(b"\n")
            for annotation in annotations:
                file.write(annotation.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise disk_error(error, path) from error


def take_over(target: Run, sources: Iterable[Run]) -> None:
    """Append what stands in other runs of the same cases, where nothing later is noted here."""
    here, _ = _lines(target.path / FILE)
    theirs = read_annotations(*(run.path for run in sources)).standing.values()
    newer = [note for note in theirs if note.case not in here or note.time > here[note.case].time]
    if newer:
        append(target.path, newer)


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def read_annotations(*folders: Path) -> Annotations:
    """What stands for each case of a run, or of several runs of the same cases: what was noted last.

    Lines that are broken are left out and counted.
    """
    standing: dict[str, Annotation] = {}
    unread = 0
    for folder in folders:
        notes, broken = _lines(folder / FILE)
        unread += broken
        for case, note in notes.items():
            if case not in standing or note.time > standing[case].time:
                standing[case] = note
    return Annotations(standing={case: note for case, note in standing.items() if not note.empty}, unread=unread)


def _lines(path: Path) -> tuple[dict[str, Annotation], int]:
    """The last line about each case, those that take a note back too, and how many lines could not be read."""
    standing: dict[str, Annotation] = {}
    unread = 0
    for line in filter(bytes.strip, own_bytes(path).splitlines() if os.path.lexists(path) else ()):
        try:
            note = Annotation.model_validate_json(line)
        except ValidationError:
            unread += 1
        else:
            standing[note.case] = note
    return standing, unread
