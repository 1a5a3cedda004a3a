"""Regions of a semantic map: from colours to labels, and which region of one map is which of another."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.pictures import Pixels

MIN_REGION = 300
"""Pixels below which MultiRef-Bench drops a region, whatever the picture's size."""
MIN_SHARE = MIN_REGION / 1024**2
"""The same as a share of the picture, so that a map's size does not decide which regions count."""
_EXACT = 256
"""A map of no more colours was stored without loss, and every colour in it was meant."""
_FLAT, _FLAT_WINDOW = 6, 7
"""JPEG keeps a block that lies inside one region flat: colours are looked for where a window spreads no further. Of
the settings tried on maps of 27 regions this one keeps 0.96 of a map's score at quality 95 and 0.88 at 75."""
_SAME = 6
"""Flat colours whose channels differ by no more are one: JPEG moves a flat area by a level or two."""
_NEAR = 12
"""A pixel this near to a region's colour belongs to it; others are the blur along borders."""
_MOST = 512
"""Regions looked for; only a photograph taken for a map has more."""
_BLACK = 40
"""Below this in all channels lies the unpainted background, JPEG ringing included; drawn colours begin at 102."""


@dataclass(frozen=True)
class Labels:
    """A map of labels: regions are 1 to `count`, 0 lies outside all of them."""

    of: NDArray[np.int32]
    count: int

    def at(self, height: int, width: int) -> Labels:
        """The map at another size, each pixel the nearest one's."""
        rows = (np.arange(height) + 0.5) * self.of.shape[0] / height
        columns = (np.arange(width) + 0.5) * self.of.shape[1] / width
        return Labels(self.of[rows.astype(int)[:, None], columns.astype(int)[None, :]], self.count)

    def without_small(self, least: int) -> Labels:
        """Only the regions of at least so many pixels (and at least one), numbered anew."""
        sizes = np.bincount(self.of.ravel(), minlength=self.count + 1)
        kept = np.flatnonzero(sizes[1:] >= max(least, 1)) + 1
        renumbered = np.zeros(self.count + 1, np.int32)
        renumbered[kept] = np.arange(1, len(kept) + 1)
        return Labels(renumbered[self.of], len(kept))


def exact_colours(pixels: NDArray[np.uint8], least: int) -> Labels:
    """Every distinct colour (or grey level) is a region, black too, as in MultiRef-Bench."""
    packed = pixels.astype(np.int32) if pixels.ndim == 2 else _packed(pixels)
    colours, labels = np.unique(packed, return_inverse=True)
    return Labels(labels.reshape(packed.shape).astype(np.int32) + 1, len(colours)).without_small(least)


def colour_regions(pixels: Pixels) -> Labels:
    """Regions by their drawn colour; black is background, and colours that JPEG has split are one.

    In a map that went through JPEG the colours are those of flat places. Pixels of no such colour are the blur that
    JPEG leaves along borders, and belong to whatever lies nearest.
    """
    packed = _packed(pixels)
    every, inverse = np.unique(packed, return_inverse=True)
    colours = _unpacked(every)
    if len(every) <= _EXACT:
        palette = [colour for colour in colours if colour.max() >= _BLACK]
        label_of = _nearest(colours, palette, 0)
    else:
        palette = _flat_colours(pixels, packed)
        label_of = _nearest(colours, palette, _NEAR)
    labels = label_of[inverse].reshape(packed.shape).astype(np.int32)
    return Labels(_filled(labels), len(palette))


def _flat_colours(pixels: Pixels, packed: NDArray[np.int32]) -> list[NDArray[np.int32]]:
    """The colours of flat places that are not background, the most frequent first."""
    window = np.ones((_FLAT_WINDOW, _FLAT_WINDOW), np.uint8)
    spread = cv2.absdiff(cv2.dilate(pixels, window), cv2.erode(pixels, window))
    found, counts = np.unique(packed[spread.max(axis=2) <= _FLAT], return_counts=True)
    left = _unpacked(found[np.argsort(-counts, kind="stable")])
    left = left[left.max(axis=1) >= _BLACK]
    palette: list[NDArray[np.int32]] = []
    while len(left) and len(palette) < _MOST:
        palette.append(left[0])
        left = left[np.abs(left - left[0]).max(axis=1) > _SAME]
    return palette


