"""What people decided about a case, checked like what machines wrote: their mistakes are said, not dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson

from refbench.builders.ideabench import asking
from refbench.builders.ideabench.asking import graded, instruction_fault, set_faults
from refbench.builders.ideabench.item import LEVELS, Graded, Item, Sought
from refbench.builders.kit import Decision, DroppedItems, Review
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.replies import reason_of
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.models.wrappers.rephrase import read_prompts
from refbench.record import RefBenchError, clean_text

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


# From a design task to a case: brief, capability keywords, six graded questions, and the check of them.
#
# What cannot be repaired is dropped with its reason; what an endpoint or the budget stopped is given back as the
# failure
# it is, for the next run.

Told = TypeVar("Told")
STAGES = ("source", "review", "instruction", "capabilities", "questions", "check", "rephrasing")


@dataclass(frozen=True)
class Makers:
    """Who makes the cases, and where it is put down what was left out."""

    interviews: Interviews
    writer: VLM
    checker: VLM | None
    review: Review
    dropped: DroppedItems
    offered: dict[str, Item] = field(default_factory=dict)
    """Cases that the checker turned down: a person may accept or edit them."""

    async def make(self, task: Sought) -> Item | Failure:
        """The case, or why there is none: a transient failure is the next run's, any other is put down as dropped."""
        decision = self.review.of(task.id)
        edit = read_edit(decision, task)
        if edit.rejected:
            return self._drop(task, "review", "rejected", "")
        instruction = edit.instruction or task.instruction
        if not instruction:
            parts = asking.shown(task, asking.instruction_prompt(task))
            written = await self._ask(self.writer, task, "instruction", parts, asking.read_instruction)
            if isinstance(written, Failure):
                return self._lost(task, "instruction", written)
            instruction = written
        if decision and edit.questions and (edit.instruction or self.review.stands(decision, instruction=instruction)):
            keywords = tuple(dict.fromkeys(one.capability for one in edit.questions if one.capability))
            return Item(task, instruction, keywords, edit.questions)
        capabilities: tuple[str, ...] = ()
        if task.several:
            chosen = await self._ask(
                self.writer,
                task,
                "capabilities",
                asking.shown(task, asking.capabilities_prompt(task, instruction)),
                lambda reply: asking.read_capabilities(reply, task),
            )
            if isinstance(chosen, Failure):
                return self._lost(task, "capabilities", chosen)
            capabilities = chosen
        return await self._questioned(Item(task, instruction, capabilities, ()))

    async def _questioned(self, bare: Item) -> Item | Failure:
        """The case with questions that passed the check; those that did not are written once more.

        What a person has accepted went the same way, so that it is what that person saw.
        """
        task = bare.sought
        asked = asking.questions_prompt(task, bare.instruction, bare.capabilities)
        item, text, problem = bare, asked, ""
        for part in ("questions", "questions again"):
            written = await self._write(item, part, text)
            if isinstance(written, Failure):
                return self._lost(task, "questions", written)
            item = replace(item, questions=written)
            checked = await self._check(item)
            if isinstance(checked, Failure):
                if checked.transient:
                    return checked
                return self._doubted(item, f"it could not be checked: {checked}", reason_of(checked))
            if not checked:
                return item
            problem = "; ".join(checked)
            text = f"{asked}\n\n{asking.again_prompt(item.questions, checked, task)}"
        return self._doubted(item, problem, "questions turned down")

    def _doubted(self, item: Item, problem: str, reason: str) -> Item | Failure:
        """Dropped, and offered for review as it stands; unless a person has accepted these very questions."""
        decision = self.review.of(item.id)
        if decision is not None and decision.decision == "accept":
            asked = [one.model_dump(mode="json") for one in item.questions]
            if self.review.stands(decision, instruction=item.instruction, questions=asked):
                return item
        self.offered[item.id] = replace(item, problem=problem)
        return self._drop(item.sought, "check", reason, problem)

    async def _write(self, item: Item, part: str, text: str) -> tuple[Graded, ...] | Failure:
        task = item.sought
        return await self._ask(
            self.writer,
            task,
            part,
            asking.shown(task, text),
            lambda reply: asking.read_questions(reply, task, item.capabilities),
        )

    async def _check(self, item: Item) -> tuple[str, ...] | Failure:
        """The checker's complaints; none where nobody checks."""
        if self.checker is None:
            return ()
        task = item.sought
        return await self._ask(
            self.checker,
            task,
            "check",
            asking.shown(task, asking.check_prompt(task, item.instruction, item.questions)),
            lambda reply: asking.read_check(reply, task, len(item.questions)),
        )

    async def rephrase(self, item: Item) -> tuple[str, ...] | Failure:
        """One prompt for each picture of the case, for models that take text alone."""
        task = item.sought
        said = await self._ask(
            self.writer,
            task,
            "rephrasing",
            asking.rephrasing_parts(task, item.instruction),
            lambda reply: read_prompts(reply, task.outputs),
        )
        if isinstance(said, Failure) and not said.transient:
            self.dropped.add("rephrasing", "prompt", task.id, reason_of(said), said.detail[:500])
        return said

    async def _ask(
        self, vlm: VLM, task: Sought, part: str, said: list[str | Path], read: Callable[[str], Told | Failure]
    ) -> Told | Failure:
        return await self.interviews.ask(vlm, task.id, part, said, read, max_tokens=asking.TOKENS[part.split()[0]])

    def _lost(self, task: Sought, stage: str, why: Failure) -> Failure:
        return why if why.transient else self._drop(task, stage, reason_of(why), why.detail)

    def _drop(self, task: Sought, stage: str, reason: str, detail: str) -> Failure:
        picture = task.pictures[0].name if task.pictures else ""
        self.dropped.add(stage, "case", task.id, reason, detail[:500], picture=picture)
        return Failure(kind="undefined", detail=f"dropped: {reason}")
