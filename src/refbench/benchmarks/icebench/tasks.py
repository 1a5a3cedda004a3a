"""The 31 tasks of ICE-Bench (tasks.toml), what is measured for each (parts.csv), and the formula of each task's score.

A score is a weighted mean of dimensions, a dimension a weighted mean of terms, a term a metric's mean on the task,
scaled. Written as data, so that what is missing can be left out of a mean and be named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Literal

from refbench.benchmarks.kit.rows import csv_rows, toml_data
from refbench.record import Record

DIMENSIONS = (
    *("aesthetic", "imaging", "prompt_following", "source_consistency", "reference_consistency"),
    "controllability",
)

QA = "qa"
"""The one part that is judged, not measured."""
TEXT = "text@ppocr"
"""How well wanted words can be read off the picture: no metric of the paper, and in no score."""


class Part(Record):
    """One thing to measure or to ask, and by which metric."""

    part: str
    beside: str | None
    """The official part that a laptop's is measured beside, in a column of its own that enters no score."""
    low: float | None
    high: float | None
    metric: str | None
    corrected: str | None
    """Where that protocol has a metric of its own. Maps of edges and skeletons are mostly black: by L1 an output
    without any still scores near 1, so `corrected` asks how much of the control is found again."""
    reads: str | None
    """Which picture or text of the case the metric is given."""


BY_PART: Mapping[str, Part] = {
    row["part"]: Part.model_validate({name: value or None for name, value in row.items()})
    for row in csv_rows(__package__, "parts.csv")
}
PARTS = tuple(BY_PART)
OFFICIAL = tuple(name for name, part in BY_PART.items() if not part.beside)
"""The parts that the released code computes; `clip_ref` enters no score, there or here."""
LOCAL = tuple(name for name, part in BY_PART.items() if part.beside)


class Term(Record):
    """A metric's mean on a task as a share of a dimension: `offset + scale * mean`."""

    part: str
    weight: float = 1.0
    scale: float = 1.0
    offset: float = 0.0


class Dimension(Record):
    """One of the six dimensions as a task has it, with its weight in the task's score."""

    name: str
    weight: float
    terms: tuple[Term, ...]


class Task(Record):
    """One task. `number` and `name` are the paper's (Table 2), `code` is what data.jsonl says."""

    number: int
    name: str
    code: str
    kind: Literal["Creating", "Editing"] = "Editing"
    scope: Literal["Global", "Local", "Controllable", ""] = ""
    dimensions: tuple[Dimension, ...]
    unscored: tuple[str, ...] = ()
    """Parts that are computed and enter no score."""

    @property
    def reference(self) -> bool:
        return any(dimension.name == "reference_consistency" for dimension in self.dimensions)

    @cached_property
    def scored(self) -> tuple[str, ...]:
        """The parts that the score is made of."""
        return tuple(dict.fromkeys(term.part for dimension in self.dimensions for term in dimension.terms))

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Everything there is to measure or to ask, in the order of `PARTS`."""
        found = {*self.scored, *self.unscored}
        return tuple(name for name, part in BY_PART.items() if name in found or part.beside in found)


def _tasks(*, printed: bool = False) -> Iterator[Task]:
    data = toml_data(__package__, "tasks.toml")
    of_dimension = data["terms"] | (data["printed"] if printed else {})
    for number, said in enumerate(data["tasks"], 1):
        formula, part = data["formulas"][said.pop("formula")], said.pop("part", "")
        dimensions = []
        for name in (name for name in DIMENSIONS if name in formula):
            weight, made_of = formula[name]
            terms = of_dimension.get(made_of) or [{"part": made_of.replace("*", part)}]
            dimensions.append({"name": name, "weight": weight, "terms": terms})
        yield Task.model_validate({"number": number, "code": said["name"], **said, "dimensions": dimensions})


TASKS: Mapping[str, Task] = {task.name: task for task in _tasks()}
"""By the paper's name, in the order of the paper's numbers."""

PRINTED: Mapping[str, Task] = {task.name: task for task in _tasks(printed=True)}
"""The same with the sums of the paper's equations 4 and 6. Their weights in a score are the code's: the paper has
none."""

BY_CODE: Mapping[str, Task] = {task.code: task for task in TASKS.values()}
"""By the `Task` of data.jsonl."""


def task_called(name: str) -> Task | None:
    """The task that a file means: the code's name for it, as in the release, or the paper's."""
    return BY_CODE.get(name.strip()) or TASKS.get(name.strip())


SUPPORTED: Mapping[str, frozenset[int]] = {
    model: frozenset(numbers) for model, numbers in toml_data(__package__, "tasks.toml")["supported"].items()
}
"""The numbers of the tasks that Table 2 says a model supports."""

N_CASES = 6538
"""Cases of the whole release."""
