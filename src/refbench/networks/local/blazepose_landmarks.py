"""BlazePose's second stage: from a detection to a turned crop, from the crop to COCO's seventeen joints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refbench.networks.local.blazepose_ssd import Floats, Hit, LiteModel, Square, cut
from refbench.pictures import Pixels

SIZE = 256
COCO = (0, 2, 5, 7, 8, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28)
"""BlazePose's landmark for nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles (left first)."""

ENLARGE = 1.25
_WINDOW = 7
_CERTAIN = 0.5


@dataclass(frozen=True)
class Region:
    """A turned square on the picture: the person upright, hips in the middle."""

    square: Square
    angle: float


@dataclass(frozen=True, eq=False)
class Body:
    """Landmarks in picture pixels (x, y), how sure the network is of each, and of the person as a whole."""

    points: Floats
    visible: Floats
    present: Floats
    score: float
    region: Region


def region_of(hit: Hit) -> Region:
    """The crop that the detector's points ask for: centre at the hips, size and turn by the second point."""
    return _region(hit.points[0], hit.points[1])


def region_of_body(body: Body) -> Region:
    """The crop that the landmarks themselves ask for, by their two auxiliary points."""
    return _region(body.points[33], body.points[34])


def _region(centre: Floats, top: Floats) -> Region:
    dx, dy = float(top[0] - centre[0]), float(top[1] - centre[1])
    side = 2 * float(np.hypot(dx, dy)) * ENLARGE
    square = Square(float(centre[0]) - side / 2, float(centre[1]) - side / 2, side)
    return Region(square, float(np.arctan2(dx, -dy)))


class Landmarks:
    """pose_landmark_full on turned crops."""

    def __init__(self, path: Path) -> None:
        self._model = LiteModel(path)

    def __call__(self, pixels: Pixels, region: Region) -> Body:
        crop = cut(pixels, region.square, region.angle, SIZE).astype(np.float32) / np.float32(255)
        raw, flag, _, heat, _ = self._model(crop[None])
        rows = raw.reshape(39, 5)
        places = refined(rows[:, :2] / np.float32(SIZE), heat[0])
        return Body(
            points=_on_picture(places, region),
            visible=_sigmoid(rows[:, 3]),
            present=_sigmoid(rows[:, 4]),
            score=float(flag.ravel()[0]),
            region=region,
        )


def refined(places: Floats, heat: Floats) -> Floats:
    """Places moved to the centre of mass of their heat map nearby, where the map is sure enough."""
    height, width = heat.shape[:2]
    moved = places.copy()
    reach = _WINDOW // 2
    for index, (x, y) in enumerate(places):
        column, row = int(x * width), int(y * height)
        if not (0 <= column < width and 0 <= row < height):
            continue
        top, bottom = max(0, row - reach), min(height, row + reach + 1)
        left, right = max(0, column - reach), min(width, column + reach + 1)
        sure = _sigmoid(heat[top:bottom, left:right, index])
        if sure.max() < _CERTAIN:
            continue
        ys, xs = np.mgrid[top:bottom, left:right]
        moved[index] = (sure * xs).sum() / sure.sum() / width, (sure * ys).sum() / sure.sum() / height
    return moved


def _on_picture(places: Floats, region: Region) -> Floats:
    side = region.square.side
    x, y = (places[:, 0] - 0.5) * side, (places[:, 1] - 0.5) * side
    cosine, sine = np.cos(region.angle), np.sin(region.angle)
    centre_x, centre_y = region.square.x + side / 2, region.square.y + side / 2
    return np.stack([x * cosine - y * sine + centre_x, x * sine + y * cosine + centre_y], axis=1).astype(np.float32)


def _sigmoid(values: NDArray[np.float32]) -> Floats:
    return (1 / (1 + np.exp(-np.clip(values, -60, 60)))).astype(np.float32)
