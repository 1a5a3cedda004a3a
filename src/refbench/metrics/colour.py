"""Colour: how colourful an output is, and whether its luma is still that of a picture to be colourised."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from refbench.metrics.metric import Grey, metric
from refbench.metrics.pixels import fitted, mean_difference
from refbench.pictures import Pixels

EXTREMELY_COLOURFUL = 109.0
"""What Hasler and Suesstrunk's viewers called extremely colourful, the last step of their scale."""


def pillow_luma(pixels: Pixels) -> Grey:
    """Luma as Pillow's mode L has it; OpenCV's grey differs by a level here and there."""
    return np.asarray(Image.fromarray(pixels).convert("L"))


def luma_agreement(drawn: Grey, picture: Pixels) -> float:
    """1 - L1 of a grey map and the picture's luma, of one size."""
    return 1 - mean_difference(drawn, pillow_luma(picture))


@metric(better="higher", range=(0, 1))
def colorize_l1(output: Pixels, source: Pixels) -> float:
    """1 - L1 of the lumas of output and source; the output at the source's size."""
    return luma_agreement(pillow_luma(fitted(output, source)), source)


@metric("colorfulness", better="higher", range=(0, None), protocol="paper")
def colorfulness_paper(output: Pixels, source: Pixels | None = None) -> float:
    """Colourfulness as ICE-Bench computes it: of absolute opponent values in [0, 1], without an upper bound."""
    across, down = _opponents(output if source is None else fitted(output, source))
    return _colourfulness(np.abs(across), np.abs(down)) / 255


@metric("colorfulness", better="higher", range=(0, 1), protocol="corrected")
def colorfulness(output: Pixels, source: Pixels | None = None) -> float:
    """Hasler and Suesstrunk's colourfulness over 109, their "extremely colourful", at most 1."""
    # Keeping the sign matters: of absolute values, half red and half green counts as evenly tinted.
    across, down = _opponents(output if source is None else fitted(output, source))
    return min(1.0, _colourfulness(across, down) / EXTREMELY_COLOURFUL)


def _opponents(pixels: Pixels) -> tuple[NDArray[np.int16], NDArray[np.int16]]:
    """R - G and R + G - 2 B (twice the yellow-blue value), exact in whole numbers."""
    red, green, blue = cv2.split(pixels)
    total = cv2.add(red, green, dtype=cv2.CV_16S)
    twice = cv2.addWeighted(blue, 2, blue, 0, 0, dtype=cv2.CV_16S)
    return (
        cv2.subtract(red, green, dtype=cv2.CV_16S).astype(np.int16, copy=False),
        cv2.subtract(total, twice).astype(np.int16, copy=False),
    )


def _colourfulness(across: NDArray[np.int16], down: NDArray[np.int16]) -> float:
    mean_a, std_a = (float(v.item()) for v in cv2.meanStdDev(across))
    mean_d, std_d = (float(v.item()) / 2 for v in cv2.meanStdDev(down))
    return math.hypot(std_a, std_d) + 0.3 * math.hypot(mean_a, mean_d)
