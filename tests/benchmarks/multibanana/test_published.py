"""The paper's tables hang together by our aggregation: an oracle that needs no pictures and no judge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from refbench.benchmarks.kit.published import PublishedValue
from refbench.benchmarks.multibanana.cases import CRITERIA, GROUPS, TASKS, MultiBananaCase, MultiBananaDetails
from refbench.benchmarks.multibanana.table import AGGREGATE, published, slices
from refbench.case import Request
from refbench.failure import Failure
from refbench.score import Score
from refbench.tables.table import tabulate

JUDGES = ("GPT-5", "Gemini-2.5")
"""The two whose mean the paper's main table is made of."""


def judge_mean(values: Iterable[PublishedValue]) -> dict[tuple[str, str], float]:
    """The mean of the two judges for each (label, task) that both have rated, as Table 14 is made."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for value in values:
        if value.slice["level"] == "task" and value.judge in JUDGES:
            found[value.label, value.slice["task"]][value.judge] = value.value
    return {cell: sum(by.values()) / len(JUDGES) for cell, by in found.items() if set(by) == set(JUDGES)}


def group_from_tasks(cells: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Totals of (label, task) to totals of (label, group), by the aggregate of the `paper` protocol.

    Each task is one set whose five marks are the printed total; a task without a number was not generated.
    """
    tasks = [task for name, task in TASKS.items() if any(name == cell[1] for cell in cells)]
    cases = [
        MultiBananaCase(
            id=task.name,
            request=Request(instruction=""),
            groups={"group": task.group, "task": task.name, "n_refs": str(task.n_refs), "source": "unknown"},
            cluster=task.name,
            stratum=task.name,
            details=MultiBananaDetails(task_dir=task.name, number="0"),
        )
        for task in tasks
    ]
    absent = Failure(kind="missing_output", detail="the table has no number")
    scores = [
        Score(case=task.name, model=label, metric=criterion, protocol="paper", value=value, failure=failure)
        for label in dict.fromkeys(label for label, _ in cells)
        for task in tasks
        for value in [cells.get((label, task.name))]
        for failure in [absent if value is None else None]
        for criterion in CRITERIA
    ]
    return {
        (row.model, row.slice["group"]): row.value
        for row in tabulate("paper", AGGREGATE, scores, cases, draws=0)
        if row.metric == "total" and row.slice["level"] == "group" and row.value is not None
    }


def cells(table: str) -> dict[tuple[str, str], float]:
    return {(p.label, p.slice.get("task") or p.slice["group"]): p.value for p in published() if p.table == table}


def test_every_number_of_the_tables_is_there() -> None:
    assert Counter(p.table for p in published()) == {"3": 42, "5": 60, "6": 108, "12": 108, "13": 108, "14": 108}
    for value in published():
        assert value.metric == "total"
        assert value.model is None, "no model's files were released"
        assert 1 <= value.value <= 10
        assert value.slice["group"] in GROUPS
        if value.slice["level"] == "task":
            assert TASKS[value.slice["task"]].group == value.slice["group"]


def test_slices_are_spelt_as_in_our_tables() -> None:
    cases = [
        MultiBananaCase(
            id=name,
            request=Request(instruction=""),
            groups={"group": task.group, "task": name, "n_refs": str(task.n_refs), "source": "unknown"},
            cluster=name,
            details=MultiBananaDetails(task_dir=name, number="0"),
        )
        for name, task in TASKS.items()
    ]
    ours = [s.label for s in slices(cases)]
    assert all(dict(value.slice) in ours for value in published())


def test_table_14_is_the_mean_of_tables_12_and_13() -> None:
    printed = cells("14")
    ours = judge_mean([p for p in published() if p.table in ("12", "13")])
    assert set(ours) == set(printed)
    assert len(ours) == 108
    assert max(abs(ours[cell] - printed[cell]) for cell in printed) <= 0.005 + 1e-9


def test_the_multi_reference_columns_of_table_3_follow_from_table_14_by_our_aggregate() -> None:
    printed = cells("3")
    ours = group_from_tasks(cells("14"))
    assert len(ours) == 20
    for cell, value in ours.items():
        # 0.002 and half a unit of the third decimal; the cells of Table 14 have two decimals.
        assert value == pytest.approx(printed[cell], abs=0.0025), cell


def test_omnigen2_is_averaged_over_the_numbers_of_references_it_has() -> None:
    tasks = {task for label, task in cells("14") if label == "OmniGen2"}
    assert {TASKS[task].n_refs for task in tasks} == {3, 4, 5}
    assert group_from_tasks(cells("14"))["OmniGen2", "object"] == pytest.approx((3.86 + 3.00 + 2.91) / 3, abs=1e-6)
