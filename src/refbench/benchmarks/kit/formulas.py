"""Formulas that public benchmarks share, for `derived=` and `total=`: roots of products, caps, gates, full marks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from refbench.benchmarks.kit.aggregate import Formula


def least(*names: str) -> Formula:
    """The lowest of several marks."""
    return lambda marks: min(marks[name] for name in names)


def root_of_least(*parts: Sequence[str]) -> Formula:
    """The geometric mean of the lowest mark of each part: VIEScore's total, where two parts have two marks each."""
    return lambda marks: math.prod(min(marks[name] for name in part) for part in parts) ** (1 / len(parts))


def geometric_mean(*names: str) -> Formula:
    """The root of the product of several marks."""
    return root_of_least(*((name,) for name in names))


def mean_capped(first: str, *others: str) -> Formula:
    """The mean of several marks of which none counts more than the first does."""

    def mean(marks: Mapping[str, Any]) -> float:
        return float(sum(min(marks[name], marks[first]) for name in (first, *others)) / (1 + len(others)))

    return mean


def all_full(*marks_and_ends: tuple[str, float]) -> Formula:
    """1 where every mark that applies is at its end, else 0. One that failed leaves no answer, whatever the others."""
    ends = dict(marks_and_ends)

    def full(marks: Any) -> float:
        met = [marks[name] == ends[name] for name in marks.applying([*ends])]  # one that failed ends it, wherever it is
        return float(all(met))

    return full


def gated(formula: Formula, gate: str, at_least: float, otherwise: Formula) -> Formula:
    """One formula where a mark reaches a threshold, another one elsewhere."""
    return lambda marks: formula(marks) if marks[gate] >= at_least else otherwise(marks)
