"""Scores to the table: a task's metrics are means over its items, its dimensions and score the released formulas on
those means, and everything above a task is the unweighted mean over tasks. The paper prints no task score: those are
our `paper` aggregate on its means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from refbench.benchmarks.icebench.tasks import BY_PART, DIMENSIONS, OFFICIAL, PARTS, PRINTED, QA, SUPPORTED, TASKS, Task
from refbench.benchmarks.kit.aggregate import macro_slice, slice_within, value_slices
from refbench.benchmarks.kit.published import PublishedValue, published_values
from refbench.benchmarks.kit.rows import csv_rows
from refbench.case import AnyCase
from refbench.output import Output
from refbench.stats import Array
from refbench.tables.table import Aggregate, Has, Mean, Measure, Slice, Summary

SCORE = "score"
PARTIAL = "partial"
"""The score from what is there: each metric keeps its weight, and the sum is over those that are there. Not a number
of the paper."""

_MOST_NAMED = 6
"""Tasks that a remark names; of more it gives the number."""

_UNBOUNDED = (None, None)
# The aesthetic and the imaging network give about 1 to 10 and 0 to 100, and nothing holds them to it.
_RANGES: Mapping[str, tuple[float | None, float | None]] = {name: (p.low, p.high) for name, p in BY_PART.items()}
_PAPER_RANGES = {**_RANGES, QA: _UNBOUNDED}
"""The released reader takes any number for an answer."""
_CORRECTED_RANGES = {**_RANGES, "colorfulness": (0.0, 1.0)}

# A dimension has bounds where its parts have and where more of each is better: L1 to the source is a distance.
_DIMENSION_RANGES: Mapping[str, tuple[float | None, float | None]] = {
    "reference_consistency": (-1.0, 1.0),
    "controllability": (0.0, 1.0),
}

# Deblurring has no caption, and the imaging quality in its place; elsewhere that is no part of the dimension.
_STANDS_FOR: Mapping[str, Mapping[str, str]] = {"prompt_following": {"img": "clip_cap"}}


def _parts_of(dimension: str) -> tuple[str, ...]:
    """Every part that is a term of the dimension in some task."""
    found = {term.part for task in TASKS.values() for d in task.dimensions if d.name == dimension for term in d.terms}
    return tuple(part for part in PARTS if part in found)


_SCORED = tuple(part for part in OFFICIAL if any(part in task.scored for task in TASKS.values()))


def _measures(ranges: Mapping[str, tuple[float | None, float | None]], *, partial: bool) -> tuple[Measure, ...]:
    """Raw metrics, laptop metrics, dimensions, and last the score, by which models are ranked."""
    return (
        *(Measure(part, (part,), *ranges[part]) for part in PARTS),
        *(
            Measure(
                name, _parts_of(name), *_DIMENSION_RANGES.get(name, _UNBOUNDED), stands_for=_STANDS_FOR.get(name, {})
            )
            for name in DIMENSIONS
        ),
        *((Measure(PARTIAL, _SCORED, None, None, any_part=True),) if partial else ()),
        Measure(SCORE, _SCORED, None, None),
    )


def slices(cases: Sequence[AnyCase]) -> list[Slice]:
    """Overall, then the paper's groups, kinds of source, region based or not, and tasks; all but tasks are macro."""
    tasks = value_slices(cases, "task", {n: {"number": str(task.number), "task": n} for n, task in TASKS.items()})
    found = [macro_slice("overall", {}, tasks)]
    for level in ("kind", "reference", "scope", "source_type", "region"):
        names = np.array([case.groups.get(level, "") for case in cases])
        found += [
            macro_slice(level, {level: name}, [slice_within(task, names == name) for task in tasks])
            for name in sorted(set(names.tolist()) - {""})
        ]
    return [*found, *tasks]


