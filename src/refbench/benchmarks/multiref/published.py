"""Numbers that were published: the paper's Tables 5 and 6, and how their averages follow from their other cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from refbench.benchmarks.multiref.aggregate import PAPER, SCALES
from refbench.benchmarks.multiref.details import AXES, CATEGORIES, TYPES, MultiRefCase, MultiRefDetails, Reference
from refbench.benchmarks.published import PublishedValue, published_values
from refbench.case import Request
from refbench.score import Score
from refbench.table import Row, tabulate

Cells = Mapping[tuple[str, str], float]
"""(label, column) to the printed number."""

_NAMES = {"split": ("split",), "category": ("split", "category")}


def published() -> list[PublishedValue]:
    """All cells of both tables. No model's files were released, so none has a `model`."""
    return published_values("refbench.benchmarks.multiref", _NAMES)


def avg_from_types(cells: Cells) -> dict[str, float]:
    """`avg` of each label from its ten type columns, by the aggregate of `paper`: each type is one case."""
    cases = [
        MultiRefCase(
            id=kind,
            request=Request(instruction=""),
            groups={"split": "synthetic", "combination": kind, "n_refs": "1"},
            cluster=kind,
            details=MultiRefDetails(split="synthetic", entry=number, references=(Reference(type=kind),)),
        )
        for number, kind in enumerate(TYPES)
    ]
    where = {"level": "split", "split": "synthetic"}
    return _values(_rows(cases, cells, TYPES), "avg", where)


def overall_from_categories(cells: Cells, axis: str) -> dict[str, float]:
    """The real-world number of each label on an axis from its five categories: each category is one case."""
    cases = [
        MultiRefCase(
            id=name,
            request=Request(instruction=""),
            groups={"split": "real-world", "category": name, "n_refs": "2"},
            cluster=name,
            details=MultiRefDetails(split="real-world", entry=number),
        )
        for number, name in enumerate(CATEGORIES)
    ]
    where = {"level": "split", "split": "real-world"}
    return _values(_rows(cases, cells, (axis,)), axis, where)


def _values(rows: Iterable[Row], metric: str, where: Mapping[str, str]) -> dict[str, float]:
    mine = (row for row in rows if row.metric == metric and dict(row.slice) == where)
    return {row.model: row.value for row in mine if row.value is not None}


def _rows(cases: Sequence[MultiRefCase], cells: Cells, metrics: Iterable[str]) -> list[Row]:
    """Every score that the aggregate reads; those that have no printed cell do not apply."""
    wanted = set(metrics)
    names = dict.fromkeys(part for measure in PAPER.measures for part in measure.parts)
    scores = []
    for label in dict.fromkeys(label for label, _ in cells):
        for case in cases:
            for name in names:
                printed = cells.get((label, case.id)) if name in (wanted & {case.id} or wanted & {*AXES}) else None
                value = None if printed is None else printed * SCALES.get(name, 1.0)
                reason = "not printed" if value is None else None
                scores.append(
                    Score(case=case.id, model=label, metric=name, protocol="paper", value=value, not_applicable=reason)
                )
    return tabulate("paper", PAPER, scores, cases, draws=0)
