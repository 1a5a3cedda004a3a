"""Scores to the table: a task is the mean over its sets; groups, numbers of references and overall are unweighted
means over tasks, as the paper's Table 3 is; tags and sources are means over sets, as its figures are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refbench.benchmarks.multibanana.details import CRITERIA, GROUPS, HIGHEST, LOWEST, TAGS, TASKS, WEIGHTS
from refbench.case import AnyCase
from refbench.stats import Array
from refbench.table import Aggregate, Mean, Measure, Slice, Summary, slice_mean

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
