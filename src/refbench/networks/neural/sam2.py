"""SAM 2.1 through transformers: all masks of a picture by a grid of points, or the mask of what is in a box.

The grid, the choice of masks and their cleaning are our own, after SAM 2's generator: transformers' pipeline needs
torchvision, scales points of pictures that are not square by the longer side, and has no second pass over the masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.neural.place import Place, free_cache, is_out_of_memory, package
from refbench.networks.neural.preprocess import IMAGENET_MEAN, IMAGENET_STD
from refbench.networks.neural.sam2_masks import grid_points, mask_box, stability, surviving, without_specks
from refbench.networks.neural.sam2_settings import STRICT, MaskSettings
from refbench.networks.neural.weights import Paths, file_of, named, read_config, read_state, state_file, transformer
from refbench.pictures import Pixels

_LIMIT = 32.0
"""Logits of a mask that is used as a prompt are cut off here."""
_AT_ONCE = 1 << 24
"""Pixels of masks that are enlarged to the picture's size together."""

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class _Found:
    """One mask, its bits packed: hundreds of masks of a large picture would not fit otherwise."""

    bits: NDArray[np.uint8]
    box: tuple[int, int, int, int]
    area: int
    score: float


class Sam2:
    """Gives `map`: regions as numbers from 1 (uint16), 0 where there is none, in the strict setting; smaller regions
    lie over larger ones. `areas` and `scores` are those of the masks, in the order of their numbers."""

    name = "sam2_1_large"

    def __init__(self, paths: Paths, device: str = "cpu", dtype: str = "float32") -> None:
        files = named(paths)
        self._place = place = Place(device, dtype)
        weights = state_file(files, self.name)
        place.check_room(self.name, [weights])
        config = read_config("Sam2Config", file_of(files, self.name, "config.json"), self.name)
        self._model = transformer("Sam2Model", config, read_state(weights, self.name), place, weights, self.name)
        self._side = int(config.prompt_encoder_config.image_size)

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self.regions(picture) for picture in pictures]

    def regions(self, picture: Pixels, settings: MaskSettings = STRICT) -> Feature | Failure:
        """All masks of the picture, the largest painted first; none is no failure, but a map of zeros."""
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

    def _masks(self, picture: Pixels, settings: MaskSettings, batch: int) -> list[_Found]:
        torch = package("torch")
        with torch.inference_mode():
            seen = self._embedded(picture)
            points = torch.from_numpy(grid_points(settings.side) * np.float32(self._side))
            points = points.to(self._place.device, self._place.torch_dtype)
            found = []
            for start in range(0, len(points), batch):
                found += self._of_points(seen, points[start : start + batch], settings, picture.shape[:2], batch)
        return found

    def _of_points(
        self, seen: Any, points: Any, settings: MaskSettings, size: tuple[int, int], batch: int
    ) -> list[_Found]:
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

    def _stable(self, masks: Any, scores: Any, settings: MaskSettings, size: tuple[int, int]) -> list[_Found]:
        torch = package("torch")
        if settings.least_area and len(masks):
            cleaned = [without_specks(mask, settings.least_area) for mask in masks.cpu().numpy()]
            masks = torch.from_numpy(np.stack(cleaned)).to(masks.device)
        found = []
        step = max(1, _AT_ONCE // (size[0] * size[1]))
        for start in range(0, len(masks), step):
            large = self._enlarged(masks[start : start + step], size)
            steady = stability(large, settings.offset) >= settings.least_stability
            part = zip((large[steady] > 0).cpu().numpy(), scores[start : start + step][steady].tolist(), strict=True)
            found += [_Found(np.packbits(mask), mask_box(mask), int(mask.sum()), score) for mask, score in part]
        return found

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
