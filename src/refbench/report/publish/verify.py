"""A published folder held against its own evidence: every number computed again by the readers of this RefBench.

Nothing of the folder is executed. What needs code of its own cannot be verified, and is said to be so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from refbench import __version__
from refbench.record import Record, RefBenchError
from refbench.report.publish.card import BEGIN, END, INDEX, index_line, table_of
from refbench.report.publish.publish import READ_WITHOUT_CODE, score_rows
from refbench.runs.published import (
    MANIFEST,
    SCORES,
    TABLE,
    Manifest,
    is_published,
    lines_of,
    manifest_of,
    own_file,
    unlike_manifest,
)
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from refbench.tables.table import Row
from refbench.text.files import file_text

_CLOSE = 1e-9
"""Numbers that differ by less than this share are the same: other processors round the last digits otherwise."""


class Difference(Record):
    """One thing that is not as the evidence gives it."""

    where: str
    published: str
    recomputed: str


class Verified(Record):
    """What came of it. Without `why`, every cell was computed again."""

    folder: str
    benchmark: str
    why: str = ""
    """Why it cannot be verified; "" where it can."""
    cells: int = 0
    scores: int = 0
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: all the same. 1: something differs. 4: it cannot be told."""
        return 1 if self.differences else 4 if self.why else 0


def verify(path: Path) -> Verified:
    """Hold a published folder against its own evidence."""
    if not is_published(path):
        what = "is not there" if not path.exists() else f"was not published by RefBench: {MANIFEST} is missing"
        raise RefBenchError(f"{path} {what}; give a folder that refbench publish wrote")
    manifest = manifest_of(path)
    damaged = [Difference(where=said, published="", recomputed="") for said in unlike_manifest(path, manifest)]
    told = {"folder": str(path), "benchmark": manifest.benchmark}
    notes = tuple(_notes(path, manifest))
    if manifest.benchmark not in READ_WITHOUT_CODE:
        why = f"own code: {manifest.benchmark!r} is not shipped with RefBench, and code of the folder is not run"
        return Verified(**told, why=why, differences=tuple(damaged), notes=notes)
    if damaged:  # what is not what was published is not read further
        return Verified(**told, differences=tuple(damaged), notes=notes)
    result = score_run(path, draws=manifest.draws, seed=manifest.seed, refusals=manifest.refusals)
    found = [*_cells(path, result), *_scores(path, result), *_stamps(manifest, result), *_card(path, result)]
    scores = len(result.scores)
    return Verified(**told, cells=len(result.table.rows), scores=scores, differences=tuple(found), notes=notes)


def _notes(path: Path, manifest: Manifest) -> Iterator[str]:
    if manifest.written_by != __version__:
        yield f"it was written by RefBench {manifest.written_by}, and this is {__version__}: readers may differ"
    listed = {*manifest.files, MANIFEST}
    there = {file.relative_to(path).as_posix() for file in path.rglob("*") if not file.is_dir() or file.is_symlink()}
    # The Hub's own files, and those that downloading leaves.
    strangers = sorted(n for n in there - listed if n != ".gitattributes" and not n.startswith((".cache/", ".git/")))
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        yield f"{strangers[0]}{more} was not published with it, and is not read"
    yield "replies and measurements are taken as they are recorded, and pictures are not opened"


def _cells(path: Path, result: Result) -> Iterator[Difference]:
    ours = {_cell(row): row for row in result.table.rows}
    seen = set()
    for row in lines_of(path, TABLE, Row):
        cell = _cell(row)
        if cell in seen:
            yield Difference(where=cell, published="there twice", recomputed="once")
        elif cell not in ours:
            yield Difference(where=cell, published=_shown(row.value), recomputed="no such cell")
        else:
            yield from _unlike(cell, row.model_dump(mode="json"), ours[cell].model_dump(mode="json"))
        seen.add(cell)
    for cell in ours.keys() - seen:
        yield Difference(where=cell, published="no such cell", recomputed=_shown(ours[cell].value))


def _cell(row: Row) -> str:
    level = " ".join(f"{key}={value}" for key, value in row.slice.items() if key != "level")
    return f"{row.model}, {row.judge or 'no judge'}, {row.protocol}, {row.metric}, {row.slice['level']} {level}".strip()


def _unlike(cell: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Difference]:
    for key in ours.keys() | theirs.keys():
        if not _same(theirs.get(key), ours.get(key)):
            where = f"{cell}: {key}"
            yield Difference(where=where, published=_shown(theirs.get(key)), recomputed=_shown(ours.get(key)))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _shown(value: Any) -> str:
    return "none" if value is None else orjson.dumps(value).decode()[:200]


def _scores(path: Path, result: Result) -> Iterator[Difference]:
    """The scores of single pictures, each by its place."""

    def key(row: Mapping[str, Any]) -> str:
        names = (f"{name} {row.get(name)}" for name in ("case", "model", "judge", "metric", "protocol", "seed"))
        return f"score of {', '.join(names)}"

    ours = {key(row): orjson.loads(orjson.dumps(row)) for row in score_rows(result)}
    seen = set()
    for row in lines_of(path, SCORES):
        place = key(row) if isinstance(row, dict) else "a line that is no score"
        if place in seen or place not in ours:
            what = "there twice" if place in seen else "there"
            yield Difference(where=place, published=what, recomputed="once" if place in seen else "no such score")
        elif not _same(row, ours[place]):
            yield from _unlike(place, row, ours[place])
        seen.add(place)
    for place in sorted(ours.keys() - seen):
        yield Difference(where=place, published="not there", recomputed=_shown(ours[place].get("score")))


def _stamps(manifest: Manifest, result: Result) -> Iterator[Difference]:
    for name in ("fingerprint", "digest"):
        theirs, ours = getattr(manifest, name), getattr(result.table, name)
        if theirs != ours:
            yield Difference(where=name, published=theirs, recomputed=ours)


def _card(path: Path, result: Result) -> Iterator[Difference]:
    """The card's numbers: those among its metadata, and its table."""
    card = file_text(own_file(path, "README.md"))
    index = [line.removeprefix(INDEX) for line in card.split("\n") if line.startswith(INDEX)]
    try:
        same = len(index) == 1 and _same(orjson.loads(index[0]), orjson.loads(index_line(result)))
    except orjson.JSONDecodeError:
        same = False
    if not same:
        yield Difference(where="README.md", published="other results among its metadata", recomputed="see table.jsonl")
    if card.count(BEGIN) != 1 or table_of(result) not in card or card.count(END) != 1:
        yield Difference(where="README.md", published="another table", recomputed="see table.jsonl")
