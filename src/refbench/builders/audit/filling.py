"""Filling a hole in a picture with what is around it: patches of the rest, coarse to fine, copied at full size."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.builders.audit.scene import Mask
from refbench.pictures import Pixels

_SIDES = (40, 80, 160)
"""Longer sides that patches are looked for at."""
_REACH = 2
"""Patches are 5 x 5 pixels."""
_ROUNDS = (6, 4, 3)
_OFFSETS = np.argwhere(np.ones((2 * _REACH + 1,) * 2)) - _REACH

_Places = NDArray[np.intp]
_Floats = NDArray[np.float32]


def filled(pixels: Pixels, hole: Mask, drawn: np.random.Generator) -> Pixels:
    """The picture with the hole filled; what is outside of it is unchanged. Needs some picture outside of the hole."""
    height, width = hole.shape
    near = _field(pixels, hole, drawn)
    rows, columns = np.nonzero(hole)
    scale = near.shape[0] / height, near.shape[1] / width
    y, x = (rows + 0.5) * scale[0] - 0.5, (columns + 0.5) * scale[1] - 0.5
    low_y, low_x = np.floor(y).astype(np.intp), np.floor(x).astype(np.intp)
    free = ~hole
    mixed, weights = np.zeros((len(rows), 3), np.float32), np.zeros((len(rows), 1), np.float32)
    # Each pixel is copied from where the four nearest patches come from, and mixed: no edges between patches.
    for down in (0, 1):
        for right in (0, 1):
            at_y = np.clip(low_y + down, 0, near.shape[0] - 1)
            at_x = np.clip(low_x + right, 0, near.shape[1] - 1)
            moved = near[at_y, at_x]
            from_y = np.clip(np.rint(rows + moved[:, 0] / scale[0]).astype(np.intp), 0, height - 1)
            from_x = np.clip(np.rint(columns + moved[:, 1] / scale[1]).astype(np.intp), 0, width - 1)
            share = (1 - np.abs(low_y + down - y)) * (1 - np.abs(low_x + right - x)) + 1e-3
            share = (share**2 * free[from_y, from_x]).astype(np.float32)[:, None]
            mixed += share * pixels[from_y, from_x]
            weights += share
    made = pixels.copy()
    known = weights[:, 0] > 0
    made[rows[known], columns[known]] = np.rint(mixed[known] / weights[known]).astype(np.uint8)
    if not known.all():
        rest = np.zeros(hole.shape, np.uint8)
        rest[rows[~known], columns[~known]] = 255
        made = np.where(rest[..., None] > 0, cv2.inpaint(made, rest, 3, cv2.INPAINT_TELEA), made)
    return made


def _field(pixels: Pixels, hole: Mask, drawn: np.random.Generator) -> _Floats:
    """For each place at the finest of the small sizes, where its patch comes from, as steps down and right."""
    places: NDArray[np.intp] | None = None
    guess: _Floats | None = None
    before = (1, 1)
    steps = np.zeros((1, 1, 2), np.float32)
    for side, rounds in zip(_SIDES, _ROUNDS, strict=True):
        scale = min(1.0, side / max(hole.shape))
        size = max(2 * _REACH + 2, round(hole.shape[1] * scale)), max(2 * _REACH + 2, round(hole.shape[0] * scale))
        small = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32)
        inside = cv2.resize(hole.astype(np.uint8) * 255, size, interpolation=cv2.INTER_AREA) > 0
        seen = cv2.erode((~inside).astype(np.uint8), np.ones((2 * _REACH + 1,) * 2, np.uint8), borderValue=0) > 0
        seen[:_REACH] = seen[-_REACH:] = False
        seen[:, :_REACH] = seen[:, -_REACH:] = False
        sources = np.argwhere(seen)
        if not len(sources):  # no whole patch is left at this size
            sources = np.argwhere(~inside)
        targets = np.argwhere(cv2.dilate(inside.astype(np.uint8), np.ones((2 * _REACH + 1,) * 2, np.uint8)) > 0)
        if guess is None:
            small = cv2.inpaint(small.astype(np.uint8), inside.astype(np.uint8) * 255, 3, cv2.INPAINT_TELEA).astype(
                np.float32
            )
            places = sources[drawn.integers(len(sources), size=len(targets))]
        else:
            larger = cv2.resize(guess, size, interpolation=cv2.INTER_LINEAR)
            small = np.where(inside[..., None], larger, small)
            grown = (before[0] / inside.shape[0], before[1] / inside.shape[1])
            old = np.minimum((targets * grown).astype(np.intp), np.array(before) - 1)
            places = _nearest_source(
                targets + np.rint(steps[old[:, 0], old[:, 1]] / grown).astype(np.intp), seen, sources, drawn
            )
        for _ in range(rounds):
            places = _searched(small, seen, targets, places, drawn)
            small = _voted(small, inside, targets, places)
        guess, before = small, inside.shape
        steps = np.zeros((*inside.shape, 2), np.float32)
        steps[targets[:, 0], targets[:, 1]] = places - targets
    return steps


def _within(places: _Places, shape: tuple[int, ...]) -> Mask:
    """Which of the places are in a picture of that height and width."""
    down, right = places[:, 0], places[:, 1]
    return np.asarray((down >= 0) & (down < shape[0]) & (right >= 0) & (right < shape[1]))


def _nearest_source(wanted: _Places, seen: Mask, sources: _Places, drawn: np.random.Generator) -> _Places:
    """The places where they are whole patches, others by chance."""
    inside = _within(wanted, seen.shape)
    kept = np.where(inside[:, None], wanted, 0)
    good = inside & seen[kept[:, 0], kept[:, 1]]
    return np.where(good[:, None], kept, sources[drawn.integers(len(sources), size=len(wanted))])


def _searched(small: _Floats, seen: Mask, targets: _Places, places: _Places, drawn: np.random.Generator) -> _Places:
    """Better patches for each target: those of its neighbours, moved, and some around its own, nearer and nearer."""
    padded = np.pad(small, ((_REACH, _REACH), (_REACH, _REACH), (0, 0)), mode="edge")

    def patches(at: _Places) -> _Floats:
        rows = at[:, None, 0] + _OFFSETS[:, 0] + _REACH
        return np.asarray(padded[rows, at[:, None, 1] + _OFFSETS[:, 1] + _REACH], np.float32)

    wanted = patches(targets)
    index = np.full(small.shape[:2], -1, np.intp)
    index[targets[:, 0], targets[:, 1]] = np.arange(len(targets))
    best = np.square(patches(places) - wanted).sum(axis=(1, 2))

    def offer(candidates: _Places) -> None:
        inside = _within(candidates, seen.shape)
        kept = np.where(inside[:, None], candidates, 0)
        good = np.flatnonzero(inside & seen[kept[:, 0], kept[:, 1]])
        cost = np.square(patches(kept[good]) - wanted[good]).sum(axis=(1, 2))
        better = cost < best[good]
        places[good[better]], best[good[better]] = kept[good][better], cost[better]

    places = places.copy()
    for reach in (1, 4):
        for step in ((0, reach), (0, -reach), (reach, 0), (-reach, 0)):
            beside = np.clip(targets - step, 0, np.array(small.shape[:2]) - 1)
            there = index[beside[:, 0], beside[:, 1]]
            offer(np.where((there >= 0)[:, None], places[there] + step, places))
    radius = max(small.shape[:2])
    while radius >= 1:
        offer(places + drawn.integers(-radius, radius + 1, size=places.shape))
        radius //= 3
    return places


def _voted(small: _Floats, inside: Mask, targets: _Places, places: _Places) -> _Floats:
    """The hole as the patches would have it, all that lie over a pixel together; outside it is what it was."""
    height, width = inside.shape
    sums, counts = np.zeros((height, width, 3), np.float32), np.zeros((height, width, 1), np.float32)
    for step in _OFFSETS:
        to, source = targets + step, places + step
        ok = _within(to, inside.shape) & _within(source, inside.shape)
        to, source = to[ok], source[ok]
        sums[to[:, 0], to[:, 1]] += small[source[:, 0], source[:, 1]]
        counts[to[:, 0], to[:, 1]] += 1
    return np.where(inside[..., None] & (counts > 0), sums / np.maximum(counts, 1), small)
