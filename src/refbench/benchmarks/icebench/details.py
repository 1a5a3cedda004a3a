"""What only scorers see of an ICE-Bench item, and how its pictures are found by their role."""

from __future__ import annotations

from typing import Literal, TypeAlias

from refbench.benchmarks.icebench.tasks import PARTS, TASKS, TEXT, Task
from refbench.case import Case, Picture
from refbench.record import Record

Role = Literal["source", "mask", "reference"]


class ICEDetails(Record):
    """Captions and labels of an item, as data.jsonl has them."""

    level1: str = ""
    level2: str = ""
    source_type: str = ""
    region_based: bool = False
    source_caption: str = ""
    target_caption: str = ""
    wanted_text: str = ""
    """What is to be written into the picture, where the instruction quotes it; for the text-render tasks only."""


ICECase: TypeAlias = Case[ICEDetails]


def task_of(case: ICECase) -> Task:
    return TASKS[case.groups["task"]]


def picture(case: ICECase, role: Role) -> Picture | None:
    """The case's picture in a role. Of several references the first counts, as in the released code."""
    return next((picture for picture in case.request.pictures if picture.role == role), None)


def not_applicable(case: ICECase) -> dict[str, str]:
    """The parts that do not concern a case, with the reason."""
    task = task_of(case)
    away = {part: f"no part of {task.name}" for part in PARTS if part not in task.parts}
    if TEXT in task.parts and not case.details.wanted_text:
        away[TEXT] = "the instruction does not quote one text that is to be written"
    return away
