"""OpenPose's body network of 18 joints, as ICE-Bench runs it; `openpose_people` puts joints and limbs together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.neural.depth_maps import Floats, run_by_shape
from refbench.networks.neural.openpose_people import Body, find_bodies
from refbench.networks.neural.place import Place, package
from refbench.networks.neural.weights import Paths, named, need, placed, read_state, state_file
from refbench.pictures import Pixels

LIMBS, JOINTS = 38, 19
"""Channels of the two branches: two for each of 19 limbs; 18 joints and the background."""
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


class OpenPoseBody:
    """Gives people: `keypoints` as COCO has them, and `keypoints18` (n x 18 x 3) in OpenPose's order, neck included.

    Visibility is the height of the joint's peak, 0 where the body has no such joint. Nobody is an empty array.
    """

    name = "openpose_body"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32") -> None:
        # One at a time: rounding in a batch moves a peak across a threshold, and with it a whole person.
        self._place = place = Place(device, dtype, batch=1)
        weights = state_file(named(paths), self.name)
        # Conversions of this file differ in whether the part of the network stands before a layer's name.
        state = {".".join(key.split(".")[-2:]): value for key, value in read_state(weights, self.name).items()}
        need(state, [f"{layer}.{part}" for layer in layers() for part in ("weight", "bias")], weights, self.name)
        self._network = OpenPoseNetwork(placed(state, place))

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        prepared = [prepare_openpose(picture) for picture in pictures]
        maps = run_by_shape(self._place, prepared, self._network)
        return [
            row if isinstance(row, Failure) else people(row, picture)
            for row, picture in zip(maps, pictures, strict=True)
        ]


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
    limbs = _at_size(maps[:LIMBS], small, picture.shape)
    joints = _at_size(maps[LIMBS:], small, picture.shape)
    return feature(find_bodies(joints[:, :, :-1], limbs), picture.shape)


def _at_size(maps: Floats, small: tuple[int, ...], shape: tuple[int, ...]) -> Floats:
    """Maps at the picture's size, height x width x channels: enlarged, the padding cut off, enlarged again."""
    whole = np.ascontiguousarray(maps.transpose(1, 2, 0))
    size = whole.shape[1] * _STRIDE, whole.shape[0] * _STRIDE
    enlarged = _cubic(whole, size)[: small[0], : small[1]]
    return _cubic(np.ascontiguousarray(enlarged), (shape[1], shape[0]))


def _cubic(maps: Floats, size: tuple[int, int]) -> Floats:
    return np.asarray(cv2.resize(maps, size, interpolation=cv2.INTER_CUBIC), dtype=np.float32)


def feature(bodies: Sequence[Body], shape: tuple[int, ...]) -> Feature:
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
