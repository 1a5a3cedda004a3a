"""YOLOv4-tiny: objects of COCO's 80 classes, read from Darknet's own weights, which OpenCV 5 no longer opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.small.graph import Graph, Session, channels_first, chunks, folded
from refbench.pictures import Pixels
from refbench.record import RefBenchError

_SIDE = 416
_BATCH = 4
_THRESHOLD = 0.25  # Darknet's default
_OVERLAP = 0.45  # Darknet's default
_EPS = 1e-5
_STRETCH = 1.05  # how far a centre may leave its cell, scale_x_y in the configuration
# Width and height in pixels of the input, for the coarse grid (13 x 13) and the fine one (26 x 26).
_ANCHORS = (((81, 82), (135, 169), (344, 319)), ((23, 27), (37, 58), (81, 82)))

_NAMES = (
    "person, bicycle, car, motorcycle, airplane, bus, train, truck, boat, traffic light, fire hydrant, stop sign, "
    "parking meter, bench, bird, cat, dog, horse, sheep, cow, elephant, bear, zebra, giraffe, backpack, umbrella, "
    "handbag, tie, suitcase, frisbee, skis, snowboard, sports ball, kite, baseball bat, baseball glove, skateboard, "
    "surfboard, tennis racket, bottle, wine glass, cup, fork, knife, spoon, bowl, banana, apple, sandwich, orange, "
    "broccoli, carrot, hot dog, pizza, donut, cake, chair, couch, potted plant, bed, dining table, toilet, tv, laptop, "
    "mouse, remote, keyboard, cell phone, microwave, oven, toaster, sink, refrigerator, book, clock, vase, scissors, "
    "teddy bear, hair drier, toothbrush"
)
COCO: tuple[str, ...] = tuple(_NAMES.split(", "))
"""COCO's classes by its own names, in Darknet's order."""


class YoloV4Tiny:
    """Gives `boxes`, `scores`, `labels`, best first, none is fine; pictures are squeezed, as by Darknet."""

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        self._session = Session(_model(paths["yolov4-tiny.weights"]), device)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        features: list[Feature | Failure] = []
        for some in chunks(pictures, _BATCH):
            # Bilinear without smoothing, as the network saw its pictures in training.
            small = [cv2.resize(p, (_SIDE, _SIDE), interpolation=cv2.INTER_LINEAR) / np.float32(255) for p in some]
            for picture, *grids in zip(some, *self._session(channels_first(small)), strict=True):
                features.append(_objects(grids, picture.shape[1], picture.shape[0]))
        return features


def _model(path: Path) -> bytes:
    graph = Graph(picture=("n", 3, _SIDE, _SIDE))
    layers = _Layers(graph, path)

    def stage(x: str, wide: int) -> tuple[str, str]:
        """Half of the channels take a longer way; gives the branch that the fine grid reads, and the result."""
        whole = layers.conv(x, wide, wide, 3)
        first = layers.conv(graph.second_half(whole, wide), wide // 2, wide // 2, 3)
        second = layers.conv(first, wide // 2, wide // 2, 3)
        branch = layers.conv(graph.op("Concat", second, first, axis=1), wide, wide, 1)
        return branch, graph.max_pool(graph.op("Concat", whole, branch, axis=1), 2, 2)

    x = layers.conv("picture", 3, 32, 3, stride=2)
    x = layers.conv(x, 32, 64, 3, stride=2)
    _, x = stage(x, 64)
    _, x = stage(x, 128)
    branch, x = stage(x, 256)
    shared = layers.conv(layers.conv(x, 512, 512, 3), 512, 256, 1)
    coarse = layers.plain_conv(layers.conv(shared, 256, 512, 3), 512, 255)
    up = graph.twice_as_large(layers.conv(shared, 256, 128, 1))
    fine = layers.conv(graph.op("Concat", up, branch, axis=1), 128 + 256, 256, 3)
    fine = layers.plain_conv(fine, 256, 255)
    layers.must_be_used_up()
    return graph.model(coarse=coarse, fine=fine)


class _Layers:
    """Takes the numbers of a Darknet file layer by layer, in the order in which the graph is built."""

    def __init__(self, graph: Graph, path: Path) -> None:
        self._graph, self._path = graph, path
        # The header of 20 bytes is a version and the number of pictures seen in training.
        self._numbers = np.fromfile(path, "<f4", offset=20)
        self._at = 0

    def conv(self, x: str, inside: int, wide: int, size: int, stride: int = 1) -> str:
        """Convolution, batch normalisation, leaky ReLU."""
        shift, scale, mean, variance = (self._take(wide) for _ in range(4))
        weight, bias = folded(self._take(wide, inside, size, size), scale, shift, mean, variance, _EPS)
        return self._graph.op("LeakyRelu", self._graph.conv(x, weight, bias, stride=stride, pad=size // 2), alpha=0.1)

    def plain_conv(self, x: str, inside: int, wide: int) -> str:
        bias = self._take(wide)
        return self._graph.conv(x, self._take(wide, inside, 1, 1), bias)

    def must_be_used_up(self) -> None:
        if self._at != self._numbers.size:
            raise RefBenchError(f"{self._path} holds another network than yolov4-tiny: refbench fetch yolov4_tiny")

    def _take(self, *shape: int) -> NDArray[np.float32]:
        start, self._at = self._at, self._at + int(np.prod(shape))
        taken: NDArray[np.float32] = self._numbers[start : self._at].reshape(shape)
        return taken


def _objects(grids: Sequence[NDArray[Any]], width: int, height: int) -> Feature:
    """What the two grids say of one picture, in its own pixels."""
    read = [_read_grid(grid, anchors) for grid, anchors in zip(grids, _ANCHORS, strict=True)]
    boxes, scores = (np.concatenate(part) for part in zip(*read, strict=True))
    # A cell may hold to several classes at once; each is a detection of its own.
    cells, classes = np.nonzero(scores > _THRESHOLD)
    limits = np.array([width, height, width, height])
    boxes, scores = boxes[cells] * limits, scores[cells, classes]
    kept = _suppressed(boxes, scores, classes)
    return {
        "boxes": np.clip(boxes[kept], 0, limits).astype(np.float32),
        "scores": scores[kept].astype(np.float32),
        "labels": np.array([COCO[n] for n in classes[kept]], dtype=f"U{max(map(len, COCO))}"),
    }


def _read_grid(grid: NDArray[Any], anchors: Sequence[tuple[int, int]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Boxes (n x 4) as shares of the picture and scores (n x 80) of all anchors in all cells."""
    rows, columns = grid.shape[1:]
    raw = grid.astype(np.float64).reshape(len(anchors), 5 + len(COCO), rows, columns)
    likely = 1 / (1 + np.exp(-raw))
    y, x = np.mgrid[:rows, :columns]
    spare = (_STRETCH - 1) / 2
    centre = np.stack([(likely[:, 0] * _STRETCH - spare + x) / columns, (likely[:, 1] * _STRETCH - spare + y) / rows])
    half = np.exp(raw[:, 2:4]).transpose(1, 0, 2, 3) * np.array(anchors).T[:, :, None, None] / (2 * _SIDE)
    boxes = np.concatenate([centre - half, centre + half]).reshape(4, -1).T
    scores = (likely[:, 4:5] * likely[:, 5:]).transpose(0, 2, 3, 1).reshape(-1, len(COCO))
    return boxes, scores


def _suppressed(boxes: NDArray[Any], scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Places of the detections that no better one of their class overlaps too much, best first."""
    left = np.argsort(-scores, kind="stable")
    kept = []
    while left.size:
        best, left = left[0], left[1:]
        kept.append(best)
        same = classes[left] == classes[best]
        left = left[~(same & (_overlap(boxes[best], boxes[left]) > _OVERLAP))]
    return np.array(kept, np.intp)


def _overlap(box: NDArray[Any], others: NDArray[Any]) -> NDArray[Any]:
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1) + np.prod(box[2:] - box[:2])
    return np.asarray(shared / np.maximum(areas - shared, 1e-9))
