"""Resizing, by Pillow alone: official values depend on its filters (docs/decisions/0003-pictures.md)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from PIL import Image

from refbench.pictures.decode import Pixels

Filter = Literal["nearest", "bilinear", "bicubic", "lanczos", "box"]


def resize(pixels: Pixels, size: tuple[int, int], filter_name: Filter = "bicubic") -> Pixels:
    """The picture at `size` (width, height); unchanged, not copied, when it has that size already."""
    height, width = pixels.shape[:2]
    if (width, height) == size:
        return pixels
    if min(size) < 1:
        raise ValueError(f"cannot resize to {size[0]}x{size[1]}")
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling[filter_name.upper()]))
