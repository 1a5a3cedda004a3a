"""HigherHRNet-W32: people from the whole picture at once, as MultiRef-Bench finds them, and how its own parser groups
joints by heat and tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.forward import Floats, MapRoute
from refbench.networks.large.preprocess import IMAGENET_MEAN, IMAGENET_STD
from refbench.networks.large.weights import Checkpoint, Paths, folded
from refbench.networks.network import Feature
from refbench.pictures import Pixels

MOST = 30
"""Candidates of each joint, and people that joints are matched with."""
PEAK = 0.1
TAG = 1.0
"""A joint belongs to a person when its tag is nearer than this to the mean of the person's."""
_WINDOW = 5
# The face first, then shoulders and hips, then outwards.
_ORDER = (0, 1, 2, 3, 4, 5, 6, 11, 12, 7, 8, 9, 10, 13, 14, 15, 16)

Doubles = NDArray[np.float64]


@dataclass(eq=False)
class _Person:
    joints: Doubles
    tags: list[Doubles]


def group(heat: NDArray[Any], tags: NDArray[Any]) -> tuple[Doubles, Doubles]:
    """People (n x 17 x 3: x, y in pixels of the maps, heat) and their scores, from heat (17 x height x width) and tags
    (17 x height x width x 2, of the picture and of its mirror image)."""
    persons = _matched(heat, tags)
    people = np.array([person.joints for person in persons], dtype=np.float64).reshape(-1, len(heat), 3)
    for person in people:
        for joint, (x, y, score) in enumerate(person):
            if score > 0:
                person[joint, :2] = _adjusted(heat[joint], int(x), int(y))
    # The score is that of the joints that were found: those below are filled in.
    scores = people[:, :, 2].mean(axis=1) if len(people) else np.zeros(0)
    for person in people:
        _fill(person, heat, tags)
    return people, scores


def _candidates(heat: NDArray[Any], tags: NDArray[Any]) -> tuple[Doubles, Doubles]:
    """The highest peaks of one joint, as x, y, heat, and their tags."""
    highest = cv2.dilate(heat, np.ones((_WINDOW, _WINDOW), np.uint8))
    y, x = np.nonzero((highest == heat) & (heat > PEAK))
    best = np.argsort(-heat[y, x], kind="stable")[:MOST]
    y, x = y[best], x[best]
    joints = np.stack([x, y, heat[y, x]], axis=1).astype(np.float64)
    return joints, tags[y, x].astype(np.float64)


def _matched(heat: NDArray[Any], tags: NDArray[Any]) -> list[_Person]:
    """People by their tags, joint after joint."""
    people: dict[float, _Person] = {}
    for joint in _ORDER:
        joints, marks = _candidates(heat[joint], tags[joint])
        if not len(joints):
            continue
        known = list(people.values())[:MOST]
        pairs: dict[int, int] = {}
        if known:
            means = np.array([np.mean(person.tags, axis=0) for person in known])
            away = np.linalg.norm(marks[:, None] - means[None], axis=2)
            # Whole steps of distance first, then the higher peak.
            cost = np.round(away) * 100 - joints[:, 2:3]
            pairs = {row: column for row, column in cheapest_pairs(cost) if away[row, column] < TAG}
        for row in range(len(joints)):
            if row in pairs:
                person = known[pairs[row]]
                person.tags.append(marks[row])
            else:
                # Two joints of one tag are one person, as the tag is the person's name.
                person = people.setdefault(float(marks[row, 0]), _Person(np.zeros((len(heat), 3)), []))
                person.tags = [marks[row]]
            person.joints[joint] = joints[row]
    return list(people.values())


def _adjusted(heat: NDArray[Any], x: int, y: int) -> tuple[float, float]:
    """The middle of a pixel, moved by a quarter towards its higher neighbours."""
    rows, columns = heat.shape
    right = heat[y, min(x + 1, columns - 1)] > heat[y, max(x - 1, 0)]
    below = heat[min(y + 1, rows - 1), x] > heat[max(y - 1, 0), x]
    return x + 0.5 + (0.25 if right else -0.25), y + 0.5 + (0.25 if below else -0.25)


def _fill(person: Doubles, heat: NDArray[Any], tags: NDArray[Any]) -> None:
    """Put missing joints where the heat is highest among places with the person's tag."""
    there = [joint for joint in range(len(person)) if person[joint, 2] > 0]
    seen = np.array([tags[joint, int(person[joint, 1]), int(person[joint, 0])] for joint in there], dtype=np.float32)
    first, mirrored = seen.mean(axis=0)
    for joint in range(len(person)):
        if person[joint, 2] > 0:
            continue
        away = np.hypot(tags[joint, :, :, 0] - first, tags[joint, :, :, 1] - mirrored)
        y, x = np.unravel_index(int(np.argmax(heat[joint] - np.round(away))), heat[joint].shape)
        if heat[joint, y, x] > 0:
            person[joint] = *_adjusted(heat[joint], int(x), int(y)), heat[joint, y, x]


