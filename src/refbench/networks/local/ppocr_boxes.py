"""Where text is: from the detector's probability map to quadrilaterals on the picture, their crops and their order."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

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
    found = []
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
            found.append(quad)
    return found


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
