"""The poses of the people in a picture, found by the network blazepose and drawn as skeletons on black."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks import Feature, load_network
from refbench.pictures import Pixels

NETWORK = "blazepose"
VISIBLE = 0.5
"""Joints below this visibility are not drawn; annotations that say 0, 1 or 2 fit as well."""

# COCO's order: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles; left before right.
LIMBS = (
    (0, 1), (1, 2), (2, 0), (1, 3), (2, 4), (3, 5), (4, 6), (5, 6), (5, 11), (6, 12),
    (11, 12), (5, 7), (7, 9), (6, 8), (8, 10), (11, 13), (13, 15), (12, 14), (14, 16),
)  # fmt: skip

# OpenPose's 18 joints as COCO's: nose, neck (made below), then arms, legs, eyes, ears; right before left.
_FROM_COCO = (0, -1, 6, 8, 10, 5, 7, 9, 12, 14, 16, 11, 13, 15, 2, 1, 4, 3)
_NECK, _SHOULDERS = 1, (5, 6)
_OPENPOSE_LIMBS = (
    (1, 2), (1, 5), (2, 3), (3, 4), (5, 6), (6, 7), (1, 8), (8, 9), (9, 10), (1, 11), (11, 12), (12, 13),
    (1, 0), (0, 14), (14, 16), (0, 15), (15, 17),
)  # fmt: skip
_JOINT_RADIUS = _LIMB_HALF_WIDTH = 4

Keypoints = NDArray[Any]
"""People x 17 x 3: x, y in pixels, visibility."""
Point = tuple[float, float]


def pose(pixels: Pixels, seed: int = 0, device: str = "cpu") -> Pixels | Failure:
    """Skeletons of all people on black, the picture's size, in MultiRef-Bench's style."""
    people = find_people(pixels, device)
    return people if isinstance(people, Failure) else draw_coco(people, pixels.shape, seed)


def find_people(pixels: Pixels, device: str = "cpu") -> Keypoints | Failure:
    """The keypoints of everyone in the picture, COCO's 17 joints."""
    seen: Feature | Failure = load_network(NETWORK, device)([pixels])[0]
    if isinstance(seen, Failure):
        return seen
    if not len(seen["keypoints"]):
        return Failure(kind="no_detection", detail="no person was found in the picture")
    return seen["keypoints"]


def line_widths(shape: tuple[int, ...]) -> tuple[int, int]:
    """Thickness of limbs and of joints for a picture of this shape, by its longer side."""
    longer = max(shape[:2])
    if longer > 2000:
        return int(0.004 * longer), int(0.009 * longer)
    if longer > 1000:
        return max(2, int(0.0008 * longer)), max(3, int(0.0015 * longer))
    return max(1, int(0.0005 * longer)), max(2, int(0.001 * longer))


def draw_coco(people: Keypoints, shape: tuple[int, ...], seed: int = 0, visible: float = VISIBLE) -> Pixels:
    """Skeletons on black: each person in a colour of its own from 128 to 255 a channel, the same under a seed."""
    drawing = np.zeros((*shape[:2], 3), np.uint8)
    limb, joint = line_widths(shape)
    rng = np.random.default_rng(seed)
    for person in people:
        colour = [int(v) for v in rng.integers(128, 256, 3)]
        at = [(int(x), int(y)) if v > visible else None for x, y, v in person]
        for place in at:
            if place is not None:
                cv2.circle(drawing, place, 1, colour, joint)
        for a, b in LIMBS:
            start, end = at[a], at[b]
            if start is not None and end is not None:
                cv2.line(drawing, start, end, colour, limb)
    return drawing


def draw_openpose(people: Keypoints, shape: tuple[int, ...], visible: float = VISIBLE) -> Pixels:
    """Skeletons of COCO's joints in OpenPose's style: the neck is made from the shoulders."""
    return _draw_bodies([_openpose_joints(person, visible) for person in people], shape)


def draw_skeletons(people: NDArray[Any], shape: tuple[int, ...]) -> Pixels:
    """Skeletons of OpenPose's own 18 joints, the neck where the network saw it, drawn as its drawing code does.

    `people` is n x 18 x 3 (x, y, 0 when not seen).
    """
    bodies = [[(float(x), float(y)) if seen > 0 else None for x, y, seen in person] for person in people]
    # Looking from the end back to the start: cut to whole degrees, the other direction is one degree off.
    return _draw_bodies(bodies, shape, from_end=True)


def _draw_bodies(bodies: Sequence[Sequence[Point | None]], shape: tuple[int, ...], *, from_end: bool = False) -> Pixels:
    """As ICE-Bench's pose maps are: 18 joints as discs, 17 limbs as blended ellipses, on black."""
    drawing = np.zeros((*shape[:2], 3), np.uint8)
    for number in range(len(_FROM_COCO)):
        for body in bodies:
            place = body[number]
            if place is not None:
                centre = (int(place[0]), int(place[1]))
                cv2.circle(drawing, centre, _JOINT_RADIUS, _rainbow(number), thickness=-1)
    for number, (a, b) in enumerate(_OPENPOSE_LIMBS):
        for body in bodies:
            start, end = body[a], body[b]
            if start is not None and end is not None:
                limb = (end, start) if from_end else (start, end)
                drawing = _with_limb(drawing, *limb, _rainbow(number))
    return drawing


def _openpose_joints(person: Keypoints, visible: float) -> list[Point | None]:
    """The 18 joints; the neck, which COCO lacks, is the middle of the shoulders when both are seen."""
    seen = [(float(x), float(y)) if v > visible else None for x, y, v in person]
    joints = [seen[number] if number >= 0 else None for number in _FROM_COCO]
    left, right = (seen[number] for number in _SHOULDERS)
    if left is not None and right is not None:
        joints[_NECK] = (left[0] + right[0]) / 2, (left[1] + right[1]) / 2
    return joints


def _with_limb(drawing: Pixels, start: Point, end: Point, colour: tuple[int, int, int]) -> Pixels:
    across, down = end[0] - start[0], end[1] - start[1]
    middle = int((start[0] + end[0]) / 2), int((start[1] + end[1]) / 2)
    angle = int(math.degrees(math.atan2(down, across)))
    half = int(math.hypot(across, down) / 2), _LIMB_HALF_WIDTH
    over = drawing.copy()
    cv2.fillConvexPoly(over, np.asarray(cv2.ellipse2Poly(middle, half, angle, 0, 360, 1)), colour)
    return np.asarray(cv2.addWeighted(drawing, 0.4, over, 0.6, 0), dtype=np.uint8)


def _rainbow(number: int) -> tuple[int, int, int]:
    """Full colours in steps of 20 degrees of hue, from red."""
    sixth, step = divmod(number % 18, 3)
    up, down = 85 * step, 255 - 85 * step
    return [(255, up, 0), (down, 255, 0), (0, 255, up), (0, down, 255), (up, 0, 255), (255, 0, down)][sixth]
