"""The names of MultiBanana: its criteria and their weights, its 36 tasks, and what only scorers see of a set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from refbench.case import Case
from refbench.record import Record

Criterion = Literal[
    "instruction_alignment", "reference_consistency", "background_subject_match", "physical_realism", "visual_quality"
]

LABELS: Mapping[Criterion, str] = {
    "instruction_alignment": "Instruction Alignment",
    "reference_consistency": "Reference Consistency",
    "background_subject_match": "Background-Subject Match",
    "physical_realism": "Physical Realism",
    "visual_quality": "Visual Quality",
}
"""What the judge writes before each number, in the order it is asked to."""

CRITERIA: tuple[Criterion, ...] = tuple(LABELS)
LOWEST, HIGHEST = 1.0, 10.0

WEIGHTS: Mapping[Criterion, int] = {
    "instruction_alignment": 3,
    "reference_consistency": 3,
    "background_subject_match": 1,
    "physical_realism": 1,
    "visual_quality": 1,
}
"""The paper's total is the mean under these weights; the released script takes the plain mean instead."""

TAGS: Mapping[str, str] = {
    "domain": "cross_domain",
    "scale": "scale",
    "rare": "rare",
    "ling": "multilingual",
    "font": "font",
}
"""Labels of types.json to tags. `font` marks text in one language and is no axis of difficulty in the paper."""

Source = Literal["real", "generated", "both", "unknown"]

GROUPS = ("single", "two", "object", "local", "global", "background")
"""The columns of the paper's Table 3."""

_TWO = ("add", "replace", "background", "color", "material", "pose", "hair", "makeup", "tone", "style", "text")
_STRUCTURES = {"object": "object", "local": "local", "global": "global", "back": "background"}
_MANY = range(3, 9)


class Task(Record):
    """One of the 36 kinds of set: its name, its group, and how many references its sets should have."""

    name: str
    group: str
    n_refs: int


TASKS: Mapping[str, Task] = {
    task.name: task
    for task in (
        Task(name="single", group="single", n_refs=1),
        *(Task(name=name, group="two", n_refs=2) for name in _TWO),
        *(
            Task(name=f"{count}_{structure}", group=group, n_refs=count)
            for structure, group in _STRUCTURES.items()
            for count in _MANY
        ),
    )
}


def task_of(directory: str) -> Task | None:
    """The task whose sets a directory of the release holds.

    How the release spells the directories of the object sets is not certain, so `3_obj`, `3_object` and
    `3_objects` are one task, and so are `3_back` and `3_background`.
    """
    if directory in TASKS:
        return TASKS[directory]
    count, _, structure = directory.partition("_")
    for start, name in (("obj", "object"), ("back", "back")):
        if structure.startswith(start):
            return TASKS.get(f"{count}_{name}")
    return None


class MultiBananaDetails(Record):
    """Where a set lies in the release, and what the release says of its references."""

    task_dir: str
    number: str
    sources: tuple[str | None, ...] = ()
    """For each reference the words of from_where.csv, None where it has none."""
    tags_known: bool = True
    """False where types.json is missing or unreadable: then the set is neither with nor without a tag."""


MultiBananaCase: TypeAlias = Case[MultiBananaDetails]
