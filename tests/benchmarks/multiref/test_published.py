"""The paper's averages follow from its other cells by our aggregation: an oracle that needs no pictures and no judge."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from refbench.benchmarks.kit.definition import Dataset
from refbench.benchmarks.multiref.cases import AXES, CATEGORIES, TYPES, MultiRefCase, MultiRefDetails, Reference
from refbench.benchmarks.multiref.table import PAPER, SCALES, published, slices
from refbench.case import Request
from refbench.score import Score
from refbench.tables.table import Row, tabulate

Cells = Mapping[tuple[str, str], float]
"""(label, column) to the printed number."""


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


SHARED = Path(__file__).resolve().parents[4] / "shared/published"


def table_6() -> dict[tuple[str, str], float]:
    return {(p.label, p.metric): p.value for p in published() if p.table == "6"}


def test_every_cell_of_both_tables_is_there() -> None:
    values = published()
    assert Counter(p.table for p in values) == {"5": 11 * 3 * 6, "6": 11 * 16}
    assert all(p.model is None for p in values), "no model's files were released"
    assert {p.metric for p in values if p.table == "6"} == {*AXES, *TYPES, "fid", "aesthetics", "avg"}
    assert all(p.judge == ("GPT-4o-mini" if p.metric in AXES else "") for p in values)
    assert len({p.label for p in values}) == 11, "one spelling for both tables"


def test_the_cells_are_those_of_the_transcribed_tables() -> None:
    if not SHARED.is_dir():
        pytest.skip("the transcribed tables are not beside this checkout")
    for table, name in (("5", "multiref_table5_realworld.csv"), ("6", "multiref_table6_synthetic.csv")):
        with (SHARED / name).open() as file:
            printed = sorted(float(row["value"]) for row in csv.DictReader(file))
        assert sorted(p.value for p in published() if p.table == table) == printed


def test_slices_and_metrics_are_spelt_as_in_our_tables(dataset: Dataset) -> None:
    ours = [where.label for where in slices(dataset.cases)]
    names = {measure.name for measure in PAPER.measures}
    for value in published():
        assert dict(value.slice) in ours
        assert value.metric in names


def test_avg_of_table_6_follows_from_its_ten_types_in_all_11_rows() -> None:
    cells = table_6()
    ours = avg_from_types({cell: value for cell, value in cells.items() if cell[1] in TYPES})
    residuals = {label: round(value - cells[label, "avg"], 4) for label, value in ours.items()}
    assert len(residuals) == 11
    # Printed cells have three decimals: a residual within half of the last one is rounding.
    assert max(map(abs, residuals.values())) <= 0.0005
    assert residuals["OmniGen"] == 0.0004
    assert residuals["Ground Truth"] == 0.0004
    assert all(round(value + 1e-9, 3) == cells[label, "avg"] for label, value in ours.items())


def test_overall_of_table_5_follows_from_its_five_categories_in_all_33_cells() -> None:
    values = [p for p in published() if p.table == "5"]
    checked = 0
    for axis in AXES:
        cells = {(p.label, p.slice["category"]): p.value for p in values if p.metric == axis and "category" in p.slice}
        assert {category for _, category in cells} == set(CATEGORIES)
        ours = overall_from_categories(cells, axis)
        for value in values:
            if value.metric == axis and value.slice["level"] == "split":
                assert ours[value.label] == pytest.approx(value.value, abs=0.0005), (value.label, axis)
                checked += 1
    assert checked == 33


def test_a_mean_over_cases_would_not_give_table_5() -> None:
    weights = {name: count for name, (_, _, count) in CATEGORIES.items()}
    cells = {
        p.slice["category"]: p.value
        for p in published()
        if p.table == "5" and p.label == "OmniGen" and p.metric == "IQ" and "category" in p.slice
    }
    weighted = sum(weights[name] * value for name, value in cells.items()) / sum(weights.values())
    assert abs(weighted - 0.555) > 0.02
