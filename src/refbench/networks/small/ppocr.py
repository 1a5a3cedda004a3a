"""Text in a picture, read by PP-OCRv6 small: one model for English, Chinese, Japanese and other Latin scripts.

Lines are recognised one by one: in a batch the padding of a line, and so its score, would depend on its neighbours.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.small.graph import Session
from refbench.pictures import Pixels

Floats = NDArray[np.float32]

_MAP = 0.3
_BOX = 0.5
_UNCLIP = 1.6
_LEAST = 3
_MOST = 1000
_VERTICAL = 1.5


def quads_of(probability: Floats, size: tuple[int, int]) -> list[Floats]:
    """Quadrilaterals (4 x 2, clockwise from the top left) on a picture of `size` (width, height).

    The network is trained to mark the core of each line; growing the rectangle around the core by
    area * 1.6 / perimeter gives the line back. A rectangle's offset needs no polygon library.
    """
    height, width = probability.shape
    marked = cv2.dilate((probability > _MAP).astype(np.uint8), np.ones((2, 2), dtype=np.uint8))
    contours, _ = cv2.findContours(marked, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    scale = np.array([size[0] / width, size[1] / height])
    quads = []
    for contour in contours[:_MOST]:
        centre, sides, angle = cv2.minAreaRect(contour)
        if min(sides) < _LEAST:
            continue
        core = cv2.boxPoints((centre, sides, angle))
        if _mean_inside(probability, np.asarray(core, dtype=np.float32)) < _BOX:
            continue
        grow = 2 * sides[0] * sides[1] * _UNCLIP / (2 * (sides[0] + sides[1]))
        grown = cv2.boxPoints((centre, (sides[0] + grow, sides[1] + grow), angle))
        quad = np.clip(clockwise(np.round(grown * scale)), 0, np.array(size) - 1).astype(np.float32)
        if np.linalg.norm(quad[0] - quad[1]) > _LEAST and np.linalg.norm(quad[0] - quad[3]) > _LEAST:
            quads.append(quad)
    return quads


def clockwise(corners: Floats) -> Floats:
    """Top left, top right, bottom right, bottom left: by x into left and right pairs, each by y."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left = by_x[:2][np.argsort(by_x[:2, 1], kind="stable")]
    right = by_x[2:][np.argsort(by_x[2:, 1], kind="stable")]
    return np.stack([left[0], right[0], right[1], left[1]]).astype(np.float32)


def crop(pixels: Pixels, quad: Floats) -> Pixels:
    """The quadrilateral as an upright strip; a tall one is laid on its side, as the recogniser was trained."""
    width = max(1, int(max(np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[2] - quad[3]))))
    height = max(1, int(max(np.linalg.norm(quad[0] - quad[3]), np.linalg.norm(quad[1] - quad[2]))))
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], dtype=np.float32)
    change = cv2.getPerspectiveTransform(quad, target)
    strip = cv2.warpPerspective(pixels, change, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    if height >= _VERTICAL * width:
        strip = np.rot90(strip)
    return np.ascontiguousarray(strip, dtype=np.uint8)


def reading_order(quads: Sequence[Floats]) -> list[int]:
    """Indices row by row, left to right; a box joins a row when its middle lies within the row's first box."""
    rows: list[list[int]] = []
    for index in sorted(range(len(quads)), key=lambda i: float(quads[i][:, 1].min())):
        middle = float(quads[index][:, 1].mean())
        for row in rows:
            first = quads[row[0]][:, 1]
            if first.min() <= middle <= first.max():
                row.append(index)
                break
        else:
            rows.append([index])
    return [index for row in rows for index in sorted(row, key=lambda i: float(quads[i][:, 0].min()))]


def _mean_inside(probability: Floats, quad: Floats) -> float:
    height, width = probability.shape
    left, top = np.clip(np.floor(quad.min(axis=0)), 0, [width - 1, height - 1]).astype(int)
    right, bottom = np.clip(np.ceil(quad.max(axis=0)), 0, [width - 1, height - 1]).astype(int)
    mask = np.zeros((bottom - top + 1, right - left + 1), dtype=np.uint8)
    cv2.fillPoly(mask, [(quad - [left, top]).astype(np.int32)], [1])
    return float(cv2.mean(probability[top : bottom + 1, left : right + 1], mask)[0])


_SHORT, _LONG = 736, 2000
_SLIM, _MARGIN = 4, 3
_MOST_ENLARGED = 3.0
_HEIGHT, _WIDTH = 48, 320
_TURNED = (48, 192)
_SURE_TURNED = 0.9
_CHANNELS_FIRST = (2, 0, 1)


class PpOcr:
    """Every line the detector finds, with the recogniser's score; what to believe is the caller's choice."""

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        self._detect = Session(paths["PP-OCRv6_det_small.onnx"], device)
        self._turned = Session(paths["ch_ppocr_mobile_v2.0_cls_mobile.onnx"], device)
        self._recognise = Session(paths["PP-OCRv6_rec_small.onnx"], device)
        self._characters = ["", *_listed_characters(paths["PP-OCRv6_rec_small.onnx"]), " "]

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self._read(pixels) for pixels in pictures]

    def _read(self, pixels: Pixels) -> Feature:
        # PaddleOCR's networks were trained on OpenCV's channel order.
        picture, scale, (left, top) = _fitted(np.ascontiguousarray(pixels[:, :, ::-1]))
        height, width = picture.shape[:2]
        probability = self._detect(_tensor(_to_multiples(picture)))[0][0, 0]
        quads = quads_of(probability, (width, height))
        lines: list[tuple[str, float, Floats]] = []
        for index in reading_order(quads):
            text, score = self._line(crop(picture, quads[index]))
            if text.strip():
                lines.append((text, score, ((quads[index] - [left, top]) / scale).astype(np.float32)))
        return {
            "lines": np.array([text for text, _, _ in lines], dtype=np.str_),
            "scores": np.array([score for _, score, _ in lines], dtype=np.float32),
            "boxes": np.array([box for _, _, box in lines], dtype=np.float32).reshape(-1, 4, 2),
        }

    def _line(self, strip: Pixels) -> tuple[str, float]:
        turned = self._turned(_tensor(_padded(strip, *_TURNED)))[0][0, 1]
        if turned > _SURE_TURNED:
            strip = np.ascontiguousarray(strip[::-1, ::-1])
        ratio = strip.shape[1] / strip.shape[0]
        width = max(_WIDTH, math.ceil(_HEIGHT * ratio))
        steps = self._recognise(_tensor(_padded(strip, _HEIGHT, width)))[0][0]
        return decoded(steps, self._characters)