def _nearest(colours: NDArray[np.int32], palette: list[NDArray[np.int32]], within: int) -> NDArray[np.int32]:
    """The label of each colour: 0 for background, -1 for a colour that is not in the palette."""
    label = np.full(len(colours), -1, np.int32)
    best = np.full(len(colours), within + 1, np.int32)
    for number, colour in enumerate(palette, 1):
        away = np.abs(colours - colour).max(axis=1)
        closer = away < best
        label[closer], best[closer] = number, away[closer]
    label[(label < 0) & (colours.max(axis=1) < _BLACK)] = 0
    return label


def _filled(labels: NDArray[np.int32]) -> NDArray[np.int32]:
    unsure = labels < 0
    if unsure.all():
        return np.zeros_like(labels)
    if not unsure.any():
        return labels
    _, nearest = cv2.distanceTransformWithLabels(
        unsure.view(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5, labelType=cv2.DIST_LABEL_PIXEL
    )
    sure = ~unsure
    by_number = np.zeros(int(nearest.max()) + 1, np.int32)
    by_number[nearest[sure]] = labels[sure]
    return np.asarray(by_number[nearest])


def match_regions(first: Labels, second: Labels) -> list[tuple[int, int, float]]:
    """Which region of one map is which of the other, and their IoU: the one-to-one matching with the largest sum."""
    if not first.count or not second.count:
        return []
    together = np.bincount(
        first.of.ravel().astype(np.int64) * (second.count + 1) + second.of.ravel(),
        minlength=(first.count + 1) * (second.count + 1),
    ).reshape(first.count + 1, second.count + 1)
    shared = together[1:, 1:]
    union = together.sum(axis=1)[1:, None] + together.sum(axis=0)[None, 1:] - shared
    iou = shared / np.maximum(union, 1)
    return [(row + 1, column + 1, float(iou[row, column])) for row, column in best_pairs(iou)]


def best_pairs(gain: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pairs (row, column) that maximise the total gain; as many as the shorter side has, in the order of the rows.

    The Hungarian method: small enough not to wait for SciPy's import.
    """
    if gain.shape[0] > gain.shape[1]:
        return sorted((row, column) for column, row in best_pairs(gain.T))
    rows, columns = gain.shape
    # Shortest augmenting paths with potentials: row by row, each step finds the cheapest path to a free column.
    cost = np.zeros((rows + 1, columns + 1))
    cost[1:, 1:] = -gain
    row_potential, column_potential = np.zeros(rows + 1), np.zeros(columns + 1)
    taken_by = np.zeros(columns + 1, dtype=int)
    for row in range(1, rows + 1):
        taken_by[0] = row
        reached = np.zeros(columns + 1, dtype=bool)
        cheapest = np.full(columns + 1, np.inf)
        came_from = np.zeros(columns + 1, dtype=int)
        column = 0
        while taken_by[column]:
            reached[column] = True
            at = taken_by[column]
            reduced = cost[at] - row_potential[at] - column_potential
            better = ~reached & (reduced < cheapest)
            cheapest[better], came_from[better] = reduced[better], column
            following = int(np.argmin(np.where(reached, np.inf, cheapest)))
            step = cheapest[following]
            row_potential[taken_by[reached]] += step
            column_potential[reached] -= step
            cheapest[~reached] -= step
            column = following
        while column:
            previous = int(came_from[column])
            taken_by[column] = taken_by[previous]
            column = previous
    return sorted((int(taken_by[c]) - 1, c - 1) for c in range(1, columns + 1) if taken_by[c])


def _packed(pixels: Pixels) -> NDArray[np.int32]:
    wide = pixels.astype(np.int32)
    return (wide[..., 0] << 16) | (wide[..., 1] << 8) | wide[..., 2]


def _unpacked(colours: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.stack([colours >> 16, (colours >> 8) & 255, colours & 255], axis=-1)
