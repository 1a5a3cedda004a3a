"""Tables of pictures: rows of CSV, JSON, JSON lines, Parquet, Arrow and COCO files as labels, one for each picture.

Texts and numbers in them are untrusted: what cannot be read is told with the row, and the rest of the row stands.
"""

from __future__ import annotations

import csv
import importlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refbench.benchmarks.multiref.cases import path_keys
from refbench.builders.refblend.layouts import SPELLINGS, SourceLayout
from refbench.builders.refblend.types import TYPES, Type
from refbench.record import RefBenchError, clean_text
from refbench.text.files import json_file, json_value

TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".arrow")
_JOINTS, _MOST = 17, 1000
"""COCO's joints; and the most people or boxes that are taken for the annotation of a picture."""
csv.field_size_limit(1 << 27)

Person = tuple[tuple[float, float, float], ...]
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureAnnotations:
    """What a source says of a picture."""

    caption: str | None = None
    subject: str | None = None
    style: str | None = None
    people: tuple[Person, ...] = ()
    """x, y and visibility (0 is not seen) of COCO's 17 joints, in pixels."""
    boxes: tuple[Box, ...] = ()
    licence: str = ""
    given: tuple[tuple[Type, tuple[str, ...]], ...] = ()
    """References that the source has of it, by type: paths of files."""
    marks: tuple[tuple[str, int], ...] = ()
    """What a judge said of these, as the official JSON names its axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Label(PictureAnnotations):
    """A row about a picture. `picture` is a path as written, or the bytes themselves."""

    where: str
    picture: str | bytes | None = None
    wrong: tuple[str, ...] = ()
    """What could not be read, field by field."""


def labels(path: Path, layout: SourceLayout, root: Path) -> Iterator[Label]:
    """The rows of a table, in order, called by its path below `root`: several tables may have one name."""
    name = clean_text(os.path.relpath(path, root).replace(os.sep, "/"))
    for place, row in _rows(path):
        if isinstance(row, Mapping):
            yield _label(f"{name}, {place}", row, layout)
        else:
            yield Label(where=f"{name}, {place}", wrong=("it is no JSON object",))


def coco_labels(path: Path) -> Iterator[Label]:
    """The pictures of an annotation file in COCO's form, with the keypoints and boxes of all their people."""
    content = json_file(path)
    if not isinstance(content, dict) or not isinstance(content.get("images"), list):
        raise RefBenchError(f"{path} is not in COCO's form: it has no list of images")
    of_picture: dict[Any, list[Mapping[str, Any]]] = {}
    annotations = content.get("annotations")
    for one in annotations if isinstance(annotations, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("image_id"), int | str):
            of_picture.setdefault(one["image_id"], []).append(one)
    for image in content["images"]:
        if not isinstance(image, Mapping) or not isinstance(image.get("file_name"), str):
            continue
        mine = of_picture.get(image["id"], []) if isinstance(image.get("id"), int | str) else []
        row = {
            "picture": image["file_name"],
            "people": [one["keypoints"] for one in mine if one.get("keypoints")],
            "boxes_xywh": [one["bbox"] for one in mine if one.get("bbox")],
        }
        yield _label(f"{path.name}, {clean_text(image['file_name'])}", row, SourceLayout())


def dataset_files(folder: Path) -> list[Path]:
    """The files of a dataset directory of Hugging Face: Arrow as saved to disk, or Parquet as in a repository."""
    saved = sorted(folder.rglob("data-*.arrow")) if list(folder.glob("**/dataset_info.json")) else []
    return saved or sorted(path for path in folder.rglob("*.parquet") if not path.name.startswith("."))


def _label(where: str, row: Mapping[str, Any], layout: SourceLayout) -> Label:
    wrong: list[str] = []
    if isinstance(row.get("conditions"), Mapping):  # the released engine writes them inside and, once judged, flat
        row = {**row, **row["conditions"]}
    values = {field: _cell(row, field, layout) for field in SPELLINGS}
    picture = values["picture"]
    if isinstance(picture, Mapping):  # as Hugging Face keeps pictures
        picture = picture.get("bytes") or picture.get("path")
    if not isinstance(picture, str | bytes) or not picture:
        wrong.append("it names no picture")
        picture = None
    boxes = _boxes(values["boxes"], wrong) or tuple(
        (x, y, x + width, y + height) for x, y, width, height in _boxes(values["boxes_xywh"], wrong, corners=False)
    )
    return Label(
        where=where,
        picture=picture.strip() if isinstance(picture, str) else picture,
        caption=_text(values["caption"]),
        subject=_text(values["subject"]),
        style=_text(values["style"]),
        people=_people(values["people"], wrong),
        boxes=boxes,
        licence=_text(values["licence"]) or "",
        given=tuple(_given(row)),
        marks=_marks(row.get("judge"), wrong),
        wrong=tuple(wrong),
    )


