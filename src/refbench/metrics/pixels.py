"""Pixel distances between the output and a picture it should agree with: L1, MSE, and SSIM on luma.

SSIM is that of ICE-Bench's library, at a hundredth of its cost.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Grey, Value, metric
from refbench.pictures import Pixels, resize

EDIT_REGION = 128
"""A mask pixel above this belongs to the region that is to be edited."""


def fitted(output: Pixels, target: Pixels | Grey) -> Pixels:
    """The output at the target's size, by Pillow's bicubic filter as ICE-Bench has it."""
    return resize(output, (target.shape[1], target.shape[0]))


@metric(better="lower", range=(0, 1))
def l1(output: Pixels, source: Pixels) -> float:
    """Mean absolute difference over all pixels and channels, in [0, 1]; the output at the source's size."""
    return mean_difference(fitted(output, source), source)


def mean_difference(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Mean absolute difference of two arrays of one shape, in [0, 1]."""
    return float(cv2.norm(first, second, cv2.NORM_L1)) / (255 * second.size)


@metric("l1_masked", better="lower", range=(0, 1), protocol="paper")
def l1_masked_paper(output: Pixels, source: Pixels, mask: Grey) -> Value:
    """L1 outside the edit region (mask > 128); the mask must have the source's size."""
    if mask.shape != source.shape[:2]:
        sizes = f"{mask.shape[1]}x{mask.shape[0]}, the source {source.shape[1]}x{source.shape[0]}"
        return Failure(kind="undefined", detail=f"the mask is {sizes}: the paper's protocol does not resize it")
    return _l1_outside(fitted(output, source), source, mask)


@metric("l1_masked", better="lower", range=(0, 1), protocol="corrected")
def l1_masked(output: Pixels, source: Pixels, mask: Grey) -> Value:
    """L1 outside the edit region (mask > 128); the mask is brought to the source's size by nearest pixels."""
    return _l1_outside(fitted(output, source), source, resize(mask, (source.shape[1], source.shape[0]), "nearest"))


def _l1_outside(output: Pixels, source: Pixels, mask: Grey) -> Value:
    outside = np.less_equal(mask, EDIT_REGION).view(np.uint8)
    count = cv2.countNonZero(outside)
    if count == 0:
        # The released code divides by zero here and writes NaN.
        return Failure(kind="undefined", detail="the mask covers the whole picture: nothing is left to compare")
    return float(cv2.norm(output, source, cv2.NORM_L1, outside)) / (255 * 3 * count)


@metric("mse", better="lower", range=(0, 1), protocol="paper")
def mse_paper(output: Grey, reference: Grey) -> float:
    """MSE of two grey maps as MultiRef-Bench computes it: each divided by 255 only if its maximum is above 1."""
    return map_mse(output, reference)


@metric("mse", better="lower", range=(0, 1), protocol="corrected")
def mse(output: Pixels, reference: Pixels) -> float:
    """Mean squared difference over all pixels and channels, in [0, 1]; the output at the reference's size."""
    return squared_sum(fitted(output, reference), reference) / (255**2 * reference.size)


@metric(better="higher", range=(0, None))
def psnr(output: Pixels, source: Pixels) -> Value:
    """Peak signal-to-noise ratio in dB over all pixels and channels; the output at the source's size."""
    squares = squared_sum(fitted(output, source), source)
    if not squares:
        return Failure(kind="undefined", detail="the pictures are the same: their ratio is infinite")
    return float(10 * np.log10(255**2 * source.size / squares))


def squared_sum(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> int:
    """The sum of squared differences. OpenCV squares a root of it, so that black against white came out above 1."""
    return round(cv2.norm(first, second, cv2.NORM_L2SQR))


def map_mse(output: Grey, reference: Grey) -> float:
    """MultiRef-Bench's MSE of maps, quirks included: a map of 0 and 1 is not rescaled, and of two sizes the reference
    is resized to the output's map (area averaging)."""
    first, second = _unit_if_above_one(output), _unit_if_above_one(reference)
    if first.shape != second.shape:
        second = np.asarray(
            cv2.resize(second, (first.shape[1], first.shape[0]), interpolation=cv2.INTER_AREA), dtype=np.float64
        )
    return float(np.mean((first - second) ** 2))


def _unit_if_above_one(grey: Grey) -> NDArray[np.float64]:
    return grey.astype(np.float64) / 255 if grey.max() > 1 else grey.astype(np.float64)


@metric(better="higher", range=(0, 1))
def ssim(output: Pixels, source: Pixels) -> Value:
    """Structural similarity on rounded luma, 11x11 Gaussian window; the output at the source's size."""
    return structural_similarity(rounded_luma(fitted(output, source)), rounded_luma(source))


_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_WINDOW, _SIGMA = 11, 1.5
_MARGIN = _WINDOW // 2
# Rows worked on together: intermediate arrays then stay in the processor's cache (17 ms against 31 for a 1024 px pair).
_BAND = 192

# The official luma is a float32 product whose exact halves round either way: about one pixel in 2,500 differs from
# rounding the true value, and the score by up to 5.5e-6. These tables and the order of the two sums repeat it.
_LUMA = [
    ((np.arange(256, dtype=np.float32) / np.float32(255)) * np.float32(weight)).astype(np.float32)
    for weight in (0.299, 0.587, 0.114)
]


def _kernel() -> NDArray[np.float64]:
    """One axis of the window. The official 11x11 kernel is rounded to float32 and its sum misses 1 by 6e-9, which
    the variances multiply by the squared mean: keeping the sum brings the difference from 5e-7 down to 1e-10."""
    axis = np.arange(_WINDOW) - _MARGIN
    square = np.exp(-(axis[:, None] ** 2 + axis[None, :] ** 2) / (2 * _SIGMA**2))
    square /= square.sum()
    line = np.exp(-(axis**2) / (2 * _SIGMA**2))
    return np.asarray(line / line.sum() * np.sqrt(square.astype(np.float32).astype(np.float64).sum()))


_LINE = _kernel()
_TWICE = _LINE * 2**0.5  # on both axes: twice the weighted mean
_ROOT = _LINE * 2**0.25  # on both axes: the weighted mean times the root of two


def rounded_luma(pixels: Pixels) -> Grey:
    """Luma .299/.587/.114 of 0..255, rounded."""
    luma = np.empty(pixels.shape[:2], np.uint8)
    for top in range(0, len(pixels), _BAND):
        red, green, blue = cv2.split(pixels[top : top + _BAND])
        line = np.asarray(cv2.LUT(red, _LUMA[0]), dtype=np.float32)
        line += np.asarray(cv2.LUT(green, _LUMA[1]), dtype=np.float32)
        line += np.asarray(cv2.LUT(blue, _LUMA[2]), dtype=np.float32)
        line *= np.float32(255)
        luma[top : top + _BAND] = np.rint(line, out=line)
    return luma


def structural_similarity(first: Grey, second: Grey) -> Value:
    """Mean SSIM of two grey pictures of one size: Gaussian window 11 with sigma 1.5, borders left out, K .01 and .03,
    the contrast term never below 0."""
    height, width = first.shape
    if min(height, width) < _WINDOW:
        needed = f"SSIM needs {_WINDOW} pixels a side, the picture has {width}x{height}"
        return Failure(kind="undefined", detail=needed)
    valid = height - 2 * _MARGIN
    rows = min(_BAND + 2 * _MARGIN, height)
    # One set of arrays for all bands: fetching fresh memory for each would double the time.
    planes, products = np.empty((5, rows, width)), np.empty((rows, width), np.uint16)
    total = 0.0
    for top in range(0, valid, _BAND):
        band = slice(top, top + _BAND + 2 * _MARGIN)
        total += _band(first[band], second[band], planes, products)
    return total / float(valid * (width - 2 * _MARGIN))


def _band(first: Grey, second: Grey, planes: NDArray[np.float64], products: NDArray[np.uint16]) -> float:
    """Sum of SSIM over a band, from four filters instead of five.

    With d = x - y: var x + var y = mean d^2 - (mean d)^2 + 2 cov, so only x, y, xy and d^2 are averaged, all of them
    whole numbers below 2^16. Whole rows are worked on, as slices of columns take three times as long.
    """
    rows = len(first)
    whole, inner = planes[:, :rows], planes[:, _MARGIN : rows - _MARGIN]
    product = products[:rows]
    cv2.sepFilter2D(first, cv2.CV_64F, _ROOT, _ROOT, dst=whole[0])
    cv2.sepFilter2D(second, cv2.CV_64F, _ROOT, _ROOT, dst=whole[1])
    np.multiply(first, second, out=product, dtype=np.uint16)
    cv2.sepFilter2D(product, cv2.CV_64F, _TWICE, _TWICE, dst=whole[2], delta=_C2)
    apart = cv2.absdiff(first, second)
    np.multiply(apart, apart, out=product, dtype=np.uint16)
    cv2.sepFilter2D(product, cv2.CV_64F, _LINE, _LINE, dst=whole[3])
    mean, other, contrast, below, means = inner
    np.multiply(mean, other, out=means)  # twice the product of the means
    contrast -= means  # 2 cov + C2
    mean -= other
    mean *= mean
    mean *= 0.5  # squared difference of the means
    below += contrast
    below -= mean  # var x + var y + C2
    cv2.threshold(contrast, 0, 0, cv2.THRESH_TOZERO, dst=contrast)
    means += _C1
    contrast *= means
    means += mean  # squared means + C1
    below *= means
    cv2.divide(contrast, below, dst=contrast)
    return float(contrast[:, _MARGIN:-_MARGIN].sum())
