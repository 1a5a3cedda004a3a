"""ArcFace: faces found by SCRFD, turned upright by their five points, and InsightFace's 512-number vectors of them.

The weights are for non-commercial research only, so nothing here is a default; `dlib_face` is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.graph import Session, channels_first
from refbench.networks.local.scrfd import Floats, Scrfd
from refbench.networks.network import Feature
from refbench.pictures import Pixels

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
        found = self._detector(pixels)
        vectors = []
        for points in found.points:
            face = upright(pixels, points)
            if isinstance(face, Failure):
                return face
            vectors.append(self.vector(face))
        sides = found.boxes[:, 2:] - found.boxes[:, :2]
        largest = np.argsort(-sides.prod(axis=1), kind="stable")
        return {
            "boxes": found.boxes[largest],
            "scores": found.scores[largest],
            "points": found.points[largest],
            "vectors": np.array(vectors, np.float32).reshape(-1, NUMBERS)[largest],
            "order": largest.astype(np.int32),
        }

    def vector(self, face: Pixels) -> Floats:
        """Of an upright face of 112 x 112 pixels, not normalised."""
        (found,) = self._vectors(channels_first([(face.astype(np.float32) - 127.5) / 127.5]))
        return np.asarray(found[0], np.float32)


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