def _given(row: Mapping[str, Any]) -> Iterator[tuple[Type, tuple[str, ...]]]:
    """The references of an entry in the form of the released engine."""
    for kind in TYPES if "original_image_path" in row else ():
        said = next((row[key] for key in path_keys(kind) if row.get(key)), None)
        paths = [path for path in (said if isinstance(said, list) else [said]) if isinstance(path, str) and path]
        if paths and kind != "caption":
            yield kind, tuple(paths)


def _marks(said: Any, wrong: list[str]) -> tuple[tuple[str, int], ...]:
    marks = said if isinstance(said, Mapping) else {}
    good = {str(axis): mark for axis, mark in marks.items() if type(mark) is int and 1 <= mark <= 5}
    if len(good) < len(marks):
        wrong.append("judge: marks are whole numbers from 1 to 5")
    return tuple(sorted(good.items()))


def _cell(row: Mapping[str, Any], field: str, layout: SourceLayout) -> Any:
    if field in layout.columns:
        return row.get(layout.columns[field])
    return next((row[name] for name in SPELLINGS[field] if row.get(name) not in (None, "")), None)


def _text(value: Any) -> str | None:
    """Words, or a number of a class; a list of captions is its first."""
    if isinstance(value, list | tuple) and value:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return clean_text(str(value)).strip() or None


def _people(value: Any, wrong: list[str]) -> tuple[Person, ...]:
    numbers = _numbers(value)
    if numbers is None:
        return ()
    if numbers.size % (_JOINTS * 3) or not numbers.size or len(numbers.ravel()) > _MOST * _JOINTS * 3:
        wrong.append(f"keypoints: x, y and visibility of {_JOINTS} joints are wanted for each person")
        return ()
    return tuple(
        tuple((float(x), float(y), float(v)) for x, y, v in person) for person in numbers.reshape(-1, _JOINTS, 3)
    )


def _boxes(value: Any, wrong: list[str], *, corners: bool = True) -> tuple[Box, ...]:
    values = _numbers(value)
    if values is None:
        return ()
    if values.size % 4 or not values.size or values.size > _MOST * 4:
        wrong.append("boxes: four numbers are wanted for each")
        return ()
    rows = [(float(a), float(b), float(c), float(d)) for a, b, c, d in values.reshape(-1, 4)]
    good = tuple((a, b, c, d) for a, b, c, d in rows if (c > a and d > b if corners else c > 0 and d > 0))
    if len(good) < len(rows):
        wrong.append(f"boxes: {len(rows) - len(good)} of {len(rows)} have no area")
    return good


def _numbers(value: Any) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """The numbers of nested lists or of their JSON. None when there is nothing; a single 0 when it cannot be read."""
    if isinstance(value, str):
        try:
            value = json_value(value, "numbers")
        except RefBenchError:
            return np.zeros(1)
    if value is None or (isinstance(value, list | tuple) and not value):
        return None
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return np.zeros(1)
    return array if np.isfinite(array).all() and np.abs(array).max(initial=0) < 1e6 else np.zeros(1)


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """The rows with their places in the file, as an editor counts them."""
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".arrow"):
        yield from ((f"row {number}", row) for number, row in enumerate(_arrow_rows(path, suffix), 1))
    elif suffix == ".json":
        content = json_file(path)
        if isinstance(content, dict):
            content = next((part for part in content.values() if isinstance(part, list)), None)
        if not isinstance(content, list):
            raise RefBenchError(f"{path} is no list of rows: give objects in a list")
        yield from ((f"entry {number}", row) for number, row in enumerate(content, 1))
    else:
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                if suffix == ".jsonl":
                    yield from (
                        (f"line {number}", _object(line)) for number, line in enumerate(file, 1) if line.strip()
                    )
                else:
                    table = csv.DictReader(file, delimiter="\t" if suffix == ".tsv" else ",")
                    yield from ((f"line {table.line_num}", row) for row in table)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise RefBenchError(f"{path} cannot be read as a table: {error}") from error


def _object(line: str) -> Any:
    """Returns None for a line that is not valid JSON: one damaged row is not worth the other ten million."""
    try:
        return json_value(line, "a row")
    except RefBenchError:
        return None


def _arrow_rows(path: Path, suffix: str) -> Iterator[Any]:
    """Batch by batch: a file of pictures does not fit into memory."""
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise RefBenchError(f"{path} needs an extra: pip install 'refbench[parquet]', or give a CSV table") from error
    try:
        if suffix == ".parquet":
            with parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=64):
                    yield from batch.to_pylist()
        else:
            with pyarrow.memory_map(str(path)) as file:
                for batch in pyarrow.ipc.open_stream(file):
                    for start in range(0, batch.num_rows, 64):
                        yield from batch.slice(start, 64).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise RefBenchError(f"{path} cannot be read as {suffix[1:]}: {error}") from error
