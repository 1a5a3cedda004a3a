"""People's marks of references, from the export of a study or any CSV file: one sample for each reference, with every
rater's mark on each axis of its type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from refbench.analysis.agree.people import COLUMNS, filled_rows
from refbench.builders.refblend.screening import axis_name, rubric
from refbench.builders.refblend.types import Type, read_type
from refbench.machine import cores
from refbench.pictures.collection import Found, Skipped, look
from refbench.record import RefBenchError, content_key, counted

LEVELS = (1, 2, 3, 4, 5)
_REMEDY = "docs/filter-judge.md lists the columns"
_NEEDED = ("type", "metric", "rater", "score", "original")


@dataclass
class MarkedReference:
    """A reference that people have marked. Equal contents are one, under whatever names."""

    id: str
    type: Type
    original: Found
    reference: Found | None
    """None for a caption."""
    caption: str
    part: str
    """The part of the split that the file names; "" where it leaves that to us."""
    marks: dict[str, dict[str, int]] = field(default_factory=dict)
    """By axis and rater."""


@dataclass(frozen=True)
class MarkedReferences:
    """What a file of marks holds, and what of it cannot be used, with the number of rows or samples."""

    samples: tuple[MarkedReference, ...]
    left_out: Mapping[str, int]


class _Row(NamedTuple):
    where: str
    type: Type
    axis: str
    rater: str
    mark: int
    original: str
    reference: str
    caption: str
    part: str


def read_marks(path: Path, pictures: Path) -> MarkedReferences:
    """The marks of a CSV file, whose columns original and reference name files below the folder of pictures."""
    left_out: Counter[str] = Counter()
    rows = _rows(path, left_out)
    looked = _looked(pictures, rows)
    samples: dict[str, MarkedReference] = {}
    for row in rows:
        wrong = next((f for n in (row.original, row.reference) if n and isinstance(f := looked[n], Skipped)), None)
        if wrong is not None:
            raise RefBenchError(f"{row.where}: {pictures / wrong.name} cannot be used: {wrong.reason}")
        _add(samples, row, looked)
    whole = []
    for sample in samples.values():
        lacking = [axis for axis in axes_of(sample.type) if axis not in sample.marks]
        if lacking:
            left_out[f"references without a mark on {lacking[0]}"] += 1
        else:
            whole.append(sample)
    if not whole:
        raise RefBenchError(f"{path} marks no reference on every axis of its type: {_REMEDY}")
    return MarkedReferences(tuple(sorted(whole, key=lambda sample: sample.id)), dict(left_out))


def axes_of(kind: Type) -> tuple[str, ...]:
    """The axes that a judge is asked about, in the order of its reply."""
    return tuple(criterion.name for criterion in rubric(kind).contract.criteria)


def _rows(path: Path, left_out: Counter[str]) -> list[_Row]:
    lines = filled_rows(path)
    there = {name.casefold(): name for name in lines[0][1]}
    columns = {
        name: there[found]
        for name in (*_NEEDED, "reference", "caption", "part")
        if (found := next((known for known in COLUMNS.get(name, (name,)) if known in there), None))
    }
    if lacking := [name for name in _NEEDED if name not in columns]:
        raise RefBenchError(f"{path} has no column {lacking[0]}: {_REMEDY}")
    rows = []
    for number, line in lines:
        cells = {name: line[column] for name, column in columns.items()}
        if not cells["score"]:  # a rater who could not say has given no mark
            left_out["rows without a mark"] += 1
            continue
        row = _row(f"{path}, line {number}", cells)
        if row is None:
            left_out["rows on an axis that the judge is not asked about"] += 1
        else:
            rows.append(row)
    return rows


def _row(where: str, cells: Mapping[str, str]) -> _Row | None:
    """The row; None where it is about an axis that the type does not have."""
    kind = read_type(cells["type"], where)
    axis = _axis(kind, cells["metric"])
    try:
        mark = float(cells["score"])
    except ValueError:
        mark = 0.0
    if mark not in LEVELS:
        raise RefBenchError(f"{where}: the mark {cells['score']} is none: give a whole number from 1 to 5")
    reference, caption = cells.get("reference", ""), cells.get("caption", "")
    if (kind == "caption" and not caption) or (kind != "caption" and not reference):
        raise RefBenchError(f"{where}: a {kind} needs its {'caption' if kind == 'caption' else 'reference'}: {_REMEDY}")
    if not cells["original"] or not cells["rater"]:
        raise RefBenchError(f"{where}: original and rater must say which picture and who: {_REMEDY}")
    given = ("", caption) if kind == "caption" else (reference, "")
    if axis is None:
        return None
    return _Row(where, kind, axis, cells["rater"], int(mark), cells["original"], *given, cells.get("part", ""))


def _axis(kind: Type, said: str) -> str | None:
    """The axis as the judge's reply names it; also in the official spelling, and alignment for a box's accuracy."""
    word = said.strip().casefold()
    names = {axis: axis for axis in axes_of(kind)} | {axis_name(kind, a).casefold(): a for a in axes_of(kind)}
    if kind == "bbox":
        names["alignment"] = "accuracy"
    return names.get(word)


def _looked(root: Path, rows: list[_Row]) -> dict[str, Found | Skipped]:
    if not root.is_dir():
        raise RefBenchError(f"--pictures {root} is not a folder")
    names: dict[str, str] = {}
    for row in rows:
        for name in (row.original, row.reference):
            if name:
                names.setdefault(name, row.where)
    base = root.resolve()
    for name, where in names.items():
        if "\0" in name or not (base / name).resolve().is_relative_to(base):
            raise RefBenchError(f"{where}: {name!r} does not lie below --pictures {root}")
    with ThreadPoolExecutor(cores()) as threads:
        return dict(zip(names, threads.map(lambda name: look(root, name, 1), names), strict=True))


def _add(samples: dict[str, MarkedReference], row: _Row, looked: Mapping[str, Any]) -> None:
    original, reference = looked[row.original], looked[row.reference] if row.reference else None
    key = content_key([row.type, original.sha256, reference.sha256 if reference else row.caption])[:16]
    sample = samples.setdefault(key, MarkedReference(key, row.type, original, reference, row.caption, row.part))
    if sample.part != row.part:
        raise RefBenchError(f"{row.where}: this reference is in the parts {sample.part!r} and {row.part!r}: name one")
    of_axis = sample.marks.setdefault(row.axis, {})
    if of_axis.setdefault(row.rater, row.mark) != row.mark:
        said = f"{of_axis[row.rater]} and {row.mark}"
        raise RefBenchError(f"{row.where}: {row.rater} marks {row.axis} of one reference twice, {said}: keep one")


def left_out_said(left_out: Mapping[str, int]) -> list[str]:
    """A line for each reason why something is not used."""
    return [
        f"left out: {counted(n, what.split(' ', 1)[0].removesuffix('s'))} {what.split(' ', 1)[1]}"
        for what, n in left_out.items()
    ]
