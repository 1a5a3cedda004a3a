"""What each single case contributes: the benchmark's own aggregate, applied to one case at a time.

Comparisons, pages and picture sheets rank cases by these values; tables never average them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from refbench.case import AnyCase
from refbench.columns import Columns
from refbench.stats import Array
from refbench.table import Aggregate, summaries

_BLOCK = 256
"""Cases at a time: each is a weight vector over all cases."""


def case_values(aggregate: Aggregate, columns: Columns, cases: Sequence[AnyCase]) -> dict[str, Array]:
    """Each measure of the aggregate on each single case, systems x cases; NaN where the case has no value.

    A measure over several metrics (a total, a gated sum) is computed from the case's own scores, as the table
    would if this were its only case.
    """
    values: Mapping[str, Array] = aggregate.filled(columns)
    overall = aggregate.overall(cases)
    found: dict[str, list[Array]] = {}
    for start in range(0, len(cases), _BLOCK):
        chosen = np.arange(start, min(start + _BLOCK, len(cases)))
        # The last draw is all cases: an aggregate may look there for what the benchmark has values of at all.
        weights = np.zeros((len(chosen) + 1, len(cases)))
        weights[np.arange(len(chosen)), chosen] = 1.0
        weights[-1] = 1.0
        for (_, measure), value in summaries(aggregate, values, weights, overall).items():
            found.setdefault(measure, []).append(value[:, :-1])
    return {measure: np.concatenate(blocks, axis=1) for measure, blocks in found.items()}
