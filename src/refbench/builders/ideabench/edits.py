"""What people decided about a case, checked like what machines wrote: their mistakes are said, not dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from refbench.builders.ideabench.asking import graded
from refbench.builders.ideabench.checks import instruction_fault, set_faults
from refbench.builders.ideabench.item import LEVELS, Graded, Sought
from refbench.record import RefBenchError, clean_text
from refbench.workshop import Decision

_FIELDS = ("instruction", "questions")


@dataclass(frozen=True)
class Edit:
    """A decision made usable. With an instruction of a person's own, questions are written for that one."""

    rejected: bool = False
    instruction: str = ""
    questions: tuple[Graded, ...] = ()


def read_edit(decision: Decision | None, task: Sought) -> Edit:
    if decision is None:
        return Edit()
    if decision.decision != "edit":
        return Edit(rejected=decision.decision == "reject")
    where = f"--review, {decision.id}"
    if strange := [name for name in decision.edit if name not in _FIELDS]:
        raise RefBenchError(f"{where}: {strange[0]} cannot be edited, only {' and '.join(_FIELDS)}")
    instruction = ""
    if "instruction" in decision.edit:
        said = decision.edit["instruction"]
        instruction = clean_text(said).strip() if isinstance(said, str) else ""
        if wrong := instruction_fault(instruction):
            raise RefBenchError(f"{where}: {wrong}")
    questions = _questions(decision.edit["questions"], task, where) if "questions" in decision.edit else ()
    # Questions that a machine writes for a person's instruction are checked as any others are.
    return Edit(instruction=instruction, questions=questions)


def _questions(value: Any, task: Sought, where: str) -> tuple[Graded, ...]:
    if isinstance(value, str):  # a cell of a CSV file
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise RefBenchError(f"{where}: write the questions as a JSON list ({error})") from error
    wanted = len(LEVELS) - task.first_level
    if not isinstance(value, list) or len(value) != wanted:
        counted = " (whether all pictures are there is counted)" if task.first_level else ""
        raise RefBenchError(f"{where}: give a list of {wanted} questions{counted}")
    found: list[Graded] = []
    for number, entry in enumerate(value, 1):
        asked = graded(entry if isinstance(entry, Mapping) else {}, task)
        if isinstance(asked, str):
            raise RefBenchError(f"{where}, question {number}: {asked}")
        found.append(asked)
    if wrong := set_faults(found, ()):
        raise RefBenchError(f"{where}: {wrong[0]}")
    return tuple(found)
