"""SAM 2.1 through transformers: all masks of a picture by a grid of points, or the mask of what is in a box.

The grid, the choice of masks and their cleaning are our own, after SAM 2's generator: transformers' pipeline needs
torchvision, scales points of pictures that are not square by the longer side, and has no second pass over the masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.large.device import free_cache, is_out_of_memory, package
from refbench.networks.large.preprocess import IMAGENET_MEAN, IMAGENET_STD
from refbench.networks.large.weights import Checkpoint, Paths
from refbench.networks.network import Feature
from refbench.pictures import Pixels


@dataclass(frozen=True)
class MaskSettings:
    """How automatic masks are made; the defaults are those of SAM 2's own generator.

    The grid has `side` x `side` points, of which `batch` go through at once, fewer when memory runs out. A mask is kept
    when the network's own estimate of its IoU is above `least_iou`, and it is stable. Of two masks whose boxes overlap
    by more than `overlap`, the surer one stays. Holes and islands up to `least_area` pixels, of the 256 x 256 that the
    network gives, are filled and removed. `refined` masks go through the network once more, as a prompt.
    """

    side: int = 32
    batch: int = 64
    least_iou: float = 0.8
    """By the network's own estimate."""
    least_stability: float = 0.95
    """The least IoU of a mask between thresholds `offset` above and below zero."""
    offset: float = 1.0
    overlap: float = 0.7
    least_area: int = 0
    refined: bool = False


DEFAULT = MaskSettings()
"""RefBlend's setting for pictures of people, and MultiRef-Bench's for outputs of up to 2000 pixels."""
STRICT = MaskSettings(24, 32, 0.93, 0.96, 0.85, 0.85, 300, refined=True)
"""RefBlend's setting for semantic maps."""
LOW_IOU = replace(STRICT, least_iou=0.80, least_stability=0.80, offset=0.80)
"""RefBlend's variant with the threshold of 0.8 that the paper names."""

SETTINGS = {"default": DEFAULT, "strict": STRICT, "low_iou": LOW_IOU}


_FILLED = 10.0
"""The logit of what is filled; what is removed has its negative. As in SAM 2's own post-processing."""


def grid_points(side: int) -> NDArray[np.float32]:
    """side x side points, x and y as shares of the picture, row by row."""
    places = (np.arange(side) + 0.5) / side
    x, y = np.meshgrid(places, places)
    return np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float32)


def stability(logits: Any, offset: float) -> Any:
    """IoU of each mask at two thresholds; not a number where even the lower one leaves nothing."""
    high = (logits > offset).flatten(1).sum(1)
    low = (logits > -offset).flatten(1).sum(1)
    return high.float() / low.float()


def without_specks(logits: NDArray[np.float32], least: int) -> NDArray[np.float32]:
    """Logits (height x width) with holes and islands of up to `least` pixels filled and removed; both are looked for
    in the mask as it came."""
    holes = _specks(logits <= 0, least)
    islands = _specks(logits > 0, least)
    return np.where(islands, np.float32(-_FILLED), np.where(holes, np.float32(_FILLED), logits))


def _specks(region: NDArray[np.bool_], least: int) -> NDArray[np.bool_]:
    _, labels, facts, _ = cv2.connectedComponentsWithStats(region.astype(np.uint8), connectivity=8)
    small = np.asarray(facts[:, cv2.CC_STAT_AREA] <= least)
    small[0] = False
    return np.asarray(small[labels])


def mask_box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """First and last column and row of a mask, as x1, y1, x2, y2; zeros for an empty one."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if not columns.size:
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1])


def surviving(boxes: NDArray[Any], scores: NDArray[Any], overlap: float) -> list[int]:
    """Places of the boxes that no surer one overlaps by more, the surest first; of equals the first stays."""
    boxes = boxes.astype(np.float64).reshape(-1, 4)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while left.size:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        low, high = np.maximum(boxes[best, :2], boxes[left, :2]), np.minimum(boxes[best, 2:], boxes[left, 2:])
        shared = np.prod(np.clip(high - low, 0, None), axis=1)
        union = areas[best] + areas[left] - shared
        # Boxes of a single row or column have no area: they share nothing, rather than everything.
        left = left[np.divide(shared, union, out=np.zeros_like(shared), where=union > 0) <= overlap]
    return kept


_LIMIT = 32.0
"""Logits of a mask that is used as a prompt are cut off here."""
_AT_ONCE = 1 << 24
"""Pixels of masks that are enlarged to the picture's size together."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class _Mask:
    """One mask, its bits packed: hundreds of masks of a large picture would not fit otherwise."""

    bits: NDArray[np.uint8]
    box: tuple[int, int, int, int]
    area: int
    score: float


