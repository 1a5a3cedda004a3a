"""A request made ready for a pipeline of diffusers: pictures decoded, instruction worded, size and noise decided."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from refbench.failure import Failure
from refbench.models.diffusers_model_pipelines import Plain, Shape, arranged
from refbench.models.model import Commission
from refbench.pictures import Pixels, decode

_TOKEN = re.compile(r"<image(\d+)>")
_SEEDS = 2**32


@dataclass(frozen=True)
class Manner:
    """How every request is painted: arguments of the calls, and what is done about sizes."""

    arguments: Mapping[str, Plain]
    size: tuple[int, int] | None = None
    """Width and height, whatever a request wants."""
    max_side: int | None = None
    """Pictures with a longer side are shown smaller."""


@dataclass(frozen=True)
class Order:
    """One request as the pipeline gets it."""

    commission: Commission
    seed: int
    pictures: int = 1
    """How many are painted of it, each with noise of its own."""
    gone: Callable[[], bool] = lambda: False
    """Whether nobody waits for it any more."""


@dataclass(frozen=True)
class Ready:
    """One picture to be painted: the instruction, what is shown, decoded, and the noise."""

    order: Order
    instruction: str
    shown: tuple[Image.Image, ...]
    mask: Image.Image | None
    references: tuple[Image.Image, ...]
    size: tuple[int, int] | None
    asked: bool
    """Whether the size was asked for; else it is that of a picture."""
    seed: int

    @property
    def alike(self) -> tuple[Any, ...]:
        """What has to be equal for two to be painted in one call."""
        sizes = tuple(picture.size for picture in (*self.shown, *self.references))
        return (self.size, self.asked, sizes, self.mask is None or self.mask.size)


def ready(shape: Shape, manner: Manner, order: Order, step: int) -> list[Ready] | Failure:
    """The pictures to be painted of an order. `step` divides every width and height that the pipeline can make."""
    placed = arranged(shape, order.commission.pictures)
    if isinstance(placed, Failure):
        return placed
    masks = () if placed.mask is None else (placed.mask,)
    opened: list[list[Image.Image]] = []
    for paths in (placed.pictures, masks, placed.references):
        opened.append([])
        for path in paths:
            image = _image(path, manner.max_side)
            if isinstance(image, Failure):
                return image
            opened[-1].append(image)
    shown, mask, references = opened
    size, asked = _size(shape, manner, order.commission, shown, step)
    return [
        Ready(
            order=order,
            instruction=tagged(shape.entry.tag, order.commission.instruction, len(shown)),
            shown=tuple(shown),
            mask=mask[0].convert("L") if mask else None,
            references=tuple(references),
            size=size,
            asked=asked,
            seed=noise_seed(order.seed, number),
        )
        for number in range(min(order.pictures, order.commission.n_pictures))
    ]


def _size(
    shape: Shape, manner: Manner, commission: Commission, shown: list[Image.Image], step: int
) -> tuple[tuple[int, int] | None, bool]:
    """The size to paint, the nearest that the pipeline can make, and whether it was asked for."""
    if not shape.sized:
        return None, False
    asked = manner.size or commission.size
    size = asked or (shown[0].size if shape.entry.follows and shown else None)
    if size is None:
        return None, False
    width, height = (max(step, round(side / step) * step) for side in size)
    return (width, height), asked is not None


def noise_seed(seed: int, number: int) -> int:
    """The seed of a request's picture. torch's generator uses 32 bits of it: larger ones must not share a picture."""
    if number == 0 and 0 <= seed < _SEEDS:
        return seed
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4])


def tagged(tag: str | None, instruction: str, count: int) -> str:
    """The instruction with every picture named as the pipeline wants it: `<image2>` where it says so, else in front."""
    if tag is None or count == 0:
        return instruction
    tags = [tag.format(n=number + 1) for number in range(count)]
    text = _TOKEN.sub(lambda found: tags[int(found[1]) - 1] if 1 <= int(found[1]) <= count else found[0], instruction)
    return " ".join([*(name for name in tags if name not in text), text])


def _image(path: Path, max_side: int | None) -> Image.Image | Failure:
    try:
        pixels = decode(path.read_bytes())
    except OSError as error:
        return Failure(kind="unreadable_picture", detail=f"{path.name}: {error.strerror}")
    if isinstance(pixels, Failure):
        return Failure(kind=pixels.kind, detail=f"{path.name}: {pixels.detail}")
    image = Image.fromarray(pixels)
    longest = max(image.size)
    if max_side is None or longest <= max_side:
        return image
    width, height = (max(1, round(side * max_side / longest)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def pixels_of(image: Any) -> Pixels | None:
    """8-bit RGB as diffusers itself would round it; None where the numbers are no picture."""
    if isinstance(image, Image.Image):
        return np.asarray(image.convert("RGB"))
    values = np.asarray(image, np.float32)
    if not np.isfinite(values).all():
        return None
    return (values * 255).round().clip(0, 255).astype(np.uint8)
