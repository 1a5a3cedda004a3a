"""ArcFace: faces found by SCRFD, turned upright by their five points, and InsightFace's 512-number vectors of them.

Everything here follows the `insightface` package to the pixel, rounding included, since ICE-Bench's face scores
come from it. What it does not do is fail on a picture so long that its short side rounds to nothing. The weights are
for non-commercial research only, so nothing here is a default; `dlib_face` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.small.graph import Session, channels_first
from refbench.pictures import Pixels

Floats = NDArray[np.float32]

SIZES = (640, 480, 384, 256, 128)
"""Sides that the picture is brought to, one after the other until a face is found, as ICE-Bench has it: a face that
fills the picture is too large for the detector at 640."""
LEAST_SCORE = 0.5
MOST_OVERLAP = 0.4
_STRIDES = (8, 16, 32)
_ANCHORS = 2


class Detected(NamedTuple):
    """Faces in the detector's order, each with five points: the eyes, the nose, the corners of the mouth."""

    boxes: Floats
    scores: Floats
    points: Floats


class Scrfd:
    """A detector with outputs in three strides: scores, then boxes, then points."""

    def __init__(self, path: Path, device: str) -> None:
        self._session = Session(path, device)

    def __call__(self, pixels: Pixels) -> Detected:
        """The faces at the first of `SIZES` that shows any."""
        for side in SIZES:
            faces = self.at(pixels, side)
            if len(faces.scores):
                break
        return faces

    def at(self, pixels: Pixels, side: int) -> Detected:
        """The faces of the picture when it is fitted into a square of that side."""
        square, scale = letterbox(pixels, side)
        outputs = self._session(channels_first([(square.astype(np.float32) - 127.5) / 128]))
        return decoded(outputs, side, scale)


def letterbox(pixels: Pixels, side: int) -> tuple[Pixels, float]:
    """The picture in the upper left of a black square, and how much smaller it is.

    The scale is that of the rounded height, for both directions, as the package has it.
    """
    height, width = pixels.shape[:2]
    ratio = height / width
    size = (int(side / ratio), side) if ratio > 1 else (side, int(side * ratio))
    fitted = max(1, size[0]), max(1, size[1])
    square = np.zeros((side, side, 3), np.uint8)
    square[: fitted[1], : fitted[0]] = cv2.resize(np.ascontiguousarray(pixels), fitted)
    return square, fitted[1] / height


def decoded(outputs: list[NDArray[Any]], side: int, scale: float) -> Detected:
    """Faces out of the nine outputs: those at or above the least score, the better of each two that overlap."""
    levels = len(_STRIDES)
    kept: list[tuple[Floats, Floats, Floats]] = []
    for level, stride in enumerate(_STRIDES):
        # Some exports put the batch in front, some do not.
        scores, sides, offsets = (
            outputs[level + levels * part].reshape(-1, width) for part, width in enumerate((1, 4, 10))
        )
        there = np.flatnonzero(scores[:, 0] >= LEAST_SCORE)
        centre = _centres(side, stride)[there]
        away = sides[there] * stride
        boxes = np.concatenate([centre - away[:, :2], centre + away[:, 2:]], axis=1)
        points = centre[:, None] + offsets[there].reshape(-1, 5, 2) * stride
        kept.append((boxes, scores[there, 0], points))
    boxes, scores, points = (np.concatenate(parts).astype(np.float32) for parts in zip(*kept, strict=True))
    order = np.argsort(-scores, kind="stable")
    boxes, scores, points = boxes[order] / scale, scores[order], points[order] / scale
    best = not_overlapping(boxes)
    return Detected(boxes[best], scores[best], points[best])


@lru_cache(maxsize=len(SIZES) * len(_STRIDES))
def _centres(side: int, stride: int) -> Floats:
    """x and y that the outputs of a stride are measured from, row by row, once for each anchor."""
    steps = np.arange(side // stride, dtype=np.float32) * stride
    y, x = np.meshgrid(steps, steps, indexing="ij")
    return np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), _ANCHORS, axis=0)


