"""RT-DETR: objects of COCO's classes; where ViTPose looks for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
import orjson
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.large.device import Place, package
from refbench.networks.large.forward import Floats, run_by_shape
from refbench.networks.large.preprocess import Preparation, prepare
from refbench.networks.large.weights import Paths, file_of, named, read_config, read_state, state_file, transformer
from refbench.networks.network import Feature, Network, load_network
from refbench.pictures import Pixels

THRESHOLD = 0.3
"""Below this people are doubtful; transformers' own example of ViTPose has the same."""


class RTDetr:
    """Gives objects, best first; the picture is squeezed to 640 x 640 and not normalised, as in training."""

    name = "rtdetr_r50vd"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32", batch: int = 8) -> None:
        files = named(paths)
        self._place = place = Place(device, dtype, batch)
        weights = state_file(files, self.name)
        place.check_room(self.name, [weights])
        config = read_config("RTDetrConfig", file_of(files, self.name, "config.json"), self.name)
        state = read_state(weights, self.name)
        self._model = transformer("RTDetrForObjectDetection", config, state, place, weights, self.name)
        self._names = [str(config.id2label[n]) for n in range(len(config.id2label))]
        self._how = Preparation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), size=(640, 640), kernel="bilinear")

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        torch = package("torch")

        def forward(pixels: object) -> object:
            made = self._model(pixel_values=pixels)
            return torch.cat([made.pred_boxes.float(), torch.sigmoid(made.logits.float())], dim=-1)

        rows = run_by_shape(self._place, [prepare(picture, self._how) for picture in pictures], forward)
        return [
            row if isinstance(row, Failure) else self._objects(row[:, :4], row[:, 4:], picture.shape)
            for row, picture in zip(rows, pictures, strict=True)
        ]

    def _objects(self, boxes: np.ndarray, likely: np.ndarray, shape: tuple[int, ...]) -> Feature:
        # As many as there are queries, whichever queries and classes they come from.
        best = np.argsort(-likely.ravel(), kind="stable")[: len(boxes)]
        scores = likely.ravel()[best]
        best, scores = best[scores > THRESHOLD], scores[scores > THRESHOLD]
        queries, classes = np.divmod(best, likely.shape[1])
        limits = np.array([shape[1], shape[0], shape[1], shape[0]])
        centre, half = boxes[queries, :2], boxes[queries, 2:] / 2
        corners = np.concatenate([centre - half, centre + half], axis=1) * limits
        return {
            "boxes": np.clip(corners, 0, limits).astype(np.float32),
            "scores": scores.astype(np.float32),
            "labels": np.array([self._names[n] for n in classes], dtype=np.str_),
        }


# ViTPose: the seventeen COCO joints of every person that RT-DETR finds.

VISIBLE = 0.3
"""A joint whose peak is lower is not seen; the usual threshold for drawing this network's joints."""
LEAST_JOINTS = 4
_MARGIN = 1.25
"""How much larger than its box the view of a person is."""
_BLUR, _WIDTH = 0.8, 11
_DETECTOR = "rtdetr_r50vd"

Box = NDArray[Any]
"""x1, y1, x2, y2 in pixels."""


class VitPose:
    """Gives people, the surest first; nobody is an empty array. `detector` may be any network that gives objects."""

    name = "vitpose_base"

    def __init__(
        self,
        paths: Paths,
        device: str = "cpu",
        dtype: str = "float32",
        batch: int = 32,
        detector: Network | None = None,
    ) -> None:
        files = named(paths)
        self._place = place = Place(device, dtype, batch)
        weights = state_file(files, self.name)
        place.check_room(self.name, [weights])
        config = read_config("VitPoseConfig", file_of(files, self.name, "config.json"), self.name)
        state = read_state(weights, self.name)
        self._model = transformer("VitPoseForPoseEstimation", config, state, place, weights, self.name)
        said = orjson.loads(file_of(files, self.name, "preprocessor_config.json").read_bytes())
        self._size = int(said["size"]["height"]), int(said["size"]["width"])
        self._mean, self._std = np.array(said["image_mean"]), np.array(said["image_std"])
        self._detector: Network = detector if detector is not None else load_network(_DETECTOR, device)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        found: list[Feature | Failure] = []
        for picture, objects in zip(pictures, self._detector(pictures), strict=True):
            if isinstance(objects, Failure):
                found.append(objects)
                continue
            people = objects["labels"] == "person"
            found.append(self.people(picture, objects["boxes"][people], objects["scores"][people]))
        return found

    def people(self, picture: Pixels, boxes: Box, scores: NDArray[Any]) -> Feature | Failure:
        """Joints of the people in these boxes; a box without enough of them holds nobody."""
        views = [person_view(box, self._size) for box in boxes]
        crops: list[Floats | Failure] = [self._crop(picture, view) for view in views]
        heat = run_by_shape(self._place, crops, lambda x: self._model(pixel_values=x).heatmaps)
        kept = []
        for box, score, view, maps in zip(boxes, scores, views, heat, strict=True):
            if isinstance(maps, Failure):
                return maps
            joints = seen_joints(decode(maps, view), picture.shape)
            if np.count_nonzero(joints[:, 2]) >= LEAST_JOINTS:
                kept.append((joints, float(score) * float(joints[joints[:, 2] > 0, 2].mean()), box))
        kept.sort(key=lambda person: -person[1])
        return {
            "keypoints": np.array([joints for joints, _, _ in kept], dtype=np.float32).reshape(-1, 17, 3),
            "scores": np.array([score for _, score, _ in kept], dtype=np.float32),
            "boxes": np.array([box for _, _, box in kept], dtype=np.float32).reshape(-1, 4),
            "size": np.array(picture.shape[:2], dtype=np.int32),
        }

    def _crop(self, picture: Pixels, view: Box) -> Floats:
        crop = warped(picture, view, self._size)
        return np.ascontiguousarray(((crop / 255 - self._mean) / self._std).transpose(2, 0, 1), dtype=np.float32)


