"""Skeletons of OpenPose's own 18 joints, drawn as its drawing code and ICE-Bench's pose maps have them.

`pose.draw_openpose` makes the neck from COCO's shoulders; here it is where the network saw it.
"""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.pictures import Pixels

LIMBS = (
    (1, 2), (1, 5), (2, 3), (3, 4), (5, 6), (6, 7), (1, 8), (8, 9), (9, 10), (1, 11), (11, 12), (12, 13),
    (1, 0), (0, 14), (14, 16), (0, 15), (15, 17),
)  # fmt: skip
_RADIUS = _HALF_WIDTH = 4

Point = tuple[float, float]


def draw_skeletons(people: NDArray[Any], shape: tuple[int, ...]) -> Pixels:
    """Joints as discs, limbs as blended ellipses, on black; `people` is n x 18 x 3 (x, y, 0 when not seen)."""
    drawing = np.zeros((*shape[:2], 3), np.uint8)
    bodies = [[(float(x), float(y)) if seen > 0 else None for x, y, seen in person] for person in people]
    for number in range(18):
        for body in bodies:
            place = body[number]
            if place is not None:
                centre = int(place[0]), int(place[1])
                cv2.circle(drawing, centre, _RADIUS, _colour(number), thickness=-1)
    for number, (first, second) in enumerate(LIMBS):
        for body in bodies:
            start, end = body[first], body[second]
            if start is not None and end is not None:
                drawing = _with_limb(drawing, start, end, _colour(number))
    return drawing


def _with_limb(drawing: Pixels, start: Point, end: Point, colour: tuple[int, int, int]) -> Pixels:
    across, down = start[0] - end[0], start[1] - end[1]
    middle = int((start[0] + end[0]) / 2), int((start[1] + end[1]) / 2)
    half = int(math.hypot(across, down) / 2), _HALF_WIDTH
    # Looking from the end back to the start: cut to whole degrees, the other direction is one degree off.
    angle = int(math.degrees(math.atan2(down, across)))
    over = drawing.copy()
    cv2.fillConvexPoly(over, np.asarray(cv2.ellipse2Poly(middle, half, angle, 0, 360, 1)), colour)
    return np.asarray(cv2.addWeighted(drawing, 0.4, over, 0.6, 0), dtype=np.uint8)


def _colour(number: int) -> tuple[int, int, int]:
    """Full colours in steps of 20 degrees of hue, from red."""
    sixth, step = divmod(number, 3)
    up, down = 85 * step, 255 - 85 * step
    return [(255, up, 0), (down, 255, 0), (0, 255, up), (0, down, 255), (up, 0, 255), (255, 0, down)][sixth]
