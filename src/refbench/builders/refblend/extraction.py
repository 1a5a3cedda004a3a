"""The worker's side of making references: a picture is opened once, and all that is wanted of it is made and written.

Runs in threads, processes or on a cluster. Files are named by what they are made from, so a second try writes the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.builders.refblend.tables import Box, Person
from refbench.extractors import EXTRACTORS, Extracted
from refbench.extractors.bbox import NETWORK as OBJECTS_NETWORK
from refbench.extractors.bbox import draw_box
from refbench.extractors.pose import VISIBLE, draw_coco, find_people
from refbench.failure import Failure
from refbench.networks import Feature, load_network
from refbench.pictures import Pixels, decode, facts_of, picture_bytes, read_pixels
from refbench.record import Record
from refbench.runs.disk import disk_error

VERSION = 1
"""Bumped when the same picture would give another reference."""
SURE = 0.5
"""Score from which an object is worth naming; 72 of 123 photographs and renderings have one."""
_INK = 200  # grey below which a pixel of a sketch is part of a line


class Wanted(NamedTuple):
    """One reference to make. `key` names its files and its record."""

    key: str
    extractor: str
    """Of the registry, or `people` and `boxes` (from annotations), `each_pose` (one drawing a person), `objects`,
    `given` (as the source has it)."""
    seed: int = 0
    files: tuple[str, ...] = ()
    """Where the source has it."""


class PictureRow(NamedTuple):
    """A picture and what is wanted of it; `key` is the hash of its content."""

    key: str
    path: str
    wanted: tuple[Wanted, ...]
    people: tuple[Person, ...] = ()
    boxes: tuple[Box, ...] = ()


class Drawn(Record):
    """One file that was written, with the facts that thresholds are about."""

    bytes: int
    width: int
    height: int
    box: Box | None = None
    facts: Mapping[str, float] = {}


class Made(Record):
    """What came of one wish: drawings, in order, or names of objects."""

    drawn: tuple[Drawn, ...] = ()
    labels: tuple[str, ...] = ()


Outcomes: TypeAlias = list[tuple[str, Made | Failure]]


def reference_file(folder: Path, key: str, number: int = 0) -> Path:
    """Where a reference lies."""
    return folder / key[:2] / f"{key}{f'-{number}' if number else ''}.png"


class Extraction:
    """Called with rows by an executor."""

    def __init__(self, folder: str, device: str = "cpu") -> None:
        self._folder = Path(folder)
        self._device = device

    def __call__(self, rows: Sequence[PictureRow]) -> list[Outcomes | Failure]:
        return [self._row(row) for row in rows]

    def _row(self, row: PictureRow) -> Outcomes | Failure:
        data = picture_bytes(Path(row.path))
        if isinstance(data, Failure):
            return data
        facts = facts_of(data)
        if not isinstance(facts, Failure) and facts.sha256 != row.key:
            return Failure(kind="unreadable_picture", detail="the file has changed since the build began")
        pixels = decode(data, facts=facts)
        if isinstance(pixels, Failure):
            return pixels
        return [(wanted.key, self._make(wanted, pixels, row)) for wanted in row.wanted]

    def _make(self, wanted: Wanted, pixels: Pixels, row: PictureRow) -> Made | Failure:
        if wanted.extractor == "objects":
            seen: Feature | Failure = load_network(OBJECTS_NETWORK, self._device)([pixels])[0]
            if isinstance(seen, Failure):
                return seen
            return Made(labels=tuple(str(n) for n, s in zip(seen["labels"], seen["scores"], strict=True) if s >= SURE))
        drawings = self._drawings(wanted, pixels, row)
        if isinstance(drawings, Failure):
            return drawings
        return Made(
            drawn=tuple(self._written(wanted, number, drawing, more) for number, (drawing, more) in enumerate(drawings))
        )

    def _drawings(
        self, wanted: Wanted, pixels: Pixels, row: PictureRow
    ) -> list[tuple[Extracted, Mapping[str, float]]] | Failure:
        if wanted.extractor in ("people", "pose", "each_pose"):
            seen = np.array(row.people) if row.people else find_people(pixels, self._device)
            if isinstance(seen, Failure):
                return seen
            groups = seen[:, None] if wanted.extractor == "each_pose" else seen[None]
            return [
                (Extracted(draw_coco(group, pixels.shape, wanted.seed)), {"joints": _joints(group)}) for group in groups
            ]
        if wanted.extractor == "given":
            return _given(wanted.files)
        if wanted.extractor == "boxes":
            boxes = [box for given in row.boxes if (box := _inside(given, pixels.shape)) is not None]
            if not boxes:
                return Failure(kind="no_detection", detail="no annotated box lies in the picture")
            return [(Extracted(draw_box(box, pixels.shape), box), {}) for box in boxes]
        run = EXTRACTORS[wanted.extractor].run
        assert run is not None, wanted.extractor
        made = run(pixels, wanted.seed, self._device)
        return made if isinstance(made, Failure) else [(made, {})]

    def _written(self, wanted: Wanted, number: int, made: Extracted, more: Mapping[str, float]) -> Drawn:
        data = made.png()
        path = reference_file(self._folder, wanted.key, number)
        # Not flushed to the disk: after a power cut the size tells, and the reference is made again.
        part = path.with_name(f".part-{path.name}-{os.getpid()}-{threading.get_ident()}")
        try:
            try:
                part.write_bytes(data)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                part.write_bytes(data)
            part.replace(path)
        except OSError as error:
            raise disk_error(error, self._folder) from error
        facts = {name: round(float(value), 6) for name, value in {**_facts(wanted.extractor, made), **more}.items()}
        height, width = made.pixels.shape[:2]
        return Drawn(bytes=len(data), width=width, height=height, box=made.box, facts=facts)


def _given(files: Sequence[str]) -> list[tuple[Extracted, Mapping[str, float]]] | Failure:
    """References as the source has them; one that cannot be read spoils the others' numbers, so it is the failure."""
    found: list[tuple[Extracted, Mapping[str, float]]] = []
    for file in files:
        pixels = read_pixels(Path(file))
        if isinstance(pixels, Failure):
            return pixels
        found.append((Extracted(pixels), {}))
    return found


