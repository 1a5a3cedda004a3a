"""The truth row: the golden or original picture scored like a model's, and every measure as a share of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refbench.benchmarks.dataset import Dataset
from refbench.benchmarks.multiref.measures import LOWER
from refbench.table import Row

TRUTH = "truth"
"""The name of the model whose outputs are the targets."""

_NOT_SHARED = frozenset({"fid"})
"""No distance, and no share: one picture has none."""


def truth_outputs(dataset: Dataset) -> list[tuple[str, Path]]:
    """Case and file of every golden or original picture that is there."""
    found = [(case.id, dataset.path(picture)) for case in dataset.cases for picture in case.targets[:1]]
    return [(case, path) for case, path in found if path.is_file()]


def ratio_to_truth(rows: Sequence[Row], truth: str = TRUTH) -> list[Row]:
    """For every row of every model a row `<metric> / truth`; none where the table holds no model of that name.

    Errors are turned round before the division, as in every average: (1 - x) / (1 - truth). The truth is compared
    under the same judge, protocol and slice. There is no interval: numerator and denominator depend on each other.
    """
    known = {_place(row): row.value for row in rows if row.model == truth}
    return [_ratio(row, known[_place(row)]) for row in rows if _place(row) in known and row.metric not in _NOT_SHARED]


def _place(row: Row) -> tuple[str | None, str, str, tuple[tuple[str, str], ...]]:
    return row.judge, row.protocol, row.metric, tuple(sorted(row.slice.items()))


def _ratio(row: Row, truth: float | None) -> Row:
    value, whole = _oriented(row.metric, row.value), _oriented(row.metric, truth)
    remark = "no value of the truth" if whole is None else "the truth's value is not above 0" if whole <= 0 else None
    share = None if value is None or whole is None or whole <= 0 else round(value / whole, 9)
    update = {"metric": f"{row.metric} / truth", "value": share, "ci95": None, "bounds": None, "remark": remark}
    return row.model_copy(update=update)


def _oriented(metric: str, value: float | None) -> float | None:
    return 1.0 - value if value is not None and metric in LOWER else value
