"""Arithmetic on masks beside SAM 2: points in a grid, stability, holes and islands, boxes and which of them stay."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

_FILLED = 10.0
"""The logit of what is filled; what is removed has its negative. As in SAM 2's own post-processing."""


def grid_points(side: int) -> NDArray[np.float32]:
    """side x side points, x and y as shares of the picture, row by row."""
    places = (np.arange(side) + 0.5) / side
    x, y = np.meshgrid(places, places)
    return np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float32)


def stability(logits: Any, offset: float) -> Any:
    """IoU of each mask at two thresholds; not a number where even the lower one leaves nothing."""
    high = (logits > offset).flatten(1).sum(1)
    low = (logits > -offset).flatten(1).sum(1)
    return high.float() / low.float()


def without_specks(logits: NDArray[np.float32], least: int) -> NDArray[np.float32]:
    """Logits (height x width) with holes and islands of up to `least` pixels filled and removed; both are looked for
    in the mask as it came."""
    holes = _specks(logits <= 0, least)
    islands = _specks(logits > 0, least)
    return np.where(islands, np.float32(-_FILLED), np.where(holes, np.float32(_FILLED), logits))


def _specks(region: NDArray[np.bool_], least: int) -> NDArray[np.bool_]:
    _, labels, facts, _ = cv2.connectedComponentsWithStats(region.astype(np.uint8), connectivity=8)
    small = np.asarray(facts[:, cv2.CC_STAT_AREA] <= least)
    small[0] = False
    return np.asarray(small[labels])


def mask_box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """First and last column and row of a mask, as x1, y1, x2, y2; zeros for an empty one."""
    columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
    if not columns.size:
        return 0, 0, 0, 0
    return int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1])


def surviving(boxes: NDArray[Any], scores: NDArray[Any], overlap: float) -> list[int]:
    """Places of the boxes that no surer one overlaps by more, the surest first; of equals the first stays."""
    boxes = boxes.astype(np.float64).reshape(-1, 4)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while left.size:
        best, left = int(left[0]), left[1:]
        kept.append(best)
        low, high = np.maximum(boxes[best, :2], boxes[left, :2]), np.minimum(boxes[best, 2:], boxes[left, 2:])
        shared = np.prod(np.clip(high - low, 0, None), axis=1)
        union = areas[best] + areas[left] - shared
        # Boxes of a single row or column have no area: they share nothing, rather than everything.
        left = left[np.divide(shared, union, out=np.zeros_like(shared), where=union > 0) <= overlap]
    return kept
