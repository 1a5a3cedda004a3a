"""Views: what a network is shown of a picture, the whole of it, what a mask marks, or its colours exchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from refbench.failure import Failure
from refbench.pictures import Pixels, resize

_MARKED = 128
"""A mask marks what is brighter than this, as ICE-Bench has it."""


@dataclass(frozen=True)
class View:
    """`inputs` names the further pictures that it looks at where a case has them; without them it is the whole."""

    inputs: tuple[str, ...]
    apply: Callable[[Pixels, Mapping[str, NDArray[Any]]], Pixels | Failure]


def marked(mask: NDArray[Any], picture: Pixels) -> NDArray[np.bool_]:
    """Where the mask marks the picture; a mask of another size is brought to the picture's by Pillow's bicubic."""
    grey = mask if mask.ndim == 2 else np.asarray(Image.fromarray(mask).convert("L"))
    return np.asarray(resize(grey, (picture.shape[1], picture.shape[0]), "bicubic")) > _MARKED


def inside_mask_white(pixels: Pixels, others: Mapping[str, NDArray[Any]]) -> Pixels | Failure:
    """As ICE-Bench looks at a subject: all that the mask does not mark is painted white."""
    if "mask" not in others:
        return pixels
    return np.where(marked(others["mask"], pixels)[..., None], pixels, np.uint8(255))


def mask_crop(pixels: Pixels, others: Mapping[str, NDArray[Any]]) -> Pixels | Failure:
    """The box around what the mask marks, on a white square.

    In the official view a subject at the edge is cut off by the centre crop, and a small one is a few pixels in a
    white picture. Here it fills the view, and keeps its shape in a network that takes squares.
    """
    if "mask" not in others:
        return pixels
    inside = marked(others["mask"], pixels)
    rows, columns = np.flatnonzero(inside.any(axis=1)), np.flatnonzero(inside.any(axis=0))
    if not rows.size:
        return Failure(kind="undefined", detail="the mask is empty: there is no subject to look at")
    return padded(pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1], {})


def padded(pixels: Pixels, others: Mapping[str, NDArray[Any]]) -> Pixels:
    """The whole picture in the middle of a white square: networks that crop the centre then see all of it."""
    height, width = pixels.shape[:2]
    if height == width:
        return pixels
    side = max(height, width)
    top, left = (side - height) // 2, (side - width) // 2
    square = np.full((side, side, 3), 255, np.uint8)
    square[top : top + height, left : left + width] = pixels
    return square


def channels_swapped(pixels: Pixels, others: Mapping[str, NDArray[Any]]) -> Pixels | Failure:
    """Red and blue exchanged, as ICE-Bench hands RGB to a library of faces that expects BGR."""
    return np.ascontiguousarray(pixels[..., ::-1])


VIEWS: Mapping[str, View] = {
    "whole": View((), lambda pixels, _: pixels),
    "inside_mask_white": View(("mask",), inside_mask_white),
    "padded": View((), padded),
    "mask_crop": View(("mask",), mask_crop),
    "channels_swapped": View((), channels_swapped),
}
