"""Scores to the table, in per cent: a task is the mean over its cases, a category the unweighted mean over its tasks
(or over groups of tasks, as the human tables have it), overall the mean over categories.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from refbench.benchmarks.ideabench.details import CATEGORIES, LISTED, IdeaCase
from refbench.benchmarks.ideabench.grade import FAILURE_RATE, NEVER_ASKED, SCORE
from refbench.stats import Array, mean_of_those_there
from refbench.table import Aggregate, Has, Mean, Measure, Slice, Summary

PER_CENT = 100.0
BY_GROUPS = "score@groups"

_RATE = Measure(FAILURE_RATE, (FAILURE_RATE,))
_SCORE = Measure(SCORE, (SCORE,))
_GROUPED = Measure(BY_GROUPS, (SCORE,))

ABSENT = dict.fromkeys(NEVER_ASKED, 0.0)
"""What a case without any output counts in `paper`: the published leaderboards score what a model cannot do as 0."""


@dataclass(frozen=True)
class IdeaSlice(Slice):
    """A slice that also knows the parts of the mean over groups."""

    by_groups: tuple[Slice, ...] = ()


def slices(cases: Sequence[IdeaCase], *, listed: bool) -> list[Slice]:
    """Overall, categories, groups and tasks of the cases that a judge can score.

    With `listed`, a category is made of the 16 tasks that the released scorer knows; others are tabled as tasks,
    and are in no mean.
    """
    judged = np.array([case.details.judged for case in cases], dtype=np.bool_)
    names = {key: np.array([case.groups[key] for case in cases]) for key in ("category", "group", "task")}
    known = np.array(
        [not listed or any(case.details.uid in uids for uids in LISTED.values()) for case in cases], dtype=np.bool_
    )
    categories: list[Slice] = []
    groups: list[Slice] = []
    tasks: list[Slice] = []
    for category in CATEGORIES:
        here = judged & (names["category"] == category)
        of_category: list[Slice] = []
        grouped: list[Slice] = []
        for group in dict.fromkeys(names["group"][here].tolist()):
            inside = here & (names["group"] == group)
            members = [
                Slice("task", {"category": category, "group": group, "task": task}, inside & (names["task"] == task))
                for task in dict.fromkeys(names["task"][inside].tolist())
            ]
            of_category += members
            grouped.append(_macro("group", {"category": category, "group": group}, members))
        tasks += of_category
        counted = [task for task in of_category if known[task.members].any()]
        if not listed:
            groups += grouped
        if counted:
            categories.append(_macro("category", {"category": category}, counted, grouped))
    overall = [_macro("overall", {}, categories, categories)] if categories else [Slice("overall", {}, judged & known)]
    return [*overall, *categories, *groups, *tasks]


def _macro(level: str, names: dict[str, str], parts: Sequence[Slice], by_groups: Sequence[Slice] = ()) -> IdeaSlice:
    members = np.any([part.members for part in parts], axis=0)
    return IdeaSlice(level, names, members, tuple(parts), tuple(by_groups or parts))


def summarise(mean: Mean, where: Slice, measures: Sequence[Measure]) -> Summary:
    """The score by tasks and by groups, and the share of questions that the judge did not answer, over all of them."""
    known = {
        FAILURE_RATE: lambda: mean(FAILURE_RATE, where.members),
        SCORE: lambda: _score(mean, where, grouped=False),
        BY_GROUPS: lambda: _score(mean, where, grouped=True),
    }
    return {measure.name: PER_CENT * known[measure.name]() for measure in measures}


def _score(mean: Mean, where: Slice, *, grouped: bool) -> Array:
    """Mean over the parts, each made of its own; parts without a value are left out, and the row names them."""
    if not where.parts:
        return mean(SCORE, where.members)
    parts = where.by_groups if grouped and isinstance(where, IdeaSlice) else where.parts
    return mean_of_those_there(np.stack([_score(mean, part, grouped=grouped) for part in parts]))


def gaps(has: Has, measure: Measure, where: Slice) -> str | None:
    """The parts that nothing was scored in: a category that the model cannot do, a task whose cases all failed."""
    if measure.name == FAILURE_RATE:
        return None
    empty = [list(part.names.values())[-1] for part in where.parts if not has(SCORE, part.members)]
    return f"nothing scored in {', '.join(empty)}" if empty else None


def _aggregate(measures: tuple[Measure, ...], *, listed: bool, imputed: dict[str, float]) -> Aggregate:
    return Aggregate(
        measures,
        partial(slices, listed=listed),
        lambda mean, where: summarise(mean, where, measures),
        imputed=imputed,
        gaps=gaps,
    )


CORRECTED = _aggregate((_RATE, _GROUPED, _SCORE), listed=False, imputed={})
PAPER = _aggregate((_RATE, _SCORE), listed=True, imputed=ABSENT)
HUMAN = _aggregate((_GROUPED,), listed=False, imputed=ABSENT)
"""The leaderboard of people's marks: leaf tasks to groups, groups to categories, all tasks, what is absent is 0."""