def summarise(mean: Mean, where: Slice, tasks: Mapping[str, Task] = TASKS) -> Summary:
    """What applies to a task; above, the mean over the tasks that have a value, which the remark tells from others."""
    if not where.parts:
        return _task_summary(mean, where, tasks)
    values: dict[str, list[Array]] = {}
    for part in where.parts:
        for name, value in _task_summary(mean, part, tasks).items():
            values.setdefault(name, []).append(value)
    return {name: _mean(found) for name, found in values.items()}


_Made: TypeAlias = dict[tuple[int, int], tuple[Slice, Mapping[str, Task], Summary]]
_made: WeakKeyDictionary[Mean, _Made] = WeakKeyDictionary()
"""What tasks came to under a mean that is in use: each is a part of half a dozen slices."""


def _task_summary(mean: Mean, where: Slice, tasks: Mapping[str, Task]) -> Summary:
    made = _made.setdefault(mean, {})
    place = id(where), id(tasks)  # both are kept, so that nothing else can have their ids
    if place not in made:
        made[place] = where, tasks, _summary_of(mean, where, tasks[where.names["task"]])
    return made[place][-1]


def _summary_of(mean: Mean, where: Slice, task: Task) -> Summary:
    raw = {part: mean(part, where.members) for part in task.parts}
    found: dict[str, Array] = dict(raw)
    shares: list[float] = []
    terms: list[Array] = []
    for dimension in task.dimensions:
        weights = [term.weight for term in dimension.terms]
        here = [term.offset + term.scale * raw[term.part] for term in dimension.terms]
        found[dimension.name] = _weighted(weights, here)
        shares += [dimension.weight * weight for weight in weights]
        terms += here
    found[PARTIAL] = _of_those_there(shares, terms)
    found[SCORE] = _weighted([d.weight for d in task.dimensions], [found[d.name] for d in task.dimensions])
    return found


def _weighted(weights: Sequence[float], values: Sequence[Array]) -> Array:
    """The weighted sum; NaN as soon as one value is missing. The weights of the release add up to 1."""
    total: Array = sum((weight * value for weight, value in zip(weights, values, strict=True)), np.zeros(()))
    return total


def _of_those_there(weights: Sequence[float], values: Sequence[Array]) -> Array:
    """The weighted mean of the values that are there; NaN where none is."""
    stacked = np.stack(values)
    there = ~np.isnan(stacked)
    column = np.array(weights)[:, None, None]
    with np.errstate(invalid="ignore"):
        mean: Array = np.where(there, stacked * column, 0.0).sum(axis=0) / (there * column).sum(axis=0)
    return mean


def _mean(values: Sequence[Array]) -> Array:
    return _of_those_there([1.0] * len(values), values)


def gaps(has: Has, measure: Measure, where: Slice) -> str | None:
    """What a row is not about: tasks that are not in the data, tasks without any score, metrics that are missing.

    The released code averages over whatever tasks are present and does not say which.
    """
    said = []
    if where.level == "overall" and len(where.parts) < len(TASKS):
        said.append(f"{len(TASKS) - len(where.parts)} of the {len(TASKS)} tasks are not in the data")
    nothing: list[str] = []
    missing: Counter[str] = Counter()
    concerned = 0
    for part in where.parts or (where,):
        task = TASKS[part.names["task"]]
        wanted = _needed(task, measure)
        concerned += bool(wanted)
        absent = [name for name in wanted if not has(name, part.members)]
        if absent and len(absent) == len(wanted):
            nothing.append(task.name)
        else:
            missing.update(absent)
    if nothing and where.parts:
        named = ", ".join(nothing) if len(nothing) <= _MOST_NAMED else f"{len(nothing)} of {concerned} tasks"
        said.append(f"nothing scored in {named}")
    if missing:
        names = [name if not where.parts else f"{name} (tasks: {missing[name]})" for name in PARTS if name in missing]
        said.append(f"{'without' if measure.any_part else 'missing'} {', '.join(names)}")
    return "; ".join(said) or None


