"""Which of several choices are worth considering: those that no other beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name")


def frontier(points: Mapping[Name, Sequence[float | None]]) -> set[Name]:
    """Those than which no other is at least as good in everything and better in something; more is better in all.

    What is unknown of every one is not compared; a point of which anything else is unknown is on no frontier.
    """
    width = len(next(iter(points.values()), ()))
    compared = [i for i in range(width) if any(point[i] is not None for point in points.values())]
    known = {name: tuple(value for i in compared if (value := point[i]) is not None) for name, point in points.items()}
    whole = {name: values for name, values in known.items() if compared and len(values) == len(compared)}
    return {
        name
        for name, mine in whole.items()
        if not any(other != mine and all(a >= b for a, b in zip(other, mine, strict=True)) for other in whole.values())
    }
