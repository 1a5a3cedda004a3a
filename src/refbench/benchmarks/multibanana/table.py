"""One reply to five scores, in either protocol."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refbench.benchmarks.kit.published import PublishedValue, published_values
from refbench.benchmarks.multibanana.cases import (
    CRITERIA,
    GROUPS,
    HIGHEST,
    LOWEST,
    TAGS,
    TASKS,
    WEIGHTS,
    Criterion,
    MultiBananaCase,
    MultiBananaDetails,
)
from refbench.benchmarks.multibanana.replies import Mark, read_corrected, read_paper
from refbench.case import AnyCase, Request
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score
from refbench.stats import Array
from refbench.tables.table import Aggregate, Mean, Measure, Slice, Summary, slice_mean, tabulate

ProtocolName = Literal["paper", "corrected"]

PART = "all"
"""One call gives all five marks."""


def read_scores(case: AnyCase, purpose: Purpose, evidence: Evidence, *, protocol: ProtocolName) -> list[Score]:
    """A score for each criterion, each in a state of its own."""
    marks = read_marks(evidence, protocol)
    return [Score.of(purpose, criterion, protocol, mark) for criterion, mark in marks.items()]


def read_marks(evidence: Evidence, protocol: ProtocolName) -> Mapping[Criterion, Mark]:
    """The marks in the reply; in `paper` a reply that lacks one of them has none."""
    if evidence.reply is None:
        return dict.fromkeys(CRITERIA, evidence.failure or Failure(kind="missing_reply"))
    if protocol == "corrected":
        return read_corrected(evidence.reply)
    marks = read_paper(evidence.reply)
    return dict.fromkeys(CRITERIA, marks) if isinstance(marks, Failure) else marks


# Scores to the table: a task is the mean over its sets; groups, numbers of references and overall are unweighted
# means over tasks, as the paper's Table 3 is; tags and sources are means over sets, as its figures are.

MEASURES = (
    *(Measure(criterion, (criterion,), LOWEST, HIGHEST) for criterion in CRITERIA),
    Measure("total", CRITERIA, LOWEST, HIGHEST),
)


def slices(cases: Sequence[AnyCase]) -> list[Slice]:
    """Overall, then groups, tasks, numbers of references, tags with and without, and sources of the references."""
    by_task = np.array([case.groups["task"] for case in cases])
    tasks = {
        name: Slice("task", {"group": task.group, "task": name}, by_task == name)
        for name, task in TASKS.items()
        if (by_task == name).any()
    }
    groups = [
        _macro("group", {"group": group}, parts)
        for group in GROUPS
        if (parts := [task for task in tasks.values() if task.names["group"] == group])
    ]
    overall = _macro("overall", {}, list(tasks.values()))
    return [overall, *groups, *tasks.values(), *_by_references(cases, tasks), *_by_tag(cases), *_by_source(cases)]


def summarise(mean: Mean, where: Slice) -> Summary:
    """Each criterion and their 3:3:1:1:1 total."""
    values: dict[str, Array] = {criterion: slice_mean(mean, criterion, where) for criterion in CRITERIA}
    weighted: Array = sum((weight * values[criterion] for criterion, weight in WEIGHTS.items()), np.zeros(()))
    return {**values, "total": weighted / sum(WEIGHTS.values())}


CORRECTED = Aggregate(MEASURES, slices, summarise, imputed={})
PAPER = Aggregate(MEASURES, slices, summarise, imputed={})


def _macro(level: str, names: dict[str, str], parts: Sequence[Slice]) -> Slice:
    return Slice(level, names, np.any([part.members for part in parts], axis=0), tuple(parts))


def _by_references(cases: Sequence[AnyCase], tasks: dict[str, Slice]) -> list[Slice]:
    """One slice for each number of references, over the tasks that have sets of so many."""
    counts = np.array([int(case.groups["n_refs"]) for case in cases])
    found = []
    for count in sorted(set(counts.tolist())):
        parts = []
        for task in tasks.values():
            members = task.members & (counts == count)
            if members.any():
                # The task's own array where it is the same: means ask for weights by array.
                same = bool((members == task.members).all())
                parts.append(task if same else Slice("task", task.names, members))
        found.append(_macro("n_refs", {"n_refs": str(count)}, parts))
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
        for row in tabulate("paper", PAPER, scores, cases, draws=0)
        if row.metric == "total" and row.slice["level"] == "group" and row.value is not None
    }
