"""Poses as COCO keypoints: object keypoint similarity and average precision, as COCO's own evaluation has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Box

# COCO's constants, in its order of joints: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles.
SIGMAS = np.repeat([26, 25, 35, 79, 72, 62, 107, 87, 89], [1, 2, 2, 2, 2, 2, 2, 2, 2]) / 1000
THRESHOLDS = np.linspace(0.5, 0.95, 10)
_RECALLS = np.linspace(0, 1, 101)
_MOST = 20
_BODY = 0.53
"""The share of its box that a person fills, where there is no outline to measure."""

Keypoints = NDArray[Any]
"""People x 17 x 3: x, y in pixels, and visibility (a joint counts when it is above 0)."""


@dataclass(frozen=True)
class Poses:
    """The people found in a picture and those that should be there; both in pixels of one picture size."""

    found: Keypoints
    scores: NDArray[Any]
    wanted: Keypoints
    areas: NDArray[Any]
    """Pixels that each of the wanted people covers."""


def person_area(box: Box) -> float:
    """Pixels that a person covers, estimated from its box."""
    return _BODY * max(box[2] - box[0], 0.0) * max(box[3] - box[1], 0.0)


def scaled_keypoints(people: Keypoints, from_shape: tuple[int, ...], to_shape: tuple[int, ...]) -> Keypoints:
    """The people in a picture of another size; shapes are height, width as arrays have them."""
    return np.asarray(people * np.array([to_shape[1] / from_shape[1], to_shape[0] / from_shape[0], 1.0]))


def oks(found: Keypoints, wanted: Keypoints, area: float) -> float | Failure:
    """How near the joints of one person are to where they should be, 0 to 1; over the joints visible in `wanted`."""
    if not (wanted[:, 2] > 0).any():
        return Failure(kind="undefined", detail="the wanted pose has no visible joint")
    return float(_similarities(found[None], wanted[None], np.array([area]))[0, 0])


def _similarities(found: Keypoints, wanted: Keypoints, areas: NDArray[Any]) -> NDArray[np.float64]:
    away = found[:, None, :, :2].astype(np.float64) - wanted[None, :, :, :2]
    squared = (away**2).sum(axis=3)
    spread = 2 * (2 * SIGMAS) ** 2 * (areas.astype(np.float64)[:, None] + np.spacing(1.0))
    visible = wanted[None, :, :, 2] > 0
    near = np.where(visible, np.exp(-squared / spread[None]), 0.0).sum(axis=2)
    return np.asarray(near / np.maximum(visible.sum(axis=2), 1))


def average_precision(pictures: Sequence[Poses]) -> float | Failure:
    """COCO's keypoint AP, the mean over OKS thresholds 0.50 to 0.95, over one picture or many.

    The found people are taken by score, the best 20 of a picture; each goes to the nearest person that is still free.
    Wanted people without a visible joint are left out.
    """
    rows: list[tuple[NDArray[Any], NDArray[np.bool_]]] = []
    expected = 0
    for poses in pictures:
        counted = (poses.wanted[:, :, 2] > 0).any(axis=1) if len(poses.wanted) else np.zeros(0, dtype=bool)
        order = np.argsort(-poses.scores, kind="stable")[:_MOST]
        expected += int(counted.sum())
        if not len(order):
            continue
        if counted.any():
            similar = _similarities(poses.found[order], poses.wanted[counted], poses.areas[counted])
        else:
            similar = np.zeros((len(order), 0))
        rows.append((poses.scores[order], np.stack([_hits(similar, t) for t in THRESHOLDS])))
    if not expected:
        return Failure(kind="undefined", detail="there is no person to be found")
    if not rows:
        return 0.0
    by_score = np.argsort(-np.concatenate([scores for scores, _ in rows]), kind="stable")
    hits = np.concatenate([met for _, met in rows], axis=1)[:, by_score]
    return float(np.mean([_area_under(line, expected) for line in hits]))


def _hits(similar: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Which of the found people, best score first, meet a wanted one at this threshold."""
    met = np.zeros(len(similar), dtype=bool)
    free = np.ones(similar.shape[1], dtype=bool)
    for person, row in enumerate(similar):
        open_row = np.where(free, row, -1.0)
        if not free.any() or open_row.max() < min(threshold, 1 - 1e-10):
            continue
        # Of equals the last, as in COCO's loop.
        free[len(row) - 1 - int(np.argmax(open_row[::-1]))] = False
        met[person] = True
    return met


def _area_under(hits: NDArray[np.bool_], expected: int) -> float:
    """Precision averaged over 101 levels of recall, each the best that is reached at that recall or beyond."""
    true = np.cumsum(hits)
    precision = true / np.arange(1, len(hits) + 1)
    best = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(true / expected, _RECALLS, side="left")
    return float(np.where(at < len(best), best[np.minimum(at, len(best) - 1)], 0.0).mean())
