"""What happens to a picture before an encoder sees it: resized, cropped, normalised. Our own, without torchvision.

On a CPU Pillow resizes; on a GPU `resample` does, to the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.large.device import package
from refbench.networks.large.resample import Kernel, resize_on_device
from refbench.pictures import MAX_PIXELS, Pixels, resize
from refbench.record import RefBenchError

CLIP_MEAN, CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HALF = (0.5, 0.5, 0.5)

_RESAMPLE: Mapping[int, Kernel] = {2: "bilinear", 3: "bicubic"}
_ALL_AT_ONCE = 1 << 25
"""Beyond so many pixels only the part that is kept after cropping is resized."""

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Preparation:
    """How pictures are prepared: `short_side` keeps the aspect, `size` (height, width) does not."""

    mean: Colour
    std: Colour
    short_side: int | None = None
    size: tuple[int, int] | None = None
    crop: tuple[int, int] | None = None
    kernel: Kernel = "bicubic"
    centre: Literal["floor", "round"] = "floor"
    """Where an odd margin's spare pixel goes: transformers rounds down, torchvision half to even."""
    height_first: int | None = None
    """ICE-Bench's 1k rule: before anything else the picture is brought to this height, smaller ones too."""
    rescaled_twice: bool = False
    """MultiRef's fault 3: pixels divided by 255 once more, an almost black picture."""

    def first(self, height: int, width: int) -> tuple[int, int]:
        """Size after the rule about the height."""
        if self.height_first is None or height == self.height_first:
            return height, width
        return self.height_first, int(width * self.height_first / height)

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Size after resizing, before cropping."""
        if self.size is not None:
            return self.size
        if self.short_side is None:
            return height, width
        short, long = min(height, width), max(height, width)
        longer = int(self.short_side * long / short)
        return (longer, self.short_side) if width <= height else (self.short_side, longer)

    def window(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Top, left, height and width of what is kept of the resized picture."""
        if self.crop is None:
            return 0, 0, height, width
        top, left = height - self.crop[0], width - self.crop[1]
        if self.centre == "floor":
            return top // 2, left // 2, *self.crop
        return round(top / 2), round(left / 2), *self.crop

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width that every picture comes out with; None when that depends on the picture."""
        return self.crop or self.size


def preparation(path: Path, **changes: Any) -> Preparation:
    """The preparation that a repository's preprocessor_config.json describes, in its older or newer spelling."""
    config = orjson.loads(path.read_bytes())
    size, crop = config.get("size"), config.get("crop_size")
    kernel = _RESAMPLE.get(config.get("resample", 3))
    short = size if isinstance(size, int) else (size or {}).get("shortest_edge")
    fixed = None if short else _pair(size)
    cropped = _pair(crop) if config.get("do_center_crop", crop is not None) else None
    fits = cropped is None or max(cropped) <= (short or min(fixed or (0, 0)))
    if kernel is None or (short is None and fixed is None) or not fits:
        raise RefBenchError(f"{path} describes a preparation of pictures that is not known: fetch the network again")
    return Preparation(
        mean=tuple(config["image_mean"]),
        std=tuple(config["image_std"]),
        short_side=short,
        size=fixed,
        crop=cropped,
        kernel=kernel,
        **changes,
    )


def _pair(size: Any) -> tuple[int, int] | None:
    if isinstance(size, int):
        return size, size
    return (size["height"], size["width"]) if isinstance(size, dict) and "height" in size else None


def refusal(picture: Pixels, how: Preparation) -> Failure | None:
    """Why the picture cannot be prepared: only when it is so thin that nothing, or far too much, would be left."""
    height, width = how.first(*picture.shape[:2])
    if min(height, width) < 1 or height * width > MAX_PIXELS:
        detail = f"a picture of {picture.shape[1]}x{picture.shape[0]} cannot be brought to a height of {height}"
        return Failure(kind="undefined", detail=detail)
    return None


def prepare(picture: Pixels, how: Preparation) -> NDArray[np.float32]:
    """One picture as 3 x height x width, by Pillow."""
    height, width = how.first(*picture.shape[:2])
    picture = resize(picture, (width, height), "bicubic")
    size = how.resized(height, width)
    top, left, rows, columns = how.window(*size)
    if size[0] * size[1] > _ALL_AT_ONCE:
        torch = package("torch")
        stack = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None]
        kept = resize_on_device(stack, size, how.kernel, (top, left, rows, columns))[0]
        kept = kept.permute(1, 2, 0).numpy().astype(np.uint8)
    else:
        kept = resize(picture, (size[1], size[0]), how.kernel)[top : top + rows, left : left + columns]
    table = _normalised(how)
    return np.stack([table[channel][kept[:, :, channel]] for channel in range(3)])


def prepare_stack(stack: Any, how: Preparation) -> Any:
    """Pictures of one size (n x height x width x 3, uint8, on a device) as n x 3 x height x width in fp32, there."""
    torch = package("torch")
    values = stack.permute(0, 3, 1, 2)
    first = how.first(*values.shape[-2:])
    if first != tuple(values.shape[-2:]):
        values = resize_on_device(values, first)
    size = how.resized(*first)
    values = resize_on_device(values, size, how.kernel, how.window(*size))
    mean = torch.tensor(how.mean, device=values.device).view(3, 1, 1)
    std = torch.tensor(how.std, device=values.device).view(3, 1, 1)
    return (values / (255.0 * 255.0 if how.rescaled_twice else 255.0) - mean) / std


def _normalised(how: Preparation) -> NDArray[np.float32]:
    """The normalised value of each of the 256 levels in each channel."""
    levels = np.arange(256) / (255.0 * 255.0 if how.rescaled_twice else 255.0)
    mean, std = np.array(how.mean)[:, None], np.array(how.std)[:, None]
    table: NDArray[np.float32] = ((levels - mean) / std).astype(np.float32)
    return table


def by_size(pictures: Sequence[Pixels]) -> list[list[int]]:
    """Positions of the pictures, those of one size together."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for position, picture in enumerate(pictures):
        groups.setdefault(picture.shape[:2], []).append(position)
    return list(groups.values())


def upload(pictures: Sequence[Pixels], device: str) -> Any:
    """Pictures of one size as one uint8 tensor on the device, through pinned memory where that is a GPU."""
    torch = package("torch")
    if not device.startswith("cuda"):
        return torch.from_numpy(np.stack(pictures)).to(device)
    pinned = torch.empty((len(pictures), *pictures[0].shape), dtype=torch.uint8, pin_memory=True)
    view = pinned.numpy()
    for row, picture in zip(view, pictures, strict=True):
        row[:] = picture
    return pinned.to(device, non_blocking=True)
