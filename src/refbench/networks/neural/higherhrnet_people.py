"""From heat and tags to people, as HigherHRNet's own parser groups joints; plain arithmetic on arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

MOST = 30
"""Candidates of each joint, and people that joints are matched with."""
PEAK = 0.1
TAG = 1.0
"""A joint belongs to a person when its tag is nearer than this to the mean of the person's."""
_WINDOW = 5
# The face first, then shoulders and hips, then outwards.
_ORDER = (0, 1, 2, 3, 4, 5, 6, 11, 12, 7, 8, 9, 10, 13, 14, 15, 16)

Floats = NDArray[np.float64]


@dataclass(eq=False)
class _Person:
    joints: Floats
    tags: list[Floats]


def group(heat: NDArray[Any], tags: NDArray[Any]) -> tuple[Floats, Floats]:
    """People (n x 17 x 3: x, y in pixels of the maps, heat) and their scores, from heat (17 x height x width) and tags
    (17 x height x width x 2, of the picture and of its mirror image)."""
    found = _matched(heat, tags)
    people = np.array([person.joints for person in found], dtype=np.float64).reshape(-1, len(heat), 3)
    for person in people:
        for joint, (x, y, score) in enumerate(person):
            if score > 0:
                person[joint, :2] = _adjusted(heat[joint], int(x), int(y))
    # The score is that of the joints that were found: those below are filled in.
    scores = people[:, :, 2].mean(axis=1) if len(people) else np.zeros(0)
    for person in people:
        _fill(person, heat, tags)
    return people, scores


def _candidates(heat: NDArray[Any], tags: NDArray[Any]) -> tuple[Floats, Floats]:
    """The highest peaks of one joint, as x, y, heat, and their tags."""
    highest = cv2.dilate(heat, np.ones((_WINDOW, _WINDOW), np.uint8))
    y, x = np.nonzero((highest == heat) & (heat > PEAK))
    best = np.argsort(-heat[y, x], kind="stable")[:MOST]
    y, x = y[best], x[best]
    joints = np.stack([x, y, heat[y, x]], axis=1).astype(np.float64)
    return joints, tags[y, x].astype(np.float64)


def _matched(heat: NDArray[Any], tags: NDArray[Any]) -> list[_Person]:
    """People by their tags, joint after joint."""
    people: dict[float, _Person] = {}
    for joint in _ORDER:
        joints, marks = _candidates(heat[joint], tags[joint])
        if not len(joints):
            continue
        known = list(people.values())[:MOST]
        pairs: dict[int, int] = {}
        if known:
            means = np.array([np.mean(person.tags, axis=0) for person in known])
            away = np.linalg.norm(marks[:, None] - means[None], axis=2)
            # Whole steps of distance first, then the higher peak.
            cost = np.round(away) * 100 - joints[:, 2:3]
            pairs = {row: column for row, column in cheapest_pairs(cost) if away[row, column] < TAG}
        for row in range(len(joints)):
            if row in pairs:
                person = known[pairs[row]]
                person.tags.append(marks[row])
            else:
                # Two joints of one tag are one person, as the tag is the person's name.
                person = people.setdefault(float(marks[row, 0]), _Person(np.zeros((len(heat), 3)), []))
                person.tags = [marks[row]]
            person.joints[joint] = joints[row]
    return list(people.values())


def _adjusted(heat: NDArray[Any], x: int, y: int) -> tuple[float, float]:
    """The middle of a pixel, moved by a quarter towards its higher neighbours."""
    rows, columns = heat.shape
    right = heat[y, min(x + 1, columns - 1)] > heat[y, max(x - 1, 0)]
    below = heat[min(y + 1, rows - 1), x] > heat[max(y - 1, 0), x]
    return x + 0.5 + (0.25 if right else -0.25), y + 0.5 + (0.25 if below else -0.25)


def _fill(person: Floats, heat: NDArray[Any], tags: NDArray[Any]) -> None:
    """Put missing joints where the heat is highest among places with the person's tag."""
    there = [joint for joint in range(len(person)) if person[joint, 2] > 0]
    seen = np.array([tags[joint, int(person[joint, 1]), int(person[joint, 0])] for joint in there], dtype=np.float32)
    first, mirrored = seen.mean(axis=0)
    for joint in range(len(person)):
        if person[joint, 2] > 0:
            continue
        away = np.hypot(tags[joint, :, :, 0] - first, tags[joint, :, :, 1] - mirrored)
        y, x = np.unravel_index(int(np.argmax(heat[joint] - np.round(away))), heat[joint].shape)
        if heat[joint, y, x] > 0:
            person[joint] = *_adjusted(heat[joint], int(x), int(y)), heat[joint, y, x]


def cheapest_pairs(cost: Floats) -> list[tuple[int, int]]:
    """The one-to-one matching of rows and columns with the smallest sum: rows one by one, by shortest paths."""
    if len(cost) > cost.shape[1]:
        return sorted((row, column) for column, row in cheapest_pairs(cost.T))
    rows, columns = cost.shape
    row_price, column_price = np.zeros(rows), np.zeros(columns)
    owner = np.full(columns, -1)
    for start in range(rows):
        least = np.full(columns, np.inf)
        before = np.full(columns, -1)
        done = np.zeros(columns, dtype=bool)
        row, column = start, -1
        while True:
            reduced = cost[row] - row_price[row] - column_price
            better = ~done & (reduced < least)
            least[better], before[better] = reduced[better], column
            open_columns = np.where(done, np.inf, least)
            column = int(np.argmin(open_columns))
            step = float(open_columns[column])
            row_price[start] += step
            row_price[owner[done]] += step
            column_price[done] -= step
            least[~done] -= step
            done[column] = True
            if owner[column] < 0:
                break
            row = int(owner[column])
        while column >= 0:
            previous = int(before[column])
            owner[column] = owner[previous] if previous >= 0 else start
            column = previous
    return sorted((int(row), column) for column, row in enumerate(owner) if row >= 0)
