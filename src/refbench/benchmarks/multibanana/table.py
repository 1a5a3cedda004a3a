"""Scores to the table: a task is the mean over its sets; groups, numbers of references and overall are unweighted
means over tasks, as the paper's Table 3 is; tags, sources and generators are means over sets, as its figures are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from refbench.benchmarks.kit.aggregate import TableRules, Total, macro_slice, slice_within, value_slices
from refbench.benchmarks.kit.published import PublishedValue, published_values
from refbench.benchmarks.multibanana.cases import (
    CRITERIA,
    GENERATORS,
    GROUPS,
    HIGHEST,
    LOWEST,
    TAGS,
    TASKS,
    WEIGHTS,
    Source,
    generator_of,
)
from refbench.case import AnyCase
from refbench.tables.table import Slice


def slices(cases: Sequence[AnyCase]) -> list[Slice]:
    """Overall, then groups, tasks, numbers of references, tags with and without, sources of the references, and the
    generators of those that are generated; the last two with intervals of 99 %, as Figure 12 has them."""
    tasks = value_slices(cases, "task", {name: {"group": task.group, "task": name} for name, task in TASKS.items()})
    groups = [
        macro_slice("group", {"group": group}, parts)
        for group in GROUPS
        if (parts := [task for task in tasks if task.names["group"] == group])
    ]
    overall = macro_slice("overall", {}, tasks)
    by_source = [replace(where, ci99=True) for where in (*_by_source(cases), *_by_generator(cases))]
    return [overall, *groups, *tasks, *_by_references(cases, tasks), *_by_tag(cases), *by_source]


def _by_references(cases: Sequence[AnyCase], tasks: Sequence[Slice]) -> list[Slice]:
    """One slice for each number of references, over the tasks that have sets of so many."""
    counts = np.array([int(case.groups["n_refs"]) for case in cases])
    found = []
    for count in sorted(set(counts.tolist())):
        parts = [slice_within(task, counts == count) for task in tasks]
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
    found = value_slices(cases, "source", {name: {"source": name} for name in get_args(Source)})
    return found if any(where.names["source"] != "unknown" for where in found) else []


def _by_generator(cases: Sequence[AnyCase]) -> list[Slice]:
    """Sets by who generated their references; those with none, or with one of unknown hand, are in no slice."""
    found = np.array([generator_of(case.details.sources) or "" for case in cases])
    names = [*GENERATORS, "both"]
    return [Slice("generator", {"generator": name}, found == name) for name in names if (found == name).any()]


AGGREGATE = TableRules(
    dict.fromkeys(CRITERIA, (LOWEST, HIGHEST)),
    total=Total("weighted_mean", weights=WEIGHTS, of_means=True),
    slices=slices,
).aggregate()
"""Of both protocols."""


def published() -> list[PublishedValue]:
    """All cells with a number. No files of any model were released, so none has a `model`."""
    return published_values(__package__, {"group": ("group",), "task": ("group", "task")})