def not_overlapping(boxes: Floats) -> list[int]:
    """Places of the boxes, best first, that overlap none before them by more than 0.4 of what they cover together.

    Sides count their last pixel too, as in the package: for faces of a few pixels it matters.
    """
    sides = boxes[:, 2:] - boxes[:, :2] + 1
    areas = sides.prod(axis=1)
    left = np.arange(len(boxes))
    chosen = []
    while left.size:
        first, others = left[0], left[1:]
        chosen.append(int(first))
        low = np.maximum(boxes[first, :2], boxes[others, :2])
        high = np.minimum(boxes[first, 2:], boxes[others, 2:])
        common = np.maximum(0, high - low + 1).prod(axis=1)
        left = others[common / (areas[first] + areas[others] - common) <= MOST_OVERLAP]
    return chosen


SIDE = 112
NUMBERS = 512
TEMPLATE = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]], np.float32
)
"""Where eyes, nose and corners of the mouth lie in the upright face that the network was trained on."""


class ArcFace:
    """Faces, largest first, each with its vector; `order` is the place that the detector gave it, its best being 0.

    Nobody is empty arrays. One face at a time goes through the network: a batch would change nothing but the
    rounding, and pictures have few faces.
    """

    def __init__(self, detector: Scrfd, vectors: Session) -> None:
        self._detector = detector
        self._vectors = vectors

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self._faces(pixels) for pixels in pictures]

    def _faces(self, pixels: Pixels) -> Feature | Failure:
        faces = self._detector(pixels)
        vectors = []
        for points in faces.points:
            face = upright(pixels, points)
            if isinstance(face, Failure):
                return face
            vectors.append(self.vector(face))
        sides = faces.boxes[:, 2:] - faces.boxes[:, :2]
        largest = np.argsort(-sides.prod(axis=1), kind="stable")
        return {
            "boxes": faces.boxes[largest],
            "scores": faces.scores[largest],
            "points": faces.points[largest],
            "vectors": np.array(vectors, np.float32).reshape(-1, NUMBERS)[largest],
            "order": largest.astype(np.int32),
        }

    def vector(self, face: Pixels) -> Floats:
        """Of an upright face of 112 x 112 pixels, not normalised."""
        (vectors,) = self._vectors(channels_first([(face.astype(np.float32) - 127.5) / 127.5]))
        return np.asarray(vectors[0], np.float32)


def arcface_mbf(paths: Mapping[str, Path], device: str) -> ArcFace:
    """The small pair: SCRFD-500M and MobileFaceNet, trained on WebFace600K."""
    return ArcFace(Scrfd(paths["scrfd_500m_bnkps.onnx"], device), Session(paths["w600k_mbf.onnx"], device))


def arcface_buffalo_l(paths: Mapping[str, Path], device: str) -> ArcFace:
    """ICE-Bench's pair: SCRFD-10G and ResNet50, trained on WebFace600K."""
    return ArcFace(Scrfd(paths["det_10g.onnx"], device), Session(paths["w600k_r50.onnx"], device))


def upright(pixels: Pixels, points: NDArray[Any]) -> Pixels | Failure:
    """The face with its five points on the template's, bilinear, black where the picture ends."""
    turn = similarity(points, TEMPLATE)
    if turn is None:
        return Failure(kind="undefined", detail="the detector put the points of a face all in one place")
    return np.asarray(cv2.warpAffine(np.ascontiguousarray(pixels), turn, (SIDE, SIDE), borderValue=0.0), np.uint8)


def similarity(points: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float64] | None:
    """The turn, scale and shift (2 x 3) that brings the points nearest to the wanted ones in least squares.

    Umeyama's closed form (1991); no mirroring. None where the points have no extent.
    """
    here, there = np.asarray(points, np.float64), np.asarray(wanted, np.float64)
    from_middle, to_middle = here.mean(axis=0), there.mean(axis=0)
    a, b = here - from_middle, there - to_middle
    spread = float((a**2).sum())
    if not (np.isfinite(spread) and spread > 0):
        return None
    u, sizes, v = np.linalg.svd(b.T @ a)
    signs = np.array([1.0, -1.0 if np.linalg.det(u @ v) < 0 else 1.0])
    turn = (u * signs) @ v * float(sizes @ signs) / spread
    return np.column_stack([turn, to_middle - turn @ from_middle])