def cheapest_pairs(cost: Doubles) -> list[tuple[int, int]]:
    """The one-to-one matching of rows and columns with the smallest sum: rows one by one, by shortest paths."""
    if len(cost) > cost.shape[1]:
        return sorted((row, column) for column, row in cheapest_pairs(cost.T))
    rows, columns = cost.shape
    row_price, column_price = np.zeros(rows), np.zeros(columns)
    owner = np.full(columns, -1)
    for start in range(rows):
        least = np.full(columns, np.inf)
        before = np.full(columns, -1)
        done = np.zeros(columns, dtype=bool)
        row, column = start, -1
        while True:
            reduced = cost[row] - row_price[row] - column_price
            better = ~done & (reduced < least)
            least[better], before[better] = reduced[better], column
            open_columns = np.where(done, np.inf, least)
            column = int(np.argmin(open_columns))
            step = float(open_columns[column])
            row_price[start] += step
            row_price[owner[done]] += step
            column_price[done] -= step
            least[~done] -= step
            done[column] = True
            if owner[column] < 0:
                break
            row = int(owner[column])
        while column >= 0:
            previous = int(before[column])
            owner[column] = owner[previous] if previous >= 0 else start
            column = previous
    return sorted((int(row), column) for column, row in enumerate(owner) if row >= 0)


SIDE = 512
JOINTS = 17
_EPS = 1e-5
# Left and right change places in a mirrored picture.
_MIRRORED = (0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15)
_STAGES = ((2, 1), (3, 4), (4, 3))
"""Branches and modules of stages 2, 3 and 4."""


class HigherHRNet:
    """Gives people; visibility is the heat at a joint, at most 1. Nobody is an empty array.

    The picture is squeezed to 512 x 512 whatever its shape, as MultiRef-Bench does.
    """

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32") -> None:
        # One at a time: rounding in a batch moves a peak across a threshold, and with it a whole person.
        checkpoint = Checkpoint.of("higherhrnet_w32", paths, device, dtype, batch=1)
        state = checkpoint.state(["conv1.weight", "stage4.2.fuse_layers.0.3.0.weight", "final_layers.1.bias"])
        self._network = HigherHRNetNetwork(checkpoint.placed(folded_convolutions(state)))
        self._route = MapRoute(checkpoint.place, prepare_higherhrnet, self._heat_and_tags, people)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return self._route(pictures)

    def _heat_and_tags(self, pixels: Any) -> Any:
        """n x 51 x 512 x 512: heat, then the tags of the picture and of its mirror image."""
        torch = package("torch")
        heat, tags = self._maps(pixels)
        mirrored_heat, mirrored_tags = (
            torch.flip(part, [3])[:, _MIRRORED] for part in self._maps(torch.flip(pixels, [3]))
        )
        parts = [(heat + mirrored_heat) / 2, tags, mirrored_tags]
        enlarged = [self._enlarged(part.float(), (SIDE, SIDE)) for part in parts]
        return torch.cat(enlarged, dim=1)

    def _maps(self, pixels: Any) -> tuple[Any, Any]:
        """Heat, the mean of both resolutions, and tags, which only the coarse one has."""
        coarse, fine = self._network(pixels)
        coarse = self._enlarged(coarse, fine.shape[2:])
        return (coarse[:, :JOINTS] + fine[:, :JOINTS]) / 2, coarse[:, JOINTS:]

    def _enlarged(self, maps: Any, size: Any) -> Any:
        functional = package("torch").nn.functional
        return functional.interpolate(maps, tuple(size), mode="bilinear", align_corners=False)


