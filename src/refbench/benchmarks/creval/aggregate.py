"""Scores to the table: dimension and overall are means over items, a category is the mean of its dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refbench.benchmarks.creval.details import DIMENSIONS, METRICS
from refbench.benchmarks.creval.grade import SCORED_ZERO
from refbench.case import AnyCase
from refbench.stats import Array
from refbench.table import Aggregate, Mean, Measure, Slice, Summary

WEIGHTS = {"IF": 0.4, "VC": 0.4, "VQ": 0.2}
"""The paper's 4:4:2, chosen there by comparing rankings with human scores."""

MEASURES = (*(Measure(metric, (metric,)) for metric in METRICS), Measure("avg", METRICS))


def slices(cases: Sequence[AnyCase]) -> list[Slice]:
    """Overall, then each category, then each dimension, in the order of the class ids."""
    by_dimension = np.array([case.groups["dimension"] for case in cases])
    dimensions = [
        Slice("dimension", {"category": category, "dimension": dimension}, by_dimension == dimension)
        for category, dimension in DIMENSIONS.values()
        if (by_dimension == dimension).any()
    ]
    categories = []
    for name in dict.fromkeys(d.names["category"] for d in dimensions):
        parts = tuple(d for d in dimensions if d.names["category"] == name)
        categories.append(Slice("category", {"category": name}, np.any([d.members for d in parts], axis=0), parts))
    return [Slice("overall", {}, np.ones(len(cases), dtype=np.bool_)), *categories, *dimensions]


def summarise(mean: Mean, where: Slice) -> Summary:
    """Percent for each metric and their 4:4:2 average. A category with an unscored dimension has no value."""
    values: dict[str, Array] = {metric: 100 * _value(mean, metric, where) for metric in METRICS}
    return {**values, "avg": _avg(values)}


def summarise_paper(mean: Mean, where: Slice) -> Summary:
    """The same, but dimensions without any score are skipped in a category, as the released script does."""
    values: dict[str, Array] = {metric: 100 * _value(mean, metric, where, skip_empty=True) for metric in METRICS}
    return {**values, "avg": _avg(values)}


CORRECTED = Aggregate(MEASURES, slices, summarise, imputed={})
PAPER = Aggregate(MEASURES, slices, summarise_paper, imputed=dict.fromkeys(SCORED_ZERO, 0.0))


def _value(mean: Mean, metric: str, where: Slice, *, skip_empty: bool = False) -> Array:
    if not where.parts:
        return mean(metric, where.members)
    parts = np.stack([mean(metric, part.members) for part in where.parts])
    there = ~np.isnan(parts)
    if not skip_empty:
        value: Array = parts.mean(axis=0)
        return value
    with np.errstate(invalid="ignore"):
        averaged: Array = np.where(there, parts, 0.0).sum(axis=0) / there.sum(axis=0)
    return averaged


def _avg(values: Summary) -> Array:
    total: Array = sum((weight * values[metric] for metric, weight in WEIGHTS.items()), np.zeros(()))
    return total
