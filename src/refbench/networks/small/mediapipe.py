"""Single-shot detectors in MediaPipe's format: anchors, decoding, weighted suppression.

The pose detector and the face detector differ in numbers only; both run through LiteRT on square, padded crops.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.pictures import Pixels

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class SsdFormat:
    """How a detector lays out its anchors and its output; the two formats are MediaPipe's published graphs."""

    size: int
    layers: tuple[tuple[int, int], ...]
    """(stride, anchors per cell), in the order of the output rows."""
    points: int
    low: float
    """Pixel value 0 as the network wants it; 255 is 1."""
    threshold: float


POSE = SsdFormat(size=224, layers=((8, 2), (16, 2), (32, 6)), points=4, low=-1.0, threshold=0.5)
FACE = SsdFormat(size=192, layers=((4, 1),), points=6, low=-1.0, threshold=0.6)


@dataclass(frozen=True, eq=False)
class Hit:
    """One detection in picture pixels: box x1 y1 x2 y2, the format's alignment points (p x 2), score."""

    box: Floats
    points: Floats
    score: float


@dataclass(frozen=True)
class Square:
    """A square window on the picture, in pixels; it may reach beyond the picture, where everything is black."""

    x: float
    y: float
    side: float


def around(pixels: Pixels) -> Square:
    """The smallest centred square that holds the whole picture."""
    height, width = pixels.shape[:2]
    side = float(max(height, width))
    return Square((width - side) / 2, (height - side) / 2, side)


def anchors(form: SsdFormat) -> Floats:
    """Centres (n x 2) in 0..1; these detectors use anchors of one fixed size, so that centres are all there is."""
    rows = []
    for stride, per_cell in form.layers:
        cells = -(-form.size // stride)
        middle = (np.arange(cells, dtype=np.float32) + 0.5) / cells
        y, x = np.meshgrid(middle, middle, indexing="ij")
        rows.append(np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), per_cell, axis=0))
    return np.concatenate(rows).astype(np.float32)


class LiteModel:
    """A LiteRT model of one input. An interpreter holds its tensors, so calls take turns."""

    def __init__(self, path: Path) -> None:
        runtime: Any = importlib.import_module("ai_edge_litert.interpreter")
        self._interpreter = runtime.Interpreter(model_path=str(path))
        self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._outputs = [d["index"] for d in self._interpreter.get_output_details()]
        self._turn = threading.Lock()

    def __call__(self, tensor: Floats) -> list[Floats]:
        with self._turn:
            self._interpreter.set_tensor(self._input, tensor)
            self._interpreter.invoke()
            return [np.array(self._interpreter.get_tensor(index), dtype=np.float32) for index in self._outputs]


class SsdDetector:
    """A detector on square windows of a picture."""

    def __init__(self, path: Path, form: SsdFormat) -> None:
        self._model = LiteModel(path)
        self._form = form
        self._anchors = anchors(form)

    def __call__(self, pixels: Pixels, window: Square) -> list[Hit]:
        """Detections inside the window, best first, duplicates merged."""
        form = self._form
        crop = cut(pixels, window, 0.0, form.size).astype(np.float32)
        tensor = crop * np.float32((1 - form.low) / 255) + np.float32(form.low)
        raw, logits = self._model(tensor[None])
        return merge(decode(raw[0], logits[0, :, 0], self._anchors, form, window))


def cut(pixels: Pixels, window: Square, angle: float, size: int) -> Pixels:
    """The window, turned by `angle` (radians, clockwise as seen) about its centre, sampled at size x size."""
    scale = window.side / size
    source = pixels
    shrink = 1.0
    if scale > 2:  # bilinear sampling of a large picture would skip pixels: average first
        height, width = pixels.shape[:2]
        target = max(1, round(width / scale)), max(1, round(height / scale))
        source = np.asarray(cv2.resize(pixels, target, interpolation=cv2.INTER_AREA), dtype=np.uint8)
        shrink = 1 / scale
    cosine, sine = np.cos(angle) * scale * shrink, np.sin(angle) * scale * shrink
    middle = (size - 1) / 2
    # Pixel centres: the centre of the window is at (x + side / 2 - 0.5) in index coordinates.
    centre_x = (window.x + window.side / 2) * shrink - 0.5
    centre_y = (window.y + window.side / 2) * shrink - 0.5
    back = np.array(
        [
            [cosine, -sine, centre_x - cosine * middle + sine * middle],
            [sine, cosine, centre_y - sine * middle - cosine * middle],
        ]
    )
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return np.asarray(cv2.warpAffine(source, back, (size, size), flags=flags), dtype=np.uint8)


def decode(raw: Floats, logits: Floats, centres: Floats, form: SsdFormat, window: Square) -> list[Hit]:
    """Rows above the threshold, in picture pixels."""
    scores = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
    hits = []
    for row in np.flatnonzero(scores >= form.threshold):
        values = raw[row].reshape(-1, 2) / form.size
        centre = values[0] + centres[row]
        half = values[1] / 2
        points = values[2 : 2 + form.points] + centres[row]
        offset = np.array([window.x, window.y], dtype=np.float32)
        corners = np.stack([centre - half, centre + half, *points]) * np.float32(window.side) + offset
        hits.append(Hit(corners[:2].ravel().astype(np.float32), corners[2:].astype(np.float32), float(scores[row])))
    return sorted(hits, key=lambda hit: -hit.score)


def merge(hits: Sequence[Hit], overlap: float = 0.3) -> list[Hit]:
    """Hits of one thing become one: coordinates averaged by score, the best score kept (MediaPipe's weighting)."""
    left = list(hits)
    kept = []
    while left:
        same = [hit for hit in left if iou(left[0].box, hit.box) > overlap] or [left[0]]
        weights = np.array([hit.score for hit in same])
        box = np.average([hit.box for hit in same], axis=0, weights=weights)
        points = np.average([hit.points for hit in same], axis=0, weights=weights)
        kept.append(Hit(box.astype(np.float32), points.astype(np.float32), left[0].score))
        taken = {id(hit) for hit in same}
        left = [hit for hit in left if id(hit) not in taken]
    return kept


def iou(a: Floats, b: Floats) -> float:
    """Intersection over union of two boxes; 0 where both are empty."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    inner = max(0.0, float(width)) * max(0.0, float(height))
    outer = float((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])) - inner
    return inner / outer if outer > 0 else 0.0
