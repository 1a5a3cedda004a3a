"""Pictures in a grid, left to right and top to bottom: the collage of the baseline and of the overflow policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from refbench.failure import Failure
from refbench.pictures import Pixels, read_pixels, resize

CELL = 512
_GAP = 16


def all_pixels(paths: Sequence[Path]) -> list[Pixels] | Failure:
    """The pixels of all of them, or the first that cannot be read."""
    pictures = []
    for path in paths:
        pixels = read_pixels(path)
        if isinstance(pixels, Failure):
            return pixels
        pictures.append(pixels)
    return pictures


def covering(pixels: Pixels, size: tuple[int, int] | None) -> Pixels:
    """The picture at that size without distortion: what sticks out at two sides is cut off."""
    height, width = pixels.shape[:2]
    if size is None or size == (width, height):
        return pixels
    scale = max(size[0] / width, size[1] / height)
    grown = resize(pixels, (max(size[0], round(width * scale)), max(size[1], round(height * scale))), "lanczos")
    left, top = (grown.shape[1] - size[0]) // 2, (grown.shape[0] - size[1]) // 2
    return np.ascontiguousarray(grown[top : top + size[1], left : left + size[0]])


def grid(pictures: Sequence[Pixels], size: tuple[int, int] | None = None) -> Pixels:
    """All pictures whole, on white, in cells of one size; `size` is of the result, else a cell has 512 pixels."""
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    if size is None and len(pictures) == 1:
        return pictures[0]
    width, height = size or (columns * CELL + (columns - 1) * _GAP, rows * CELL + (rows - 1) * _GAP)
    gap = min(_GAP, min(width, height) // 32)
    canvas = np.full((height, width, 3), 255, np.uint8)
    for number, picture in enumerate(pictures):
        row, column = divmod(number, columns)
        left, right = _span(column, columns, width, gap)
        top, bottom = _span(row, rows, height, gap)
        if left == right or top == bottom:
            continue  # more pictures than pixels
        scale = min((right - left) / picture.shape[1], (bottom - top) / picture.shape[0])
        wide = min(right - left, max(1, round(picture.shape[1] * scale)))
        high = min(bottom - top, max(1, round(picture.shape[0] * scale)))
        x, y = left + (right - left - wide) // 2, top + (bottom - top - high) // 2
        canvas[y : y + high, x : x + wide] = resize(picture, (wide, high), "lanczos")
    return canvas


def _span(number: int, count: int, length: int, gap: int) -> tuple[int, int]:
    """Where the cell of that number begins and ends."""
    room = length - (count - 1) * gap
    return number * room // count + number * gap, (number + 1) * room // count + number * gap
