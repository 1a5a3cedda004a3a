"""Scores to the table: dimension and overall are means over items, a category is the mean of its dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refbench.benchmarks.creval.details import DIMENSIONS, METRICS
from refbench.benchmarks.creval.grade import SCORED_ZERO
from refbench.case import AnyCase
from refbench.stats import Array
from refbench.table import Aggregate, Mean, Measure, Slice, Summary, slice_mean

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
    """Percent for each metric and their 4:4:2 average."""
    values: dict[str, Array] = {metric: 100 * slice_mean(mean, metric, where) for metric in METRICS}
    return {**values, "avg": _avg(values)}


CORRECTED = Aggregate(MEASURES, slices, summarise, imputed={})
PAPER = Aggregate(MEASURES, slices, summarise, imputed=dict.fromkeys(SCORED_ZERO, 0.0))


def _avg(values: Summary) -> Array:
    total: Array = sum((weight * values[metric] for metric, weight in WEIGHTS.items()), np.zeros(()))
    return total
