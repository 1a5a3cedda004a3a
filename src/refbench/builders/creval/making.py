"""From a picture to an item: screening, instruction, questions, audit.

What cannot be repaired is dropped with its reason; what an endpoint or the budget stopped is given back as the failure
it is, for the next run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from refbench.benchmarks.creval.cases import METRICS, Metric
from refbench.builders.creval import CREvalSettings, asking
from refbench.builders.creval.dimensions import Dimension
from refbench.builders.creval.item import LEAST, MOST, Item, ItemQuestion, Planned, Questions
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.flow import Work
from refbench.builders.kit.pictures import SourcePicture
from refbench.builders.kit.replies import line, same_question
from refbench.builders.kit.review import Decision, json_list
from refbench.failure import Failure
from refbench.record import RefBenchError


@dataclass(frozen=True)
class _Lost:
    """Why a metric has no questions, and at which stage; put down only when all metrics are known, in their order."""

    stage: str
    why: Failure

    @classmethod
    def at(cls, stage: str, metric: Metric, why: Failure) -> _Lost:
        return cls(stage, why.model_copy(update={"detail": f"{metric}: {why.detail}"}))


@dataclass(frozen=True)
class Maker:
    """Makes items of pictures."""

    work: Work[CREvalSettings, Item]
    dimensions: Mapping[int, Dimension]

    async def screen(self, picture: SourcePicture) -> asking.Screening | Failure:
        """Whether the picture can be used, and for what."""
        subject = Subject("picture", picture.name, picture.name)
        said = await self.work.ask(
            "writer",
            picture.stem,
            "screen",
            [picture.path, asking.screen_prompt(self.dimensions)],
            asking.read_screening,
        )
        if isinstance(said, Failure):
            return self.work.lost(subject, "screen", said)
        if not said.usable:
            self.work.drop(subject, "screen", "unsuitable", said.reason)
        elif not said.suits:
            self.work.drop(subject, "screen", "suits nothing", "no dimension suits it")
        return said

    async def instruct(self, planned: Planned) -> str | Failure:
        """An instruction of the dimension for this picture."""
        dimension, picture = self.dimensions[planned.class_id], planned.picture
        examples = dimension.shown(self.work.settings.seed, picture.stem)
        said = await self.work.ask(
            "writer",
            picture.stem,
            f"instruction {planned.class_id}",
            [picture.path, asking.instruction_prompt(dimension, examples)],
            lambda reply: asking.read_instruction(reply, examples),
        )
        return self.work.lost(planned.subject, "instruction", said) if isinstance(said, Failure) else said

    async def question(self, planned: Planned, instruction: str, edit: Edit) -> Item | Failure:
        """The item with its questions, written, checked and audited for each metric by itself."""
        made = await asyncio.gather(
            *(self._questions(planned.picture, instruction, metric, edit) for metric in METRICS)
        )
        questions: dict[Metric, Questions] = {}
        for metric, found in zip(METRICS, made, strict=True):
            if isinstance(found, _Lost):
                final = next((lost for lost in made if isinstance(lost, _Lost) and not lost.why.transient), found)
                if final.why.kind == "undefined":  # its questions were turned down, however often they were asked for
                    detail = final.why.detail[:500]
                    return self.work.drop(planned.subject, final.stage, "cannot tell an edit from none", detail)
                return self.work.lost(planned.subject, final.stage, final.why)
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
        if self.work.settings.flagged == "keep":
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
        return await self.work.ask(
            "checker",
            picture.stem,
            part,
            [picture.path, prompt],
            lambda reply: asking.read_questions(reply, metric, least=least, taken=taken),
        )

    async def _audit(
        self, picture: SourcePicture, metric: Metric, questions: tuple[ItemQuestion, ...]
    ) -> tuple[bool, ...] | Failure:
        if "auditor" not in self.work.vlms or metric not in asking.AUDITED:
            return (False,) * len(questions)
        return await self.work.ask(
            "auditor",
            picture.stem,
            f"audit {metric}",
            [picture.path, picture.path, asking.audit_prompt(questions)],
            lambda reply: asking.read_audit(reply, metric, questions),
        )

    def _note_faults(self, picture: SourcePicture, metric: Metric, written: asking.Written) -> None:
        for number, (text, kind, wrong) in enumerate(written.faults, 1):
            subject = Subject("question", f"{picture.name} {metric} fault {number}")
            self.work.drop(subject, "questions", kind, f"{text[:200]} ({wrong})")

    def _note_flagged(self, picture: SourcePicture, metric: Metric, bad: list[ItemQuestion]) -> None:
        reason = "IF: Yes without an edit" if metric == "IF" else "VC: not Yes without an edit"
        for number, one in enumerate(bad, 1):
            subject = Subject("question", f"{picture.name} {metric} flagged {number}")
            self.work.drop(subject, "audit", reason, one.question)


@dataclass(frozen=True)
class Edit:
    """A decision made usable. With an instruction of a person's own, questions are written for that one."""

    rejected: bool = False
    instruction: str | None = None
    questions: Mapping[Metric, tuple[ItemQuestion, ...]] = field(default_factory=dict)


def read_edit(decision: Decision | None) -> Edit:
    """What people decided about an item, checked like what machines wrote: their mistakes are said, not dropped."""
    if decision is None:
        return Edit()
    fields = decision.edited("instruction", *METRICS)
    instruction = line(fields["instruction"]) if "instruction" in fields else None
    if instruction is not None and (wrong := asking.instruction_fault(instruction)):
        raise RefBenchError(f"{decision.where}: {wrong}")
    questions = {
        metric: _questions(fields[metric], metric, f"{decision.where}, {metric}")
        for metric in METRICS
        if metric in fields
    }
    return Edit(decision.rejected, instruction, questions)


def _questions(value: Any, metric: Metric, where: str) -> tuple[ItemQuestion, ...]:
    questions: list[ItemQuestion] = []
    for number, entry in enumerate(json_list(value, where), 1):
        said = entry if isinstance(entry, dict) else {"question": entry}
        text, weight = asking.tidy(line(said.get("question"))), said.get("weight", 1)
        if fault := asking.question_fault(text):
            raise RefBenchError(f"{where}, question {number}: {fault[1]}")
        if type(weight) is not int or weight not in ((1, 2, 3) if metric == "VC" else (1,)):
            raise RefBenchError(f"{where}, question {number}: the weight is {'1, 2 or 3' if metric == 'VC' else '1'}")
        questions.append(ItemQuestion(question=text, thinking="Written by a person.", weight=weight))
    if not LEAST <= len({same_question(one.question) for one in questions}) == len(questions) <= MOST:
        raise RefBenchError(f"{where}: give {LEAST} to {MOST} questions, none of them twice")
    return tuple(questions)