def _needed(task: Task, measure: Measure) -> tuple[str, ...]:
    """The parts that a measure is made of in a task; a dimension has other terms in other tasks."""
    for dimension in task.dimensions:
        if dimension.name == measure.name:
            return tuple(term.part for term in dimension.terms)
    if measure.name in DIMENSIONS:
        return ()
    return tuple(part for part in task.parts if part in measure.parts)


def _without_partial(mean: Mean, where: Slice) -> Summary:
    return {name: value for name, value in summarise(mean, where).items() if name != PARTIAL}


CORRECTED = Aggregate(_measures(_CORRECTED_RANGES, partial=True), slices, summarise, imputed={}, gaps=gaps)
# No face on either side is 0 in the released code: counted as imputed, and the failure stays.
PAPER = Aggregate(
    _measures(_PAPER_RANGES, partial=False), slices, _without_partial, imputed={"no_detection": 0.0}, gaps=gaps
)


def _printed(aggregate: Aggregate) -> Aggregate:
    """The dimensions as the paper's equations have them. Without a score, since the paper gives no weights for one;
    models are ranked by following the prompt, the last measure, which every task has."""
    left_out = (SCORE, PARTIAL)

    def summary(mean: Mean, where: Slice) -> Summary:
        return {name: value for name, value in summarise(mean, where, PRINTED).items() if name not in left_out}

    kept = [measure for measure in aggregate.measures if measure.name not in left_out]
    ordered = sorted(kept, key=lambda measure: measure.name == "prompt_following")
    return replace(aggregate, measures=tuple(ordered), summarise=summary)


FORMULAS = {
    protocol: {"printed": _printed(used)} for protocol, used in {"paper": PAPER, "corrected": CORRECTED}.items()
}
"""By protocol, what may be chosen instead of the released code's formulas."""


def notes(cases: Sequence[AnyCase], outputs: Sequence[Output]) -> list[str]:
    """Where a model is called as one of the paper's: the tasks that Table 2 has a dash for. Nothing is scored by it."""
    there = {int(case.groups["number"]): case.groups["task"] for case in cases}
    known = {_spelled(name): (name, numbers) for name, numbers in SUPPORTED.items()}
    said = []
    for model in sorted({output.model for output in outputs}):
        name, numbers = known.get(_spelled(model), ("", frozenset()))
        dashes = [there[number] for number in sorted(there) if number not in numbers]
        if name and dashes:
            named = ", ".join(dashes) if len(dashes) <= _MOST_NAMED else f"{len(dashes)} of these {len(there)} tasks"
            said.append(f"{model}: not supported by {name}, says the paper's Table 2: {named}")
    return said


def _spelled(model: str) -> str:
    return "".join(letter for letter in model.casefold() if letter.isalnum() or letter == "+")


DERIVED = "3-8 by the released formulas"
_SIMILARITIES = frozenset({"l1_pose", "l1_canny", "l1_depth", "l1_colorize"})
"""Printed as distances, stored by the released code, and tabled here, as 1 - L1."""


def published() -> list[PublishedValue]:
    """Every printed mean, and the task and overall scores derived from them. No model's files were released."""
    return [*printed(), *derived()]


@lru_cache(maxsize=1)
def printed() -> tuple[PublishedValue, ...]:
    """The cells of Tables 3 to 8, by the name of their task: Table 8 swaps the numbers 21 and 22."""
    return tuple(
        PublishedValue(
            model=None,
            label=row["model"],
            judge=row["judge"],
            metric=row["metric"],
            slice={"level": "task", "number": str(TASKS[row["task"]].number), "task": row["task"]},
            value=round(1 - float(row["value"]), 6) if row["metric"] in _SIMILARITIES else float(row["value"]),
            table=row["table"],
        )
        for row in csv_rows(__package__, "published.csv")
    )


def derived() -> list[PublishedValue]:
    """Scores of every task and overall, by the aggregate of `paper`, to the four decimals that the means allow; a test
    derives them again. A score is the judge's too wherever its answers are a part of it."""
    levels = {"overall": (), "task": ("number", "task")}
    return published_values(__package__, levels, file="derived.csv")
