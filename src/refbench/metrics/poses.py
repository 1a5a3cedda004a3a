"""Poses as drawn skeletons: the official pixel score, and one that survives JPEG and differing line widths."""

from __future__ import annotations

import cv2
import numpy as np

from refbench.failure import Failure
from refbench.metrics.metric import Value, metric
from refbench.metrics.overlap import Region, tolerance_at, tolerant_f1
from refbench.pictures import Pixels, resize

TOLERANCE = 5.0
"""Pixels that a line may lie off, in a picture whose longer side is 1024: half a percent."""
_LINE = 0.35
"""A pixel is part of a line when its strongest channel reaches this share of the picture's strongest: lines are drawn
in 128..255, a one-pixel line keeps 0.7 of its strength in a JPEG, and the ringing beside it stays below 0.3."""


@metric("pose_pixel", better="higher", range=(0, 1), protocol="paper")
def pose_pixel_paper(output: Pixels, reference: Pixels) -> float:
    """Precision times recall of non-black pixels of two drawn skeletons, which MultiRef-Bench calls mAP."""
    found, wanted = _not_black(output), _not_black(reference)
    if wanted.shape != found.shape:
        wanted = cv2.resize(wanted.view(np.uint8), found.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0
    drawn, asked = int(np.count_nonzero(found)), int(np.count_nonzero(wanted))
    both = int(np.count_nonzero(found & wanted))
    return both / drawn * both / asked if drawn and asked else 0.0


@metric("pose_pixel", better="higher", range=(0, 1), protocol="corrected")
def pose_pixel(output: Pixels, reference: Pixels) -> Value:
    """F1 of the lines of two drawn skeletons within five pixels at 1024; JPEG noise is no line."""
    return skeleton_f1(output, reference)


def skeleton_f1(output: Pixels, reference: Pixels, tolerance: float | None = None) -> Value:
    """F1 of two skeletons drawn on black; `tolerance` in pixels of the output, half a percent of its longer side when
    not given. Of two sizes, the reference is resized to the output."""
    fitted = resize(reference, (output.shape[1], output.shape[0]), "bilinear")
    allowed = tolerance_at(output.shape, TOLERANCE) if tolerance is None else tolerance
    score = tolerant_f1(lines(output), lines(fitted), allowed)
    return Failure(kind="undefined", detail="no skeleton is drawn in either picture") if score is None else score


def lines(pixels: Pixels) -> Region:
    """Where lines are drawn on black."""
    strongest = pixels.max(axis=2)
    return np.asarray(strongest > max(10.0, _LINE * float(strongest.max())))


def _not_black(pixels: Pixels) -> Region:
    return np.asarray(pixels.max(axis=2) > 0)
