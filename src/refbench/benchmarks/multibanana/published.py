"""Numbers that were published: the totals of the paper's Tables 3, 5, 6, 12, 13 and 14, and how they hang together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from refbench.benchmarks.multibanana.aggregate import PAPER
from refbench.benchmarks.multibanana.details import CRITERIA, TASKS, MultiBananaCase, MultiBananaDetails
from refbench.benchmarks.published import PublishedValue, published_values
from refbench.case import Request
from refbench.failure import Failure
from refbench.score import Score
from refbench.table import tabulate

JUDGES = ("GPT-5", "Gemini-2.5")
"""The two whose mean the paper's main table is made of."""

_NAMES = {"group": ("group",), "task": ("group", "task")}


def published() -> list[PublishedValue]:
    """All cells with a number. No files of any model were released, so none has a `model`."""
    return published_values("refbench.benchmarks.multibanana", _NAMES)


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
        for row in tabulate("paper", PAPER, scores, cases, draws=0)
        if row.metric == "total" and row.slice["level"] == "group" and row.value is not None
    }