def person_view(box: Box, size: tuple[int, int]) -> Box:
    """What the network is shown of a person: the box, widened to the network's aspect and by a quarter."""
    x1, y1, x2, y2 = (float(value) for value in box)
    wide, high = x2 - x1, y2 - y1
    aspect = size[1] / size[0]
    if wide > aspect * high:
        high = wide / aspect
    else:
        wide = high * aspect
    wide, high = _MARGIN * wide, _MARGIN * high
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    return np.array([x - wide / 2, y - high / 2, x + wide / 2, y + high / 2], dtype=np.float64)


def warped(picture: Pixels, view: Box, size: tuple[int, int]) -> NDArray[np.uint8]:
    """The view at the network's size, corner pixels on corner pixels, by bilinear interpolation; black outside."""
    rows = np.linspace(view[1], view[3], size[0])
    columns = np.linspace(view[0], view[2], size[1])
    y, y_next, down = _between(rows, picture.shape[0])
    x, x_next, across = _between(columns, picture.shape[1])
    whole = picture.astype(np.float64)
    upper = whole[y][:, x] * (1 - across)[None, :, None] + whole[y][:, x_next] * across[None, :, None]
    lower = whole[y_next][:, x] * (1 - across)[None, :, None] + whole[y_next][:, x_next] * across[None, :, None]
    mixed = upper * (1 - down)[:, None, None] + lower * down[:, None, None]
    inside = _inside(rows, picture.shape[0])[:, None] & _inside(columns, picture.shape[1])[None, :]
    return np.where(inside[:, :, None], np.floor(mixed + 0.5), 0).astype(np.uint8)


def _between(places: NDArray[np.float64], count: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    before = np.clip(np.floor(places).astype(np.intp), 0, count - 1)
    return before, np.minimum(before + 1, count - 1), np.clip(places - before, 0, 1)


def _inside(places: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    return (places >= 0) & (places <= count - 1)


def decode(maps: Floats, view: Box) -> NDArray[np.float64]:
    """Joints (17 x 3: x, y in the picture, height of the peak) from heat maps.

    The peak is refined by a step of Newton's method on the logarithm of the blurred map (DARK).
    """
    count, rows, columns = maps.shape
    places = maps.reshape(count, -1).argmax(axis=1)
    heights = maps.reshape(count, -1).max(axis=1)
    joints = np.zeros((count, 3))
    for number in range(count):
        if heights[number] <= 0:
            continue
        y, x = divmod(int(places[number]), columns)
        smooth = cv2.GaussianBlur(maps[number], (_WIDTH, _WIDTH), _BLUR, sigmaY=_BLUR, borderType=cv2.BORDER_REFLECT)
        around = np.pad(np.log(np.clip(smooth.astype(np.float64), 0.001, 50)), 1, mode="edge")[y : y + 3, x : x + 3]
        step = _newton(around)
        joints[number, :2] = x - step[0], y - step[1]
    joints[:, 0] = view[0] + joints[:, 0] * (view[2] - view[0]) / (columns - 1)
    joints[:, 1] = view[1] + joints[:, 1] * (view[3] - view[1]) / (rows - 1)
    joints[:, 2] = np.maximum(heights, 0)
    return joints


def _newton(around: NDArray[np.float64]) -> NDArray[np.float64]:
    """The step (x, y) from the middle of nine values to the extremum of the parabola through them."""
    middle = around[1, 1]
    slope = np.array([around[1, 2] - around[1, 0], around[2, 1] - around[0, 1]]) / 2
    both = (around[2, 2] - around[1, 2] - around[2, 1] + 2 * middle - around[1, 0] - around[0, 1] + around[0, 0]) / 2
    curve = np.array([
        [around[1, 2] - 2 * middle + around[1, 0], both],
        [both, around[2, 1] - 2 * middle + around[0, 1]],
    ])  # fmt: skip
    return np.asarray(np.linalg.solve(curve + np.finfo(np.float32).eps * np.eye(2), slope))


def seen_joints(joints: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Visibility 0 for joints that are unsure or off the picture, at most 1 for the others."""
    inside = (joints[:, :2] >= 0).all(axis=1) & (joints[:, 0] < shape[1]) & (joints[:, 1] < shape[0])
    visible = np.where(inside & (joints[:, 2] >= VISIBLE), np.minimum(joints[:, 2], 1), 0)
    return np.concatenate([joints[:, :2], visible[:, None]], axis=1).astype(np.float32)
