"""Faces and who they are: two detectors that must agree, dlib's five-point alignment and its 128-number vectors.

dlib's HOG detector misses small, dim and tilted faces and takes a dog with sunglasses for one; MediaPipe's takes a
violin; faces that both see, or one sees twice or clearly, were faces in all of 123 pictures.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.small.mediapipe import FACE, Floats, Hit, Square, SsdDetector, around, iou, merge
from refbench.pictures import Pixels

LEAST_SIDE = 20.0
"""Faces under this many pixels tell no identity: their vectors say more about the scaling than about the face."""

_HOG_SIZE = 1024
_HOG_ALONE = 1.0
_WHOLE_ALONE = 0.75
_ZOOM_ALONE = 0.8
_SAME = 0.3


class _Face(NamedTuple):
    box: Floats
    score: float


class DlibFace:
    """Faces, largest first, each with dlib's vector; nobody is an empty array."""

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        self._dlib: Any = importlib.import_module("dlib")
        self._hog = self._dlib.get_frontal_face_detector()
        self._points = self._dlib.shape_predictor(str(paths["shape_predictor_5_face_landmarks.dat"]))
        self._vectors = self._dlib.face_recognition_model_v1(str(paths["dlib_face_recognition_resnet_model_v1.dat"]))
        self._detector = SsdDetector(paths["face_detection_full_range_sparse.tflite"], FACE)
        self._turn = threading.Lock()  # dlib's networks keep their activations in themselves

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self._faces(np.ascontiguousarray(pixels)) for pixels in pictures]

    def corners(self, pixels: Pixels, box: Floats) -> Floats:
        """Five points of the face in a box, x and y: the outer and inner corners of both eyes, and below the nose."""
        left, top, right, bottom = (round(float(v)) for v in box)
        with self._turn:
            shape = self._points(np.ascontiguousarray(pixels), self._dlib.rectangle(left, top, right - 1, bottom - 1))
        return np.array([(point.x, point.y) for point in shape.parts()], dtype=np.float32)

    def vector(self, pixels: Pixels, box: Floats) -> Floats:
        """Whose face it is in a box, whether or not a detector sees one there."""
        with self._turn:
            return self._vector(np.ascontiguousarray(pixels), _Face(box, 1.0))

    def _faces(self, pixels: Pixels) -> Feature:
        with self._turn:
            hogs = self._hog_faces(pixels)
            faces = agreed(hogs, self._detector(pixels, around(pixels)), self._zoomed(pixels))
            sides = [(f.box[2] - f.box[0]) * (f.box[3] - f.box[1]) for f in faces]
            order = np.argsort([-side for side in sides], kind="stable")
            chosen = [faces[i] for i in order if sides[i] >= LEAST_SIDE**2]
            vectors = [self._vector(pixels, face) for face in chosen]
        return {
            "boxes": np.array([f.box for f in chosen], dtype=np.float32).reshape(-1, 4),
            "scores": np.array([f.score for f in chosen], dtype=np.float32),
            "vectors": np.array(vectors, dtype=np.float32).reshape(-1, 128),
        }

    def _hog_faces(self, pixels: Pixels) -> list[_Face]:
        """HOG finds faces from 80 pixels on: small pictures are doubled, large ones brought down to keep it quick."""
        height, width = pixels.shape[:2]
        scale = min(2.0, _HOG_SIZE / max(height, width))
        size = max(1, round(width * scale)), max(1, round(height * scale))
        how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
        boxes, scores, _ = self._hog.run(np.ascontiguousarray(cv2.resize(pixels, size, interpolation=how)), 0, 0.0)
        return [
            _Face(np.array([b.left(), b.top(), b.right() + 1, b.bottom() + 1], dtype=np.float32) / scale, float(score))
            for b, score in zip(boxes, scores, strict=True)
        ]

    def _zoomed(self, pixels: Pixels) -> list[Hit]:
        """Faces found in windows of half the picture's longer side, which overlap by half."""
        height, width = pixels.shape[:2]
        side = max(height, width) / 2
        hits = []
        for y in _steps(height, side):
            for x in _steps(width, side):
                hits += self._detector(pixels, Square(x, y, side))
        return merge(sorted(hits, key=lambda hit: -hit.score))

    def _vector(self, pixels: Pixels, face: _Face) -> Floats:
        left, top, right, bottom = (round(float(v)) for v in face.box)
        shape = self._points(pixels, self._dlib.rectangle(left, top, right - 1, bottom - 1))
        return np.array(self._vectors.compute_face_descriptor(pixels, shape), dtype=np.float32)


def agreed(hogs: Sequence[_Face], whole: Sequence[Hit], zoomed: Sequence[Hit]) -> list[_Face]:
    """Faces that both detectors see, and those that one sees clearly. Scores are MediaPipe's, 0 to 1.

    Boxes are HOG's where it has one: the five-point predictor was trained on them.
    """
    left = sorted([*whole, *zoomed], key=lambda hit: -hit.score)
    clear = {id(hit) for hit in whole if hit.score >= _WHOLE_ALONE} | {
        id(hit) for hit in zoomed if hit.score >= _ZOOM_ALONE
    }
    faces = []
    for hog in sorted(hogs, key=lambda face: -face.score):
        same = [hit for hit in left if iou(hog.box, hit.box) > _SAME]
        left = [hit for hit in left if all(hit is not other for other in same)]
        if same:
            faces.append(_Face(hog.box, same[0].score))
        elif hog.score >= _HOG_ALONE:
            faces.append(_Face(hog.box, 0.5))
    while left:
        same = [hit for hit in left if iou(left[0].box, hit.box) > _SAME] or [left[0]]
        if len(same) > 1 or any(id(hit) in clear for hit in same):  # seen from afar and near, or clearly
            faces.append(_Face(left[0].box, left[0].score))
        left = [hit for hit in left if all(hit is not other for other in same)]
    return faces


def _steps(length: int, side: float) -> list[float]:
    if length <= side:
        return [(length - side) / 2]
    count = int(np.ceil((length - side) / (side / 2))) + 1
    return [float(start) for start in np.linspace(0, length - side, count)]
