"""Scores to the table: a task is the mean over its sets; groups, numbers of references and overall are unweighted
means over tasks, as the paper's Table 3 is; tags and sources are means over sets, as its figures are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from refbench.benchmarks.kit.aggregate import TableRules, Total, macro_slice, slice_within
from refbench.benchmarks.kit.published import PublishedValue, published_values
from refbench.benchmarks.multibanana.cases import (
    CRITERIA,
    GROUPS,
    HIGHEST,
    LOWEST,
    TAGS,
    TASKS,
    WEIGHTS,
    MultiBananaCase,
    MultiBananaDetails,
)
from refbench.case import AnyCase, Request
from refbench.failure import Failure
from refbench.score import Score
from refbench.tables.table import Slice, tabulate


def slices(cases: Sequence[AnyCase]) -> list[Slice]:
    """Overall, then groups, tasks, numbers of references, tags with and without, and sources of the references."""
    by_task = np.array([case.groups["task"] for case in cases])
    tasks = {
        name: Slice("task", {"group": task.group, "task": name}, by_task == name)
        for name, task in TASKS.items()
        if (by_task == name).any()
    }
    groups = [
        macro_slice("group", {"group": group}, parts)
        for group in GROUPS
        if (parts := [task for task in tasks.values() if task.names["group"] == group])
    ]
    overall = macro_slice("overall", {}, list(tasks.values()))
    return [overall, *groups, *tasks.values(), *_by_references(cases, tasks), *_by_tag(cases), *_by_source(cases)]


def _by_references(cases: Sequence[AnyCase], tasks: dict[str, Slice]) -> list[Slice]:
    """One slice for each number of references, over the tasks that have sets of so many."""
    counts = np.array([int(case.groups["n_refs"]) for case in cases])
    found = []
    for count in sorted(set(counts.tolist())):
        parts = [slice_within(task, counts == count) for task in tasks.values()]
        found.append(macro_slice("n_refs", {"n_refs": str(count)}, parts))
    return found


def _by_tag(cases: Sequence[AnyCase]) -> list[Slice]:
    """Sets with and without each tag, among those whose tags are known."""
    known = np.array([case.details.tags_known for case in cases], dtype=np.bool_)
    found = []
    for tag in TAGS.values():
        has = np.array([tag in case.tags for case in cases], dtype=np.bool_)
        if has.any():
            sides: dict[str, NDArray[np.bool_]] = {"yes": has, "no": known & ~has}
            found += [Slice("tag", {"tag": tag, "has": side}, m) for side, m in sides.items() if m.any()]
    return found


def _by_source(cases: Sequence[AnyCase]) -> list[Slice]:
    """Nothing where no set's source is known."""
    sources = np.array([case.groups["source"] for case in cases])
    names = [name for name in ("real", "generated", "both", "unknown") if (sources == name).any()]
    return [Slice("source", {"source": name}, sources == name) for name in names if names != ["unknown"]]


AGGREGATE = TableRules(
    dict.fromkeys(CRITERIA, (LOWEST, HIGHEST)),
    total=Total("weighted_mean", weights=WEIGHTS, of_means=True),
    slices=slices,
).aggregate()
"""Of both protocols."""


# Numbers that were published: the totals of the paper's Tables 3, 5, 6, 12, 13 and 14, and how they hang together.

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
        for row in tabulate("paper", AGGREGATE, scores, cases, draws=0)
        if row.metric == "total" and row.slice["level"] == "group" and row.value is not None
    }
