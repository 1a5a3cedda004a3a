"""How far two regions, boxes or line drawings agree: plain arithmetic on arrays. No metric is registered here."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.metrics.metric import Box
from refbench.pictures import Pixels

Region = NDArray[np.bool_]
DRAWN = 10
"""What is drawn on black has a strongest channel above this."""
_LINE = 0.35
"""A pixel is part of a line when its strongest channel reaches this share of the picture's strongest: lines are drawn
in 128..255, a one-pixel line keeps 0.7 of its strength in a JPEG, and the ringing beside it stays below 0.3."""


def drawn_lines(pixels: Pixels) -> Region:
    """Where lines are drawn on black; what JPEG leaves beside them is not part of them."""
    strongest = pixels.max(axis=2)
    return np.asarray(strongest > max(float(DRAWN), _LINE * float(strongest.max())))


def box_iou(first: Box, second: Box) -> float:
    """Intersection over union of two boxes; 0 when both are empty."""
    across = min(first[2], second[2]) - max(first[0], second[0])
    down = min(first[3], second[3]) - max(first[1], second[1])
    shared = max(across, 0.0) * max(down, 0.0)
    union = _area(first) + _area(second) - shared
    return shared / union if union > 0 else 0.0


def _area(box: Box) -> float:
    return max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def region_iou(first: Region, second: Region) -> float | None:
    """Intersection over union of two regions of one size; None when both are empty."""
    union = int(np.count_nonzero(first | second))
    return int(np.count_nonzero(first & second)) / union if union else None


def tolerance_at(shape: tuple[int, ...], pixels_at_1024: float) -> float:
    """A tolerance given for a longer side of 1024 pixels, at this size; never below one pixel."""
    return max(1.0, pixels_at_1024 * max(shape[:2]) / 1024)


def tolerant_f1(found: Region, wanted: Region, tolerance: float) -> float | None:
    """F1 of two line drawings of one size, where a pixel counts as met when a pixel of the other drawing lies within
    `tolerance` of it. 0 when one of them is empty, None when both are."""
    if not found.any() or not wanted.any():
        return None if not found.any() and not wanted.any() else 0.0
    precision, recall = _met(found, wanted, tolerance), _met(wanted, found, tolerance)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _met(pixels: Region, others: Region, tolerance: float) -> float:
    away = cv2.distanceTransform((~others).view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return float(np.count_nonzero(away[pixels] <= tolerance) / np.count_nonzero(pixels))
