"""From maps of joints and limbs to people, as OpenPose puts them together; plain arithmetic on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

PEAK = 0.1
"""A joint is where the blurred map is above this and nowhere lower than beside it."""
ALONG = 0.05
"""A limb's field must agree with its direction by more than this at more than 80 % of its samples."""
_SAMPLES, _AGREE = 10, 0.8
_LEAST_PARTS, _LEAST_MEAN = 4, 0.4
_BLUR, _RADIUS = 3.0, 12
_TINY = 1e-6
"""The least visibility of a joint that was found: its peak is one of the blurred map, and may be low in the map."""

# From joint to joint in OpenPose's order of 18: nose, neck, arms, legs, eyes, ears; right before left.
LIMBS = (
    (1, 2), (1, 5), (2, 3), (3, 4), (5, 6), (6, 7), (1, 8), (8, 9), (9, 10), (1, 11), (11, 12), (12, 13),
    (1, 0), (0, 14), (14, 16), (0, 15), (15, 17), (2, 16), (5, 17),
)  # fmt: skip
_FIELDS = (12, 20, 14, 16, 22, 24, 0, 2, 4, 6, 8, 10, 28, 30, 34, 32, 36, 18, 26)
"""The first of the two channels (x, then y) of each limb's field."""
_DRAWN = 17
"""The last two limbs, from shoulders to ears, join bodies but begin none."""


@dataclass(frozen=True)
class Peak:
    """A place where a joint may be, and how high the map is there."""

    x: int
    y: int
    height: float


@dataclass(frozen=True)
class Body:
    """Joints (18 x 3: x, y, height of the peak; zeros where there is none) and the mean score of its parts."""

    joints: NDArray[np.float32]
    score: float


@dataclass(eq=False)
class _Parts:
    """A body while it is put together: peak by joint, and the sum over peaks and limbs. The count of parts is kept
    apart from the joints, since a limb that replaces a joint counts again."""

    peaks: dict[int, Peak] = field(default_factory=dict)
    total: float = 0.0
    count: int = 0

    def add(self, joint: int, peak: Peak, limb: float) -> None:
        self.peaks[joint] = peak
        self.count += 1
        self.total += peak.height + limb


def find_bodies(joints: NDArray[np.float32], limbs: NDArray[np.float32]) -> list[Body]:
    """The people in maps of 18 joints and of limbs (38 channels), both height x width x channels."""
    peaks = [find_peaks(joints[:, :, number]) for number in range(joints.shape[2])]
    found: list[_Parts] = []
    for number, (first, second) in enumerate(LIMBS):
        channel = _FIELDS[number]
        for one, other, score in connections(peaks[first], peaks[second], limbs[:, :, channel : channel + 2]):
            _join(found, (first, one), (second, other), score, begins=number < _DRAWN)
    kept = [b for b in found if b.count >= _LEAST_PARTS and b.total / b.count >= _LEAST_MEAN]
    return [_body(parts) for parts in kept]


def find_peaks(heat: NDArray[np.float32]) -> list[Peak]:
    """Places that are nowhere lower than their four neighbours once blurred; the height is that of the map itself."""
    side = 2 * _RADIUS + 1
    # The blur of scipy's gaussian_filter, which cuts off at four widths and mirrors at the border.
    smooth = cv2.GaussianBlur(heat.astype(np.float64), (side, side), _BLUR, sigmaY=_BLUR, borderType=cv2.BORDER_REFLECT)
    beside = np.pad(smooth, 1)
    top = (
        (smooth >= beside[:-2, 1:-1])
        & (smooth >= beside[2:, 1:-1])
        & (smooth >= beside[1:-1, :-2])
        & (smooth >= beside[1:-1, 2:])
        & (smooth > PEAK)
    )
    return [Peak(int(x), int(y), float(heat[y, x])) for y, x in zip(*np.nonzero(top), strict=True)]


def connections(
    firsts: Sequence[Peak], seconds: Sequence[Peak], towards: NDArray[np.float32]
) -> list[tuple[Peak, Peak, float]]:
    """Which joints are the two ends of one limb, the best agreement with the field first, each joint once."""
    candidates = []
    for i, one in enumerate(firsts):
        for j, other in enumerate(seconds):
            score = _agreement(one, other, towards)
            if score is not None:
                candidates.append((score, i, j))
    candidates.sort(key=lambda c: -c[0])
    made: list[tuple[Peak, Peak, float]] = []
    taken: tuple[set[int], set[int]] = set(), set()
    for score, i, j in candidates:
        if i not in taken[0] and j not in taken[1]:
            taken[0].add(i)
            taken[1].add(j)
            made.append((firsts[i], seconds[j], score))
    return made


def _agreement(one: Peak, other: Peak, towards: NDArray[np.float32]) -> float | None:
    """The mean of the field along the limb, less what limbs of more than half the picture's height lose."""
    away = np.array([other.x - one.x, other.y - one.y], dtype=np.float64)
    length = max(0.001, float(np.hypot(*away)))
    columns = np.rint(np.linspace(one.x, other.x, _SAMPLES)).astype(int)
    rows = np.rint(np.linspace(one.y, other.y, _SAMPLES)).astype(int)
    along = towards[rows, columns].astype(np.float64) @ (away / length)
    score = float(along.mean()) + min(0.5 * towards.shape[0] / length - 1, 0.0)
    enough = np.count_nonzero(along > ALONG) > _AGREE * _SAMPLES
    return score if enough and score > 0 else None


def _join(bodies: list[_Parts], one: tuple[int, Peak], other: tuple[int, Peak], score: float, *, begins: bool) -> None:
    """Put a limb to the body that has one of its ends, to two bodies that it makes one, or begin a body with it."""
    (first, start), (second, end) = one, other
    holding = [b for b in bodies if b.peaks.get(first) is start or b.peaks.get(second) is end][:2]
    if len(holding) == 1:
        if holding[0].peaks.get(second) is not end:
            holding[0].add(second, end, score)
    elif holding:
        body, rest = holding
        if body.peaks.keys() & rest.peaks.keys():
            body.add(second, end, score)
        else:
            body.peaks |= rest.peaks
            body.count += rest.count
            body.total += rest.total + score
            bodies.remove(rest)
    elif begins:
        bodies.append(_Parts({first: start, second: end}, start.height + end.height + score, 2))


def _body(parts: _Parts) -> Body:
    joints = np.zeros((18, 3), np.float32)
    for number, peak in parts.peaks.items():
        # A peak may be a little higher than 1; visibility is not.
        joints[number] = peak.x, peak.y, min(1.0, max(peak.height, _TINY))
    return Body(joints, parts.total / parts.count)
