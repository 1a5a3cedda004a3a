"""Pixel distances between the output and a picture it should agree with: L1, MSE, SSIM."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Grey, Value, metric
from refbench.metrics.structural import rounded_luma, structural_similarity
from refbench.pictures import Pixels, resize

EDIT_REGION = 128
"""A mask pixel above this belongs to the region that is to be edited."""


def fitted(output: Pixels, target: Pixels | Grey) -> Pixels:
    """The output at the target's size, by Pillow's bicubic filter as ICE-Bench has it."""
    return resize(output, (target.shape[1], target.shape[0]))


@metric(better="lower", range=(0, 1))
def l1(output: Pixels, source: Pixels) -> float:
    """Mean absolute difference over all pixels and channels, in [0, 1]; the output at the source's size."""
    return float(cv2.norm(fitted(output, source), source, cv2.NORM_L1)) / (255 * source.size)


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