class Sam2:
    """Gives `map`: regions as numbers from 1 (uint16), 0 where there is none, in the strict setting; smaller regions
    lie over larger ones. `areas` and `scores` are those of the masks, in the order of their numbers."""

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32") -> None:
        checkpoint = Checkpoint.of("sam2_1_large", paths, device, dtype)
        self._place = checkpoint.place
        config = checkpoint.config("Sam2Config")
        self._model = checkpoint.model("Sam2Model", config)
        self._side = int(config.prompt_encoder_config.image_size)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self.regions(picture) for picture in pictures]

    def regions(self, picture: Pixels, settings: MaskSettings = STRICT) -> Feature | Failure:
        """All masks of the picture, the largest painted first; a map of zeros where there is none."""
        batch = settings.batch
        while True:
            try:
                masks = self._masks(picture, settings, batch)
                break
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                free_cache(self._place.device)
                if batch == 1:
                    detail = f"one picture does not fit into the memory of {self._place.device}"
                    return Failure(kind="worker_died", detail=detail)
                batch //= 2
        kept = surviving(
            np.array([mask.box for mask in masks]), np.array([mask.score for mask in masks]), settings.overlap
        )
        painted = sorted((masks[n] for n in kept), key=lambda mask: -mask.area)
        numbers = np.zeros(picture.shape[:2], np.uint16)
        for number, mask in enumerate(painted, 1):
            bits = np.unpackbits(mask.bits, count=numbers.size).reshape(numbers.shape)
            numbers[bits.view(bool)] = number
        return {
            "map": numbers,
            "areas": np.array([mask.area for mask in painted], dtype=np.int64),
            "scores": np.array([mask.score for mask in painted], dtype=np.float32),
        }

    def in_box(self, picture: Pixels, box: Box) -> NDArray[np.uint8] | Failure:
        """The mask of what the box (x1, y1, x2, y2 in pixels) holds: 0 or 255, the picture's size; one prompt, one
        mask, as SAM 2's predictor gives it."""
        torch = package("torch")
        height, width = picture.shape[:2]
        with torch.inference_mode():
            corners = torch.tensor(box, dtype=torch.float32).reshape(2, 2) / torch.tensor([width, height])
            prompt = (corners * self._side).reshape(1, 1, 4).to(self._place.device, self._place.torch_dtype)
            seen = self._embedded(picture)
            made = self._model(image_embeddings=seen, input_boxes=prompt, multimask_output=False).pred_masks
            mask = (self._enlarged(made[0, 0].float(), (height, width))[0] > 0).cpu().numpy()
        if not mask.any():
            return Failure(kind="no_detection", detail="nothing in the box stands out from its surroundings")
        return np.where(mask, np.uint8(255), np.uint8(0))

    def _embedded(self, picture: Pixels) -> Any:
        pixels = prepare_sam2(picture, self._side).to(self._place.device, self._place.torch_dtype)
        return self._model.get_image_embeddings(pixels[None])

    def _masks(self, picture: Pixels, settings: MaskSettings, batch: int) -> list[_Mask]:
        torch = package("torch")
        with torch.inference_mode():
            seen = self._embedded(picture)
            points = torch.from_numpy(grid_points(settings.side) * np.float32(self._side))
            points = points.to(self._place.device, self._place.torch_dtype)
            masks = []
            for start in range(0, len(points), batch):
                masks += self._of_points(seen, points[start : start + batch], settings, picture.shape[:2], batch)
        return masks

    def _of_points(
        self, seen: Any, points: Any, settings: MaskSettings, size: tuple[int, int], batch: int
    ) -> list[_Mask]:
        """Masks of some points that are sure and stable enough."""
        torch = package("torch")
        labels = torch.ones((1, len(points), 1), dtype=torch.int32, device=points.device)
        made = self._model(
            image_embeddings=seen, input_points=points[None, :, None], input_labels=labels, multimask_output=True
        )
        masks, scores = made.pred_masks[0].flatten(0, 1), made.iou_scores[0].flatten(0, 1)
        if settings.refined:
            repeated = points.repeat_interleave(made.pred_masks.shape[2], dim=0)
            parts = [
                self._again(seen, repeated[n : n + batch], masks[n : n + batch]) for n in range(0, len(masks), batch)
            ]
            masks, scores = (torch.cat(part) for part in zip(*parts, strict=True))
        # Masks that are not sure enough need not be enlarged; the order of the two tests does not matter.
        sure = scores.float() > settings.least_iou
        return self._stable(masks[sure].float(), scores[sure].float(), settings, size)

    def _again(self, seen: Any, points: Any, masks: Any) -> tuple[Any, Any]:
        torch = package("torch")
        made = self._model(
            image_embeddings=[level.expand(len(points), -1, -1, -1) for level in seen],
            input_points=points[:, None, None],
            input_labels=torch.ones((len(points), 1, 1), dtype=torch.int32, device=points.device),
            input_masks=masks[:, None].clamp(-_LIMIT, _LIMIT),
            multimask_output=False,
        )
        return made.pred_masks[:, 0, 0], made.iou_scores[:, 0, 0]

    def _stable(self, masks: Any, scores: Any, settings: MaskSettings, size: tuple[int, int]) -> list[_Mask]:
        torch = package("torch")
        if settings.least_area and len(masks):
            cleaned = [without_specks(mask, settings.least_area) for mask in masks.cpu().numpy()]
            masks = torch.from_numpy(np.stack(cleaned)).to(masks.device)
        stable = []
        step = max(1, _AT_ONCE // (size[0] * size[1]))
        for start in range(0, len(masks), step):
            large = self._enlarged(masks[start : start + step], size)
            steady = stability(large, settings.offset) >= settings.least_stability
            part = zip((large[steady] > 0).cpu().numpy(), scores[start : start + step][steady].tolist(), strict=True)
            stable += [_Mask(np.packbits(mask), mask_box(mask), int(mask.sum()), score) for mask, score in part]
        return stable

    def _enlarged(self, masks: Any, size: tuple[int, int]) -> Any:
        functional = package("torch").nn.functional
        return functional.interpolate(masks[:, None], size, mode="bilinear", align_corners=False)[:, 0]


def prepare_sam2(picture: Pixels, side: int) -> Any:
    """3 x side x side: squeezed by smoothing bilinear interpolation in [0, 1], then normalised."""
    torch = package("torch")
    pixels = torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None].float() / 255
    functional = torch.nn.functional
    small = functional.interpolate(pixels, (side, side), mode="bilinear", align_corners=False, antialias=True)[0]
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
    return (small - mean) / std
