"""OpenPose's body network of 18 joints, as ICE-Bench runs it, and how its maps of joints and limbs become people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.forward import Floats, MapRoute
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.networks.network import Feature
from refbench.pictures import Pixels

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


class Peak(NamedTuple):
    """A place where a joint may be, and how high the map is there."""

    x: int
    y: int
    height: float


class Skeleton(NamedTuple):
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


def find_bodies(joints: NDArray[np.float32], limbs: NDArray[np.float32]) -> list[Skeleton]:
    """The people in maps of 18 joints and of limbs (38 channels), both height x width x channels."""
    peaks = [find_peaks(joints[:, :, number]) for number in range(joints.shape[2])]
    bodies: list[_Parts] = []
    for number, (first, second) in enumerate(LIMBS):
        channel = _FIELDS[number]
        for one, other, score in connections(peaks[first], peaks[second], limbs[:, :, channel : channel + 2]):
            _join(bodies, (first, one), (second, other), score, begins=number < _DRAWN)
    kept = [b for b in bodies if b.count >= _LEAST_PARTS and b.total / b.count >= _LEAST_MEAN]
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


def _body(parts: _Parts) -> Skeleton:
    joints = np.zeros((18, 3), np.float32)
    for number, peak in parts.peaks.items():
        # A peak may be a little higher than 1; visibility is not.
        joints[number] = peak.x, peak.y, min(1.0, max(peak.height, _TINY))
    return Skeleton(joints, parts.total / parts.count)


LIMB_MAPS = 38
"""Channels of the first branch, two for each of 19 limbs; the second has 18 joints and the background."""
_HEIGHT = 0.5 * 368
_STRIDE = 8
_GREY = 128
_THIN = 12

TRUNK = (
    ("conv1_1", "conv1_2"),
    ("conv2_1", "conv2_2"),
    ("conv3_1", "conv3_2", "conv3_3", "conv3_4"),
    ("conv4_1", "conv4_2", "conv4_3_CPM", "conv4_4_CPM"),
)
"""Convolutions of the trunk; between two groups the picture is halved."""
STAGES = (
    tuple(f"conv5_{n}_CPM_L{{branch}}" for n in range(1, 6)),
    *(tuple(f"Mconv{n}_stage{stage}_L{{branch}}" for n in range(1, 8)) for stage in range(2, 7)),
)
"""Convolutions of the six stages, each in two branches."""

# COCO's joints as OpenPose's: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles; left before right.
TO_COCO = (0, 15, 14, 17, 16, 5, 2, 6, 3, 7, 4, 11, 8, 12, 9, 13, 10)


def openpose_body(paths: Paths, device: str = "cpu", dtype: str = "float32") -> MapRoute:
    """Gives people: `keypoints` as COCO has them, and `keypoints18` (n x 18 x 3) in OpenPose's order, neck included.

    Visibility is the height of the joint's peak, 0 where the body has no such joint. Nobody is an empty array.
    """
    # One at a time: rounding in a batch moves a peak across a threshold, and with it a whole person.
    checkpoint = Checkpoint.of("openpose_body", paths, device, dtype, batch=1)
    # Conversions of this file differ in whether the part of the network stands before a layer's name.
    state = {".".join(key.split(".")[-2:]): value for key, value in checkpoint.state().items()}
    checkpoint.need(state, [f"{layer}.{part}" for layer in layers() for part in ("weight", "bias")])
    return MapRoute(checkpoint.place, prepare_openpose, OpenPoseNetwork(checkpoint.placed(state)), people)


def layers() -> list[str]:
    """Names of all convolutions."""
    stages = [layer.format(branch=branch) for stage in STAGES for branch in (1, 2) for layer in stage]
    return [*(layer for group in TRUNK for layer in group), *stages]


def prepare_openpose(picture: Pixels) -> Floats | Failure:
    """3 x height x width, blue first, 184 pixels high, grey added at the right and below up to multiples of 8."""
    height, width = picture.shape[:2]
    if max(height, width) > _THIN * min(height, width):
        return Failure(kind="undefined", detail=f"a picture of {width}x{height} is too thin to look for people in it")
    scale = _HEIGHT / height
    blue_first = np.ascontiguousarray(picture[:, :, ::-1])
    small = cv2.resize(blue_first, (0, 0), fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)
    margins = [(0, -side % _STRIDE) for side in small.shape[:2]]
    padded = np.pad(small, (*margins, (0, 0)), constant_values=_GREY)
    return np.ascontiguousarray(padded.transpose(2, 0, 1), dtype=np.float32) / np.float32(256) - np.float32(0.5)


def people(maps: Floats, picture: Pixels) -> Feature:
    """The people that the network's maps (57 x rows x columns: limbs, then joints) show in the picture."""
    scale = _HEIGHT / picture.shape[0]
    small = round(picture.shape[0] * scale), round(picture.shape[1] * scale)
    limbs = _at_size(maps[:LIMB_MAPS], small, picture.shape)
    joints = _at_size(maps[LIMB_MAPS:], small, picture.shape)
    return feature(find_bodies(joints[:, :, :-1], limbs), picture.shape)


