"""What people decided about an item, checked like what machines wrote: their mistakes are said, not dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from refbench.benchmarks.creval.details import METRICS, Metric
from refbench.builders.creval.checks import instruction_fault, question_fault, tidy
from refbench.builders.creval.item import LEAST, MOST, ItemQuestion
from refbench.builders.replies import line
from refbench.builders.texts import same_question
from refbench.record import RefBenchError
from refbench.workshop import Decision

_FIELDS = ("instruction", *METRICS)


@dataclass(frozen=True)
class Edit:
    """A decision made usable. With an instruction of a person's own, questions are written for that one."""

    rejected: bool = False
    instruction: str | None = None
    questions: Mapping[Metric, tuple[ItemQuestion, ...]] = field(default_factory=dict)


def read_edit(decision: Decision | None) -> Edit:
    if decision is None:
        return Edit()
    where = f"--review, {decision.id}"
    if decision.decision != "edit":
        return Edit(rejected=decision.decision == "reject")
    if strange := [name for name in decision.edit if name not in _FIELDS]:
        raise RefBenchError(f"{where}: {strange[0]} cannot be edited, only {', '.join(_FIELDS)}")
    instruction = None
    if "instruction" in decision.edit:
        instruction = line(decision.edit["instruction"])
        if wrong := instruction_fault(instruction):
            raise RefBenchError(f"{where}: {wrong}")
    questions = {
        metric: _questions(decision.edit[metric], metric, f"{where}, {metric}")
        for metric in METRICS
        if metric in decision.edit
    }
    return Edit(instruction=instruction, questions=questions)


def _questions(value: Any, metric: Metric, where: str) -> tuple[ItemQuestion, ...]:
    if isinstance(value, str):  # a cell of a CSV file
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise RefBenchError(f"{where}: write the questions as a JSON list ({error})") from error
    if not isinstance(value, list):
        raise RefBenchError(f"{where}: write the questions as a list")
    found: list[ItemQuestion] = []
    for number, entry in enumerate(value, 1):
        said = entry if isinstance(entry, dict) else {"question": entry}
        text, weight = tidy(line(said.get("question"))), said.get("weight", 1)
        fault = question_fault(text)
        if fault:
            raise RefBenchError(f"{where}, question {number}: {fault[1]}")
        if type(weight) is not int or weight not in ((1, 2, 3) if metric == "VC" else (1,)):
            raise RefBenchError(f"{where}, question {number}: the weight is {'1, 2 or 3' if metric == 'VC' else '1'}")
        found.append(ItemQuestion(question=text, thinking="Written by a person.", weight=weight))
    if not LEAST <= len({same_question(one.question) for one in found}) == len(found) <= MOST:
        raise RefBenchError(f"{where}: give {LEAST} to {MOST} questions, none of them twice")
    return tuple(found)
