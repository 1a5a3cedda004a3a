"""What people decided about an item, checked like what machines wrote: their mistakes are said, not dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from refbench.benchmarks.creval.cases import METRICS, Metric
from refbench.builders.creval import asking
from refbench.builders.creval import asking as audit
from refbench.builders.creval.asking import instruction_fault, question_fault, tidy
from refbench.builders.creval.dimensions import Dimension
from refbench.builders.creval.item import LEAST, MOST, Item, ItemQuestion, Planned, Questions
from refbench.builders.kit import Decision, DroppedItems
from refbench.builders.kit.pictures import SourcePicture
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.replies import line, reason_of, same_question
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.record import RefBenchError

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


# From a planned picture to an item: instruction, questions, audit. What cannot be repaired is dropped with its reason;
# what an endpoint or the budget stopped is given back as the failure it is, for the next run.

Flagged = Literal["drop", "keep"]
STAGES = ("pictures", "screen", "review", "instruction", "questions", "audit")


@dataclass(frozen=True)
class _Lost:
    """Why a metric has no questions, and at which stage; put down only when all metrics are known, in their order."""

    stage: str
    why: Failure

    @classmethod
    def at(cls, stage: str, metric: Metric, why: Failure) -> _Lost:
        return cls(stage, why.model_copy(update={"detail": f"{metric}: {why.detail}"}))


@dataclass(frozen=True)
class Makers:
    """Who makes the items, and where it is put down what was left out."""

    interviews: Interviews
    writer: VLM
    checker: VLM
    auditor: VLM | None
    dimensions: Mapping[int, Dimension]
    seed: int
    flagged: Flagged
    dropped: DroppedItems

    async def screen(self, picture: SourcePicture) -> asking.Screening | Failure:
        """Whether the picture can be used, and for what."""
        said = await self.interviews.ask(
            self.writer,
            picture.stem,
            "screen",
            [picture.path, asking.screen_prompt(self.dimensions)],
            asking.read_screening,
            max_tokens=asking.TOKENS["screen"],
        )
        if isinstance(said, Failure):
            return self._lost("screen", "picture", picture, said)
        if not said.usable:
            self.dropped.add("screen", "picture", picture.name, "unsuitable", said.reason, picture=picture.name)
        elif not said.suits:
            detail = "no dimension suits it"
            self.dropped.add("screen", "picture", picture.name, "suits nothing", detail, picture=picture.name)
        return said

    async def instruct(self, planned: Planned) -> str | Failure:
        """An instruction of the dimension for this picture."""
        dimension = self.dimensions[planned.class_id]
        examples = dimension.shown(self.seed, planned.picture.stem)
        said = await self.interviews.ask(
            self.writer,
            planned.picture.stem,
            f"instruction {planned.class_id}",
            [planned.picture.path, asking.instruction_prompt(dimension, examples)],
            lambda reply: asking.read_instruction(reply, examples),
            max_tokens=asking.TOKENS["instruction"],
        )
        return self._lost("instruction", "item", planned.picture, said) if isinstance(said, Failure) else said

    async def question(self, planned: Planned, instruction: str, edit: Edit) -> Item | Failure:
        """The item with its questions, written, checked and audited for each metric by itself."""
        made = await asyncio.gather(
            *(self._questions(planned.picture, instruction, metric, edit) for metric in METRICS)
        )
        questions: dict[Metric, Questions] = {}
        for metric, found in zip(METRICS, made, strict=True):
            if isinstance(found, _Lost):
                final = next((lost for lost in made if isinstance(lost, _Lost) and not lost.why.transient), found)
                return self._lost(final.stage, "item", planned.picture, final.why)
            questions[metric] = found
        return Item(planned, instruction, questions)

    async def _questions(
        self, picture: SourcePicture, instruction: str, metric: Metric, edit: Edit
    ) -> Questions | _Lost:
        if metric in edit.questions:  # a person's own; nobody audits those
            return Questions(questions=edit.questions[metric])
        prompt = asking.questions_prompt(metric, instruction)
        written = await self._ask_questions(picture, metric, f"questions {metric}", prompt, LEAST, ())
        if isinstance(written, Failure):
            return _Lost.at("questions", metric, written)
        self._note_faults(picture, metric, written)
        flags = await self._audit(picture, metric, written.questions)
        if isinstance(flags, Failure):
            return _Lost.at("audit", metric, flags)
        good = [one for one, flag in zip(written.questions, flags, strict=True) if not flag]
        bad = [one for one, flag in zip(written.questions, flags, strict=True) if flag]
        if self.flagged == "keep":
            flagged = tuple(one.question for one in bad)
            return Questions(listed=written.listed, questions=written.questions, flagged=flagged)
        self._note_flagged(picture, metric, bad)
        if len(good) < LEAST:
            more = await self._replace(picture, prompt, metric, good, bad)
            if isinstance(more, Failure):
                return _Lost.at("audit", metric, more)
            good = [*good, *more][:MOST]
        return Questions(listed=written.listed, questions=tuple(good))

    async def _replace(
        self, picture: SourcePicture, prompt: str, metric: Metric, good: list[ItemQuestion], bad: list[ItemQuestion]
    ) -> list[ItemQuestion] | Failure:
        """Other questions for those that the audit turned down; asked for once."""
        kept, turned_down = [one.question for one in good], [one.question for one in bad]
        missing = LEAST - len(good)
        asked = f"{prompt}\n\n{asking.replacing_prompt(metric, turned_down, kept)}"
        part = f"questions {metric} again"
        written = await self._ask_questions(picture, metric, part, asked, missing, (*kept, *turned_down))
        if isinstance(written, Failure):
            return written
        flags = await self._audit(picture, metric, written.questions)
        if isinstance(flags, Failure):
            return flags
        new = [one for one, flag in zip(written.questions, flags, strict=True) if not flag]
        if len(new) < missing:
            detail = f"only {len(good) + len(new)} of its questions tell an edit from none"
            return Failure(kind="undefined", detail=detail)
        return new

    async def _ask_questions(
        self, picture: SourcePicture, metric: Metric, part: str, prompt: str, least: int, taken: tuple[str, ...]
    ) -> asking.Written | Failure:
        return await self.interviews.ask(
            self.checker,
            picture.stem,
            part,
            [picture.path, prompt],
            lambda reply: asking.read_questions(reply, metric, least=least, taken=taken),
            max_tokens=asking.TOKENS["questions"],
        )

    async def _audit(
        self, picture: SourcePicture, metric: Metric, questions: tuple[ItemQuestion, ...]
    ) -> tuple[bool, ...] | Failure:
        if self.auditor is None or metric not in audit.AUDITED:
            return (False,) * len(questions)
        return await self.interviews.ask(
            self.auditor,
            picture.stem,
            f"audit {metric}",
            [picture.path, picture.path, audit.audit_prompt(questions)],
            lambda reply: audit.read_audit(reply, metric, questions),
            max_tokens=asking.TOKENS["audit"],
        )

    def _lost(self, stage: str, what: str, picture: SourcePicture, why: Failure) -> Failure:
        """Put a final failure down as dropped; a transient one is the next run's business."""
        if not why.transient:
            reason = "cannot tell an edit from none" if why.kind == "undefined" else reason_of(why)
            self.dropped.add(stage, what, picture.name, reason, why.detail[:500], picture=picture.name)
        return why

    def _note_faults(self, picture: SourcePicture, metric: Metric, written: asking.Written) -> None:
        for number, (text, kind, wrong) in enumerate(written.faults, 1):
            self.dropped.add(
                "questions", "question", f"{picture.name} {metric} fault {number}", kind, f"{text[:200]} ({wrong})"
            )

    def _note_flagged(self, picture: SourcePicture, metric: Metric, bad: list[ItemQuestion]) -> None:
        reason = "IF: Yes without an edit" if metric == "IF" else "VC: not Yes without an edit"
        for number, one in enumerate(bad, 1):
            self.dropped.add("audit", "question", f"{picture.name} {metric} flagged {number}", reason, one.question)