def _at_size(maps: Floats, small: tuple[int, ...], shape: tuple[int, ...]) -> Floats:
    """Maps at the picture's size, height x width x channels: enlarged, the padding cut off, enlarged again."""
    whole = np.ascontiguousarray(maps.transpose(1, 2, 0))
    size = whole.shape[1] * _STRIDE, whole.shape[0] * _STRIDE
    enlarged = _cubic(whole, size)[: small[0], : small[1]]
    return _cubic(np.ascontiguousarray(enlarged), (shape[1], shape[0]))


def _cubic(maps: Floats, size: tuple[int, int]) -> Floats:
    return np.asarray(cv2.resize(maps, size, interpolation=cv2.INTER_CUBIC), dtype=np.float32)


def feature(bodies: Sequence[Skeleton], shape: tuple[int, ...]) -> Feature:
    """Bodies as the arrays that every pose network gives, and their 18 joints."""
    joints = np.array([body.joints for body in bodies], dtype=np.float32).reshape(-1, 18, 3)
    coco = joints[:, TO_COCO]
    return {
        "keypoints": coco,
        "keypoints18": joints,
        "scores": np.array([body.score for body in bodies], dtype=np.float32),
        "boxes": np.array([_extent(body) for body in joints], dtype=np.float32).reshape(-1, 4),
        "size": np.array(shape[:2], dtype=np.int32),
    }


def _extent(joints: Floats) -> NDArray[np.float32]:
    seen = joints[joints[:, 2] > 0, :2]
    return np.concatenate([seen.min(axis=0), seen.max(axis=0)])


class OpenPoseNetwork:
    """The network itself: n x 3 x height x width to n x 57 x height/8 x width/8, limbs before joints."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self._w = weights

    def __call__(self, x: Any) -> Any:
        torch = package("torch")
        for number, group in enumerate(TRUNK):
            x = torch.nn.functional.max_pool2d(x, 2, 2) if number else x
            for name in group:
                x = torch.relu(self._conv(x, name))
        seen = x
        for stage in STAGES:
            branches = [self._branch(seen, [name.format(branch=branch) for name in stage]) for branch in (1, 2)]
            seen = torch.cat([*branches, x], dim=1)
        return torch.cat(branches, dim=1)

    def _branch(self, x: Any, names: Sequence[str]) -> Any:
        torch = package("torch")
        for name in names[:-1]:
            x = torch.relu(self._conv(x, name))
        return self._conv(x, names[-1])

    def _conv(self, x: Any, name: str) -> Any:
        weight = self._w[f"{name}.weight"]
        functional = package("torch").nn.functional
        return functional.conv2d(x, weight, self._w[f"{name}.bias"], padding=weight.shape[-1] // 2)
