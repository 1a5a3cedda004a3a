"""Pillow's resizing as two matrix products, equal to the last bit, on any device.

Pillow resizes 8-bit pictures in fixed point: weights of 22 fractional bits, sums in 32-bit integers, rounded to 8 bits
after each of its two passes. Here every weight is the sum of two pieces of at most 12 bits, so that products and sums
of pixels and pieces are whole numbers, which 32-bit floats (and TF32) hold without rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from refbench.networks.large.device import package
from refbench.pictures import resize

Kernel = Literal["bicubic", "bilinear"]

_BITS = 22
_LOW = 12
_EXACT = 1 << 24
"""Whole numbers up to here have a 32-bit float of their own."""
_OUTPUTS = 48
"""Outputs to a block: for 1024 to 336 px a sixth of the arithmetic of one whole matrix."""


def _bicubic(x: NDArray[np.float64]) -> NDArray[np.float64]:
    a = -0.5
    x = np.abs(x)
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = (((x - 5.0) * x + 8.0) * x - 4.0) * a
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _bilinear(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.maximum(1.0 - np.abs(x), 0.0)


_KERNELS: dict[Kernel, tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], float]] = {
    "bicubic": (_bicubic, 2.0),
    "bilinear": (_bilinear, 1.0),
}


def taps(size: int, to: int, kernel: Kernel) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each of the `to` outputs: the first input pixel it looks at, and its weights in units of 2**-22."""
    function, reach = _KERNELS[kernel]
    scale = size / to
    stretch = max(scale, 1.0)
    support = reach * stretch
    centre = (np.arange(to) + 0.5) * scale
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    end = np.minimum((centre + support + 0.5).astype(np.int64), size)
    offsets = np.arange(2 * ceil(support) + 1)
    inputs = first[:, None] + offsets
    weights = function((inputs - centre[:, None] + 0.5) * (1.0 / stretch))
    weights = np.where(inputs < end[:, None], weights, 0.0)
    total = np.zeros(to)
    for column in weights.T:  # in Pillow's order of summing, which decides the last bit
        total = total + column
    weights = weights / total[:, None]
    return first, np.trunc(weights * (1 << _BITS) + np.copysign(0.5, weights)).astype(np.int64)


@dataclass(frozen=True)
class _Block:
    """Some outputs next to each other: the inputs `start` to `end` that they look at, and their weights.

    `pieces` is (2 x outputs) x inputs, high pieces above low ones; `offset` is what 128 in every pixel adds up to.
    """

    start: int
    end: int
    pieces: Any
    offset: Any


@lru_cache(maxsize=256)
def _blocks(size: int, to: int, start: int, count: int, kernel: Kernel, device: str) -> tuple[_Block, ...]:
    """Outputs `start` to `start + count`, in blocks: one matrix for all would be zeros nearly everywhere."""
    torch = package("torch")
    first, weights = taps(size, to, kernel)
    blocks = []
    for begin in range(start, start + count, _OUTPUTS):
        stop = min(begin + _OUTPUTS, start + count)
        low_end, high_end = int(first[begin]), min(int(first[stop - 1]) + weights.shape[1], size)
        dense = np.zeros((stop - begin, high_end - low_end + weights.shape[1]), np.int64)
        columns = first[begin:stop, None] - low_end + np.arange(weights.shape[1])
        np.put_along_axis(dense, columns, weights[begin:stop], axis=1)
        dense = dense[:, : high_end - low_end]
        high = (dense + (1 << (_LOW - 1))) >> _LOW
        low = dense - (high << _LOW)
        exact = int(np.abs(low).sum(axis=1).max()) * 128 < _EXACT
        pieces = torch.from_numpy(np.concatenate([high, low])).to(torch.float32 if exact else torch.float64)
        offset = torch.from_numpy(dense.sum(axis=1) * 128).to(torch.int32)
        blocks.append(_Block(low_end, high_end, pieces.to(device), offset.to(device)))
    return tuple(blocks)


def resize_on_device(
    stack: Any, size: tuple[int, int], kernel: Kernel = "bicubic", window: tuple[int, int, int, int] | None = None
) -> Any:
    """Pictures (n x 3 x height x width, uint8, on any device) at `size` (height, width), as Pillow resizes each.

    `window` (top, left, height, width) is the part of the result that is wanted; the rest is not computed.
    Gives whole numbers from 0 to 255 as fp32.
    """
    torch = package("torch")
    height, width = stack.shape[-2:]
    top, left, rows, columns = window or (0, 0, *size)
    values = stack.to(torch.float32, memory_format=torch.contiguous_format) - 128
    if _vertical_first(height, width, size):
        values = _rows(values, size[0], top, rows, kernel)
        return _columns(values, size[1], left, columns, kernel) + 128
    values = _columns(values, size[1], left, columns, kernel)
    return _rows(values, size[0], top, rows, kernel) + 128


def _rows(values: Any, to: int, start: int, count: int, kernel: Kernel) -> Any:
    """The vertical pass: `count` rows from `start` on of those that it would give. Values are pixels less 128."""
    if values.shape[-2] == to:
        return values[..., start : start + count, :]
    made = []
    for block in _blocks(values.shape[-2], to, start, count, kernel, str(values.device)):
        sums = block.pieces @ values[..., block.start : block.end, :].to(block.pieces.dtype)
        half = sums.shape[-2] // 2
        made.append(_rounded(sums[..., :half, :], sums[..., half:, :], block.offset[:, None]))
    return package("torch").cat(made, dim=-2)


def _columns(values: Any, to: int, start: int, count: int, kernel: Kernel) -> Any:
    """The horizontal pass, likewise."""
    if values.shape[-1] == to:
        return values[..., start : start + count]
    made = []
    for block in _blocks(values.shape[-1], to, start, count, kernel, str(values.device)):
        sums = values[..., block.start : block.end].to(block.pieces.dtype) @ block.pieces.T
        half = sums.shape[-1] // 2
        made.append(_rounded(sums[..., :half], sums[..., half:], block.offset))
    return package("torch").cat(made, dim=-1)


def _rounded(high: Any, low: Any, offset: Any) -> Any:
    """Pixels, less 128, of the sums of high and low pieces: rounded and clipped as Pillow does."""
    torch = package("torch")
    whole = high.to(torch.int32) * (1 << _LOW) + low.to(torch.int32) + offset
    return (((whole + (1 << (_BITS - 1))) >> _BITS).clamp_(0, 255) - 128).to(torch.float32)


def _vertical_first(height: int, width: int, size: tuple[int, int]) -> bool:
    """Whether the vertical pass comes first: up to 12 Pillow always began with the horizontal one, since 13 it begins
    with the vertical one where the height shrinks by more than twice what the width does. Both round in between, so
    that the order shows in the pixels."""
    shrinks = height - size[0]
    return shrinks > 0 and shrinks > (width - size[1]) * 2 and _vertical_can_be_first()


@lru_cache(maxsize=1)
def _vertical_can_be_first() -> bool:
    """Asked of the resizing that the CPU route uses, not of a version number: both routes must see the same pixels."""
    probe = np.random.default_rng(0).integers(0, 256, (64, 24, 3), dtype=np.uint8)
    at_once = resize(probe, (20, 16))
    horizontal_first = resize(resize(probe, (20, 64)), (20, 16))
    return not np.array_equal(at_once, horizontal_first)