def decoded(steps: Floats, characters: Sequence[str]) -> tuple[str, float]:
    """The best class of each step, repeats and blanks (class 0) dropped; the score is the kept steps' mean."""
    best = steps.argmax(axis=1)
    kept = (best != 0) & np.concatenate([[True], best[1:] != best[:-1]])
    if not kept.any():
        return "", 0.0
    return "".join(characters[index] for index in best[kept]), float(steps.max(axis=1)[kept].mean())


def _listed_characters(path: Path) -> list[str]:
    """One a line in the model's own metadata; the blank before them and the space after them are implied."""
    model: Any = importlib.import_module("onnx").load(str(path))
    listed: str = next(entry.value for entry in model.metadata_props if entry.key == "character")
    return listed.split("\n")


def _fitted(picture: Pixels) -> tuple[Pixels, float, tuple[int, int]]:
    """The picture at a size the detector reads well, by what it was scaled, and what was added left and top."""
    longest = max(picture.shape[:2])
    scale = 1.0
    if longest > _LONG:
        scale = _LONG / longest
        size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)
    height, width = picture.shape[:2]
    # A line that fills a strip would be enlarged to hundreds of pixels and seen in pieces, or not at all.
    across = math.ceil((height / _MARGIN - width) / 2) if height > _SLIM * width else 0
    down = math.ceil((width / _MARGIN - height) / 2) if width > _SLIM * height else 0
    if height < _HEIGHT:
        down = max(down, _HEIGHT)
    if across or down:
        picture = np.asarray(cv2.copyMakeBorder(picture, down, down, across, across, cv2.BORDER_CONSTANT))
    return picture, scale, (across, down)


def _to_multiples(picture: Pixels) -> Pixels:
    """The shorter side at 736 or more (small pictures three times as large), both sides multiples of 32."""
    height, width = picture.shape[:2]
    scale = min(_MOST_ENLARGED, max(1.0, _SHORT / min(height, width)))
    size = max(32, round(width * scale / 32) * 32), max(32, round(height * scale / 32) * 32)
    return np.asarray(cv2.resize(picture, size), dtype=np.uint8)


def _padded(strip: Pixels, height: int, width: int) -> Floats:
    """The strip at this height, squeezed where it is too long, mid grey to its right."""
    inner = min(width, math.ceil(height * strip.shape[1] / strip.shape[0]))
    canvas = np.full((height, width, 3), 127.5, dtype=np.float32)
    canvas[:, :inner] = cv2.resize(strip, (inner, height))
    return canvas


def _tensor(picture: Pixels | Floats) -> Floats:
    """1 x 3 x height x width, -1 to 1."""
    scaled = picture.astype(np.float32) / np.float32(127.5) - np.float32(1)
    return np.ascontiguousarray(scaled.transpose(_CHANNELS_FIRST)[None])
