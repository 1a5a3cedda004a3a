"""Holm's correction: p values of a family such that the chance of any false claim stays at the level."""

from __future__ import annotations

from collections.abc import Sequence


def holm(values: Sequence[float]) -> list[float]:
    """Adjusted p values in the order given: the k-th smallest of m times m - k + 1, never less than one before it."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    adjusted = [0.0] * len(values)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, values[i] * (len(values) - rank)))
        adjusted[i] = highest
    return adjusted
