"""A total over all marks of all cases together: a case with four marks counts for more than one with three."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from refbench.benchmarks.kit.aggregate import TableRules
from refbench.stats import Array
from refbench.tables.table import Aggregate, Bools, Mean, Measure, Slice, Summary

_SUM, _COUNT = "sum of the marks", "number of marks"


def pooled(measures: tuple[str, ...], name: str, scale: float = 1.0) -> Aggregate:
    """The aggregate whose total is the mean of all marks there are; each measure is a share."""
    plain = TableRules(dict.fromkeys(measures, (0.0, 1.0)), scale=scale).aggregate()

    def of_picture(drawn: Mapping[str, Array], away: Mapping[str, Bools]) -> Mapping[str, Array]:
        marks = np.stack([drawn[measure] for measure in measures])
        there = (~np.isnan(marks)).sum(axis=0)
        none = np.where(there > 0, 0.0, np.nan)
        return {_SUM: np.nansum(marks, axis=0) + none, _COUNT: there + none}

    def summarise(mean: Mean, where: Slice) -> Summary:
        total: Array = scale * mean(_SUM, where.members) / mean(_COUNT, where.members)
        return {**plain.summarise(mean, where), name: total}

    total = Measure(name, measures, 0.0, 1.0, any_part=True)
    return replace(
        plain,
        measures=(*plain.measures, total),
        summarise=summarise,
        per_case=of_picture,
        separate=False,
        plain=False,
    )