def prepare_higherhrnet(picture: Pixels) -> Floats:
    """3 x 512 x 512, squeezed by bilinear interpolation and normalised."""
    small = cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    normal = (small / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    return np.ascontiguousarray(normal.transpose(2, 0, 1), dtype=np.float32)


def people(maps: Floats, picture: Pixels) -> Feature:
    """People in the picture's pixels, the surest first."""
    shape = picture.shape
    tags = np.stack([maps[JOINTS : 2 * JOINTS], maps[2 * JOINTS :]], axis=-1)
    bodies, scores = group(maps[:JOINTS], tags)
    order = np.argsort(-scores, kind="stable")
    bodies, scores = bodies[order], scores[order]
    bodies[:, :, 0] *= shape[1] / SIDE
    bodies[:, :, 1] *= shape[0] / SIDE
    bodies[:, :, 2] = np.clip(bodies[:, :, 2], 0, 1)
    boxes = [[*body[body[:, 2] > 0, :2].min(axis=0), *body[body[:, 2] > 0, :2].max(axis=0)] for body in bodies]
    return {
        "keypoints": bodies.astype(np.float32),
        "scores": scores.astype(np.float32),
        "boxes": np.array(boxes, dtype=np.float32).reshape(-1, 4),
        "size": np.array(shape[:2], dtype=np.int32),
    }


def folded_convolutions(state: Mapping[str, Any]) -> dict[str, Any]:
    """Weight and bias of every convolution, the normalisation behind it multiplied in."""
    convolutions = {}
    for key, weight in state.items():
        if not key.endswith(".weight") or weight.ndim != 4:
            continue
        name = key.removesuffix(".weight")
        norm = _norm_of(name)
        if f"{norm}.running_var" not in state:
            convolutions[key], convolutions[f"{name}.bias"] = weight, state[f"{name}.bias"]
            continue
        transposed = name.startswith("deconv_layers") and name.endswith(".0.0.0")
        convolutions[key], convolutions[f"{name}.bias"] = folded(weight, state, norm, _EPS, transposed=transposed)
    return convolutions


def _norm_of(conv: str) -> str:
    """The name of the normalisation behind a convolution: `bn1` behind `conv1`, `.1` behind `.0` in a sequence."""
    stem, _, last = conv.rpartition(".")
    follower = last.replace("conv", "bn") if last.startswith("conv") else str(int(last) + 1)
    return f"{stem}.{follower}" if stem else follower


class HigherHRNetNetwork:
    """The network itself: n x 3 x 512 x 512 to heat and tags (34 channels, a quarter) and heat (17 channels, half)."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self._w = weights

    def __call__(self, x: Any) -> tuple[Any, Any]:
        torch = package("torch")
        x = self._conv(self._conv(x, "conv1", 2), "conv2", 2)
        for number in range(4):
            x = self._block(x, f"layer1.{number}", 3)
        branches = [x]
        for stage, (count, modules) in enumerate(_STAGES, 2):
            branches = self._spread(branches, f"transition{stage - 1}", count)
            for module in range(modules):
                branches = self._module(branches, f"stage{stage}.{module}")
        x = branches[0]
        coarse = self._conv(x, "final_layers.0", relu=False)
        x = self._up(torch.cat([x, coarse], dim=1), "deconv_layers.0.0.0")
        for number in range(1, 5):
            x = self._block(x, f"deconv_layers.0.{number}.0", 2)
        return coarse, self._conv(x, "final_layers.1", relu=False)

    def _conv(self, x: Any, name: str, stride: int = 1, relu: bool = True) -> Any:
        torch = package("torch")
        weight = self._w[f"{name}.weight"]
        x = torch.nn.functional.conv2d(x, weight, self._w[f"{name}.bias"], stride, weight.shape[-1] // 2)
        return torch.relu(x) if relu else x

    def _up(self, x: Any, name: str) -> Any:
        torch = package("torch")
        weight, bias = self._w[f"{name}.weight"], self._w[f"{name}.bias"]
        return torch.relu(torch.nn.functional.conv_transpose2d(x, weight, bias, stride=2, padding=1))

    def _block(self, x: Any, name: str, convolutions: int) -> Any:
        """A residual block of two or three convolutions; the way around has one too where the width changes."""
        torch = package("torch")
        around = self._conv(x, f"{name}.downsample.0", relu=False) if f"{name}.downsample.0.weight" in self._w else x
        for number in range(1, convolutions + 1):
            x = self._conv(x, f"{name}.conv{number}", relu=number < convolutions)
        return torch.relu(x + around)

    def _spread(self, branches: Sequence[Any], name: str, count: int) -> list[Any]:
        """As many branches as the next stage has: the new one comes from the coarsest, by half."""
        made = []
        for number in range(count):
            source = branches[min(number, len(branches) - 1)]
            if number < len(branches):
                layer = f"{name}.{number}.0"
                made.append(self._conv(source, layer) if f"{layer}.weight" in self._w else source)
            else:
                made.append(self._conv(source, f"{name}.{number}.0.0", 2))
        return made

    def _module(self, branches: Sequence[Any], name: str) -> list[Any]:
        torch = package("torch")
        seen = []
        for number, x in enumerate(branches):
            for block in range(4):
                x = self._block(x, f"{name}.branches.{number}.{block}", 2)
            seen.append(x)
        fused = []
        for to in range(len(seen)):
            if to and f"{name}.fuse_layers.{to}.0.0.0.weight" not in self._w:
                break  # the last module of all gives its finest branch alone
            total = sum(self._fused(x, name, source, to) for source, x in enumerate(seen))
            fused.append(torch.relu(total))
        return fused

    def _fused(self, x: Any, name: str, source: int, to: int) -> Any:
        """A branch at the resolution and width of another."""
        layer = f"{name}.fuse_layers.{to}.{source}"
        if source == to:
            return x
        if source > to:
            x = self._conv(x, f"{layer}.0", relu=False)
            return package("torch").nn.functional.interpolate(x, scale_factor=2 ** (source - to), mode="nearest")
        for step in range(to - source):
            x = self._conv(x, f"{layer}.{step}.0", 2, relu=step < to - source - 1)
        return x