def _inside(box: Box, shape: tuple[int, ...]) -> Box | None:
    """The part of an annotated box that lies in the picture."""
    height, width = shape[:2]
    x1, y1, x2, y2 = max(box[0], 0.0), max(box[1], 0.0), min(box[2], float(width)), min(box[3], float(height))
    return (x1, y1, x2, y2) if x2 - x1 >= 1 and y2 - y1 >= 1 else None


def _joints(people: NDArray[np.float64]) -> float:
    """Joints seen of the person of whom most are."""
    return float((people[:, :, 2] > VISIBLE).sum(axis=1).max())


def _facts(extractor: str, made: Extracted) -> dict[str, float]:
    measure = _MEASURES.get(extractor)
    return {} if measure is None else measure(made)


def _share(made: Extracted) -> float:
    return cv2.countNonZero(made.pixels) / made.pixels.size


def _box_share(made: Extracted) -> float:
    if made.box is None:
        return 0.0
    x1, y1, x2, y2 = made.box
    height, width = made.pixels.shape[:2]
    return float((x2 - x1) * (y2 - y1) / (height * width))


def _ink(made: Extracted) -> dict[str, float]:
    return {"ink": np.count_nonzero(made.pixels < _INK) / made.pixels.size}


def _regions(made: Extracted) -> dict[str, float]:
    flat = made.pixels.reshape(-1, 3).astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colours = np.unique(flat)
    return {"regions": float(np.count_nonzero(colours)), "covered": np.count_nonzero(flat) / flat.size}


_MEASURES: Mapping[str, Callable[[Extracted], dict[str, float]]] = {
    "canny": lambda made: {"edges": _share(made)},
    "mask": lambda made: {"area": _share(made)},
    "bbox": lambda made: {"area": _box_share(made)},
    "boxes": lambda made: {"area": _box_share(made)},
    "depth": lambda made: {"spread": float(made.pixels.std()) / 255},
    "sketch": _ink,
    "sketch_dodge": _ink,
    "semantic_map": _regions,
    "semantic_map_low_iou": _regions,
}
