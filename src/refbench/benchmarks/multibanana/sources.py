"""Where each reference came from, by from_where.csv. Its columns are not documented, so they are recognised.

A column of file names, one of words for real or generated, and, where the file names have no directory, one of
task directories. What cannot be recognised is told, and the source stays unknown.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.benchmarks.multibanana.details import Source, task_of
from refbench.benchmarks.multibanana.layout import Oddity

FROM_WHERE = "from_where.csv"

_REAL = frozenset({"real", "laion", "laion5b", "photo", "photograph", "web", "natural"})
_GENERATED = frozenset(
    {"generated", "generation", "gen", "synthetic", "synthesized", "synth", "fake", "ai", "gpt", "nano", "banana"}
    | {"nanobanana", "gemini"}
)
_SAMPLE = 500
"""Rows by which the columns are recognised."""

Place = tuple[str, str]
"""Task and `<NNN>_<i>`: extensions and the spelling of directories may differ from the files'."""


@dataclass(frozen=True)
class Sources:
    """The words of the file for each reference it names."""

    known: bool
    words: Mapping[Place, str]
    oddities: tuple[Oddity, ...]


def read_sources(root: Path) -> Sources:
    """Everything from_where.csv says that can be understood."""
    try:
        text = (root / FROM_WHERE).read_bytes().decode("utf-8-sig", "replace")
    except FileNotFoundError:
        return _nothing("missing_sources", f"no {FROM_WHERE}")
    except OSError as error:
        return _nothing("unreadable_sources", f"{error.strerror}")
    first = text.partition("\n")[0]
    try:
        rows = [row for row in csv.reader(text.splitlines(), delimiter=max(",;\t", key=first.count)) if any(row)]
    except csv.Error as error:
        return _nothing("unreadable_sources", f"{error}")
    columns = _columns(rows)
    if columns is None:
        return _nothing("unreadable_sources", "no column of reference files with one of real or generated beside it")
    file_at, word_at, directory_at = columns
    words: dict[Place, str] = {}
    oddities: list[Oddity] = []
    for number, row in enumerate(rows):
        place = _place(_cell(row, file_at), _cell(row, directory_at) if directory_at is not None else "")
        if place is None:
            if number:  # the first row is the heading
                oddities.append(("unread_source", FROM_WHERE, f"row {number + 1}: {','.join(row)[:80]}"))
            continue
        words[place] = _cell(row, word_at).strip()
        if _kind(words[place]) is None:
            oddities.append(("unread_source", FROM_WHERE, f"row {number + 1}: {words[place][:80]!r}"))
    return Sources(True, words, tuple(oddities))


def source_of(words: Sequence[str | None]) -> Source:
    """The source of a set from the words for each of its references."""
    kinds = {_kind(word) if word is not None else None for word in words}
    if not kinds or None in kinds:
        return "unknown"
    if len(kinds) > 1:
        return "both"
    return "real" if kinds == {"real"} else "generated"


def reference_place(task: str, file: str) -> Place:
    return task, file.rpartition(".")[0]


def _nothing(kind: str, detail: str) -> Sources:
    return Sources(False, {}, ((kind, FROM_WHERE, detail),))


def _kind(word: str) -> str | None:
    tokens = set("".join(c if c.isalnum() else " " for c in word.casefold()).split())
    real, generated = bool(tokens & _REAL), bool(tokens & _GENERATED)
    if real == generated:
        return None
    return "real" if real else "generated"


def _place(cell: str, directory: str) -> Place | None:
    """`data/3_back/006_0.jpg`, `3_back\\006_0` and the like; the directory may stand in a cell of its own."""
    *parents, file = cell.strip().replace("\\", "/").split("/")
    stem = file.rpartition(".")[0] or file
    number, _, index = stem.partition("_")
    task = task_of(parents[-1] if parents else directory.strip())
    return (task.name, stem) if number and index.isdecimal() and task else None


def _columns(rows: Sequence[Sequence[str]]) -> tuple[int, int, int | None] | None:
    sample = rows[:_SAMPLE]
    width = max(map(len, sample), default=0)
    names = _column(sample, range(width), lambda cell: _place(cell, "single"))
    if names is None:
        return None
    directories = _column(sample, [at for at in range(width) if at != names], task_of)
    others = [at for at in range(width) if at not in (names, directories)]
    words = _column(sample, others, _kind)
    return None if words is None else (names, words, directories)


def _column(rows: Sequence[Sequence[str]], among: Sequence[int], reads: Callable[[str], Any]) -> int | None:
    """The column of which most cells can be read so, if at least half can."""
    counts = {at: sum(reads(_cell(row, at)) is not None for row in rows) for at in among}
    best = max(counts, key=lambda at: counts[at], default=None)
    return best if best is not None and 2 * counts[best] >= len(rows) > 0 else None


def _cell(row: Sequence[str], at: int) -> str:
    return row[at] if at < len(row) else ""
