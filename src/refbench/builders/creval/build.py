"""The build of a CREval: pictures looked at, dealt to dimensions, instructed, questioned and audited, block by block.

A block is finished before the next begins, so that a build that the budget ends has whole items of every dimension, and
what a later block does follows from the replies to the earlier ones, however often it was stopped. What cannot be
repaired is dropped with its reason; what an endpoint or the budget stopped is the next run's to finish.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refbench.benchmarks.creval.cases import DIMENSIONS, METRICS, Metric
from refbench.builders import BuildReport
from refbench.builders.creval import CREvalSettings, asking
from refbench.builders.creval.dataset import ship
from refbench.builders.creval.dimensions import Dimension, Splits, deal, dimensions
from refbench.builders.creval.item import LEAST, MOST, Item, ItemQuestion, Planned, Questions
from refbench.builders.kit.draws import quotas, shuffled
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.flow import Builder, Show, Work, started, together
from refbench.builders.kit.pictures import SourcePicture, distinct_pictures, plain_picture, stems
from refbench.builders.kit.replies import line, repeats, same_question
from refbench.builders.kit.review import Decision, json_list
from refbench.failure import Failure
from refbench.pictures.collection import Found
from refbench.record import RefBenchError

BUILDER = Builder(
    name="creval",
    benchmark="creval",
    stages=("pictures", "screen", "review", "instruction", "questions", "audit"),
    places=("bench",),
    prompts=asking.PROMPTS,
    tokens={"screen": 1000, "instruction": 2000, "questions": 4000, "audit": 3000},
    roles={"checker": "writer", "auditor": "checker"},
    optional=frozenset({"auditor"}),
)
_BLOCK = 36
"""Pictures of a block: four for each dimension."""
_LOOKED_AT = 3
"""Pictures that are looked at, at most, for each item wanted."""


async def build(settings: CREvalSettings, show: Show | None = None) -> BuildReport:
    """Make a CREval of the pictures below the source. The same call again resumes; the same replies give the same
    files."""
    known = dimensions(settings.examples)
    async with started(BUILDER, settings, show) as work:
        pictures = await asyncio.to_thread(distinct_pictures, settings.source, work.dropped)
        work.wanted = settings.size or len(pictures)
        order = shuffled(pictures, settings.seed, "order")[: max(_LOOKED_AT * work.wanted, _BLOCK)]
        places = Counter(quotas(work.wanted, tuple(DIMENSIONS), settings.seed))
        splits = Splits(settings.test_share, settings.seed)
        await _Dealing(work, Maker(work, known), splits, stems(pictures), places, deque(order)).run()
        return ship(work, more=len(pictures) > len(order))


@dataclass
class _Dealing:
    """Pictures dealt to dimensions and made into items, block by block: what is still open, and what waits."""

    work: Work[CREvalSettings, Item]
    maker: Maker
    splits: Splits
    stems: dict[str, str]
    places: Counter[int]
    """Items still wanted of each dimension."""
    waiting: deque[Found]
    pool: dict[str, tuple[SourcePicture, tuple[int, ...]]] = field(default_factory=dict)
    """Pictures that were looked at and have no dimension yet."""
    rejected: Counter[int] = field(default_factory=Counter)
    """Places of items that people have rejected: they are dealt last, so that a rejection moves no other item."""

    async def run(self) -> None:
        work = self.work
        while not work.stopped:
            if not self.places.total() and not self._reopened():
                return
            dealt = self._deal()
            if len(dealt) < self.places.total() and self.waiting:
                await self._look()
                dealt = self._deal()
            if not dealt and not self.waiting:
                if not self._reopened():
                    return
                continue
            if dealt and not work.stopped:
                await self._make(dealt)
            work.show(
                f"{len(work.items)} items made, {self.places.total() + self.rejected.total()} open, "
                f"{len(work.dropped)} left out, {work.interviews.asked} calls"
            )

    def _reopened(self) -> bool:
        """Open the places of what people have rejected, once all others are dealt."""
        self.places.update(self.rejected)
        some = self.rejected.total() > 0
        self.rejected.clear()
        return some

    def _deal(self) -> dict[str, int]:
        dealt = deal({stem: suits for stem, (_, suits) in self.pool.items()}, self.places)
        return dict(list(dealt.items())[:_BLOCK])

    async def _look(self) -> None:
        """Screen the next pictures: as many as there are places, at least one for each dimension."""
        many = min(_BLOCK, max(9, self.places.total()), len(self.waiting))
        block = [self.waiting.popleft() for _ in range(many)]
        folder, source = self.work.settings.work_folder / "pictures", self.work.settings.source
        plain: list[SourcePicture] = []
        for found in block:
            one = await asyncio.to_thread(plain_picture, source, found, self.stems[found.name], folder)
            if isinstance(one, Failure):
                self.work.drop(Subject("picture", found.name), "pictures", "unreadable", one.detail)
            else:
                plain.append(one)
        told = await together([self.maker.screen(picture) for picture in plain], self.work.settings.concurrency)
        for picture, said in zip(plain, told, strict=True):
            if not isinstance(said, Failure) and said.usable and said.suits:
                self.pool[picture.stem] = (picture, said.suits)
        self.work.count(told)

    async def _make(self, dealt: dict[str, int]) -> None:
        planned = [
            Planned(self.pool.pop(stem)[0], class_id, self.splits.of_next(class_id)) for stem, class_id in dealt.items()
        ]
        self.places.subtract(dealt.values())
        self.work.begun += len(planned)
        edits = {one.picture.stem: self._edit(one) for one in planned}
        going: list[Planned] = []
        for one in planned:
            if edits[one.picture.stem].rejected:
                self.work.drop(one.subject, "review", "rejected")
                self.rejected[one.class_id] += 1
            else:
                going.append(one)
        written = await together(
            [self._instruction(one, edits[one.picture.stem]) for one in going], self.work.settings.concurrency
        )
        texts = self._without_repeats(going, written)
        # Few at a time and each to its end: where the budget stops it, whole items are there.
        made = await together(
            [self.maker.question(one, text, self._about(text, one, edits[one.picture.stem])) for one, text in texts],
            max(1, self.work.settings.concurrency // 3),
        )
        self.work.items += [one for one in made if isinstance(one, Item)]
        for one, outcome in [*zip(going, written, strict=True), *zip((p for p, _ in texts), made, strict=True)]:
            if isinstance(outcome, Failure) and not outcome.transient:
                self.places[one.class_id] += 1  # its place is open again; that of an unfinished one is kept for it
        self.work.count([*(f for f in written if isinstance(f, Failure)), *made])

    async def _instruction(self, planned: Planned, edit: Edit) -> str | Failure:
        return edit.instruction or await self.maker.instruct(planned)

    def _edit(self, planned: Planned) -> Edit:
        """What a person decided; nothing where it was about the picture in another dimension."""
        decision = self.work.review.of(planned.picture.stem)
        if decision is None or not self.work.review.stands(decision, class_id=planned.class_id):
            return Edit()
        return read_edit(decision)

    def _about(self, instruction: str, planned: Planned, edit: Edit) -> Edit:
        """The edit, unless its questions were written for another instruction of the writer's."""
        decision = self.work.review.of(planned.picture.stem)
        if decision is None or not edit.questions or edit.instruction:
            return edit
        return edit if self.work.review.stands(decision, instruction=instruction) else Edit()

    def _without_repeats(
        self, planned: Sequence[Planned], written: Sequence[str | Failure]
    ) -> list[tuple[Planned, str]]:
        earlier = [item.instruction for item in self.work.items]
        found: list[tuple[Planned, str]] = []
        for one, text in zip(planned, written, strict=True):
            if isinstance(text, Failure):
                continue
            if other := repeats(text, [*earlier, *(said for _, said in found)]):
                self.work.drop(one.subject, "instruction", "duplicate", f"nearly the same as: {other[:200]}")
                self.places[one.class_id] += 1
            else:
                found.append((one, text))
        return found


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
        parts: list[str | Path] = [picture.path, asking.screen_prompt(self.dimensions)]
        said = await self.work.ask("writer", picture.stem, "screen", parts, asking.read_screening)
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
        parts: list[str | Path] = [picture.path, asking.instruction_prompt(dimension, examples)]
        part = f"instruction {planned.class_id}"
        said = await self.work.ask("writer", picture.stem, part, parts, asking.read_instruction, examples)
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
            "checker", picture.stem, part, [picture.path, prompt], asking.read_questions, metric, least, taken
        )

    async def _audit(
        self, picture: SourcePicture, metric: Metric, questions: tuple[ItemQuestion, ...]
    ) -> tuple[bool, ...] | Failure:
        if "auditor" not in self.work.vlms or metric not in asking.AUDITED:
            return (False,) * len(questions)
        parts: list[str | Path] = [picture.path, picture.path, asking.audit_prompt(questions)]
        return await self.work.ask(
            "auditor", picture.stem, f"audit {metric}", parts, asking.read_audit, metric, questions
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
