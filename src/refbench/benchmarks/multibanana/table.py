"""Scores to the table: a task is the mean over its sets; groups, numbers of references and overall are unweighted
means over tasks, as the paper's Table 3 is; tags and sources are means over sets, as its figures are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refbench.benchmarks.kit.aggregate import TableRules, Total, macro_slice, slice_within
from refbench.benchmarks.kit.published import PublishedValue, published_values
from refbench.benchmarks.multibanana.cases import CRITERIA, GROUPS, HIGHEST, LOWEST, TAGS, TASKS, WEIGHTS
from refbench.case import AnyCase
from refbench.tables.table import Slice


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


_NAMES = {"group": ("group",), "task": ("group", "task")}


def published() -> list[PublishedValue]:
    """All cells with a number. No files of any model were released, so none has a `model`."""
    return published_values("refbench.benchmarks.multibanana", _NAMES)
