"""The build of an IDEA-Bench: tasks dealt over tasks and categories, briefed, questioned, checked and rephrased.

What cannot be repaired is dropped with its reason; what an endpoint or the budget stopped is given back as the failure
it is, for the next run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refbench.builders import BuildReport
from refbench.builders.ideabench import IdeaBenchSettings, asking
from refbench.builders.ideabench.dataset import PLACE, REPHRASED, ship
from refbench.builders.ideabench.item import LEVELS, DesignTask, GradedQuestion, Item
from refbench.builders.ideabench.sources import read_tasks
from refbench.builders.kit.draws import draw
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.flow import Builder, Show, Work, started, together
from refbench.builders.kit.replies import reason_of, repeats
from refbench.builders.kit.review import Decision, json_list
from refbench.builders.kit.sources import text_of
from refbench.failure import Failure
from refbench.models.wrappers.rephrase import read_prompts
from refbench.record import RefBenchError

BUILDER = Builder(
    name="ideabench",
    benchmark="ideabench",
    stages=("source", "review", "instruction", "capabilities", "questions", "check", "rephrasing"),
    places=(PLACE, REPHRASED),
    prompts=asking.PROMPTS,
    tokens={"instruction": 2000, "capabilities": 800, "questions": 4000, "check": 3000, "rephrasing": 4000},
    roles={"checker": "writer"},
    optional=frozenset({"checker"}),
)


async def build(settings: IdeaBenchSettings, show: Show | None = None) -> BuildReport:
    """Make an IDEA-Bench of the tasks in the source. The same call again resumes; the same replies give the same
    files."""
    async with started(BUILDER, settings, show) as work:
        tasks = await work.plans(read_tasks)
        maker = Maker(work)
        await work.rounds(dealt(tasks, settings.seed), maker.make, maker.admit)
        return ship(work, await maker.rephrased())


def dealt(tasks: Sequence[DesignTask], seed: int) -> list[DesignTask]:
    """One case of every task before the second of any, in drawn order: a build that ends early covers what it can."""
    by_task: dict[str, list[DesignTask]] = defaultdict(list)
    for task in sorted(tasks, key=lambda one: draw(seed, "order", one.id)):
        by_task[task.slug].append(task)
    rank = {task.id: place for members in by_task.values() for place, task in enumerate(members)}
    return sorted(tasks, key=lambda one: (rank[one.id], draw(seed, "order", one.id)))


@dataclass(frozen=True)
class Maker:
    """Makes cases of design tasks."""

    work: Work[IdeaBenchSettings, Item]

    async def make(self, task: DesignTask, decision: Decision | None) -> Item | Failure:
        """The case: brief, capability keywords, six graded questions and the check of them."""
        work, edit = self.work, read_edit(decision, task)
        instruction = edit.instruction or task.instruction
        if not instruction:
            parts = asking.instruction_parts(task)
            written = await work.ask("writer", task.id, "instruction", parts, asking.read_instruction)
            if isinstance(written, Failure):
                return work.lost(task.subject, "instruction", written)
            instruction = written
        if decision and edit.questions and (edit.instruction or work.review.stands(decision, instruction=instruction)):
            keywords = tuple(dict.fromkeys(one.capability for one in edit.questions if one.capability))
            return Item(task, instruction, keywords, edit.questions)
        capabilities: tuple[str, ...] = ()
        if task.several:
            parts = asking.capabilities_parts(task, instruction)
            chosen = await work.ask("writer", task.id, "capabilities", parts, asking.read_capabilities, task)
            if isinstance(chosen, Failure):
                return work.lost(task.subject, "capabilities", chosen)
            capabilities = chosen
        return await self._questioned(Item(task, instruction, capabilities))

    async def _questioned(self, item: Item) -> Item | Failure:
        """The case with questions that passed the check; those that did not are written once more.

        What a person has accepted went the same way, so that it is what that person saw.
        """
        work, task = self.work, item.task
        complaints: tuple[str, ...] = ()
        for part in ("questions", "questions again"):
            parts = asking.questions_parts(item, complaints)
            written = await work.ask("writer", item.id, part, parts, asking.read_questions, task, item.capabilities)
            if isinstance(written, Failure):
                return work.lost(task.subject, "questions", written)
            item = replace(item, questions=written)
            if "checker" not in work.vlms:
                return item
            checked = await work.ask("checker", item.id, "check", asking.check_parts(item), asking.read_check, item)
            if isinstance(checked, Failure):
                if checked.transient:
                    return checked
                return self._doubted(item, f"it could not be checked: {checked}", reason_of(checked))
            if not checked:
                return item
            complaints = checked
        return self._doubted(item, "; ".join(complaints), "questions turned down")

    def _doubted(self, item: Item, problem: str, reason: str) -> Item | Failure:
        """Dropped, and offered for review as it stands; unless a person has accepted these very questions."""
        decision = self.work.review.of(item.id)
        if decision is not None and decision.decision == "accept":
            asked = [one.model_dump(mode="json") for one in item.questions]
            if self.work.review.stands(decision, instruction=item.instruction, questions=asked):
                return item
        self.work.offered[item.id] = replace(item, problem=problem)
        return self.work.drop(item.task.subject, "check", reason, problem[:500])

    def admit(self, item: Item, others: Sequence[Item]) -> bool:
        """Two cases with nearly the same text and the same pictures are one."""
        alike = [one.instruction for one in others if one.task.hashes == item.task.hashes]
        other = repeats(item.instruction, alike)
        if other:
            self.work.drop(Subject("case", item.id), "instruction", "duplicate", f"nearly the same as: {other[:200]}")
        return not other

    async def rephrased(self) -> dict[str, tuple[str, ...]]:
        """Prompts for models that take text alone, of the cases that stand; the dataset is whole without them."""
        work, regime = self.work, self.work.settings.rephrase
        if regime == "none" or work.stopped == "unreachable":
            return {}
        items = [one for one in work.items if regime == "always" or one.task.category != "T2I"]
        told = await together([self._rephrase(item) for item in items], work.at_a_time)
        work.count(told)
        return {item.id: said for item, said in zip(items, told, strict=True) if not isinstance(said, Failure)}

    async def _rephrase(self, item: Item) -> tuple[str, ...] | Failure:
        """One prompt for each picture of the case."""
        parts = asking.rephrasing_parts(item.task, item.instruction)
        said = await self.work.ask("writer", item.id, "rephrasing", parts, read_prompts, item.task.outputs)
        return self.work.lost(Subject("prompt", item.id), "rephrasing", said) if isinstance(said, Failure) else said


@dataclass(frozen=True)
class Edit:
    """What a person puts in place of the machine's. For an instruction without questions, questions are written."""

    instruction: str = ""
    questions: tuple[GradedQuestion, ...] = ()


def read_edit(decision: Decision | None, task: DesignTask) -> Edit:
    """What people decided about a case, checked like what machines wrote: their mistakes are said, not dropped."""
    if decision is None:
        return Edit()
    fields = decision.edited("instruction", "questions")
    instruction = text_of(fields.get("instruction"))
    if "instruction" in fields and (wrong := asking.instruction_fault(instruction)):
        raise RefBenchError(f"{decision.where}: {wrong}")
    questions = _questions(fields["questions"], task, decision.where) if "questions" in fields else ()
    # Questions that a machine writes for a person's instruction are checked as any others are.
    return Edit(instruction, questions)


def _questions(value: Any, task: DesignTask, where: str) -> tuple[GradedQuestion, ...]:
    entries, wanted = json_list(value, where), len(LEVELS) - task.first_level
    if len(entries) != wanted:
        counted = " (whether all pictures are there is counted)" if task.first_level else ""
        raise RefBenchError(f"{where}: give a list of {wanted} questions{counted}")
    questions: list[GradedQuestion] = []
    for number, entry in enumerate(entries, 1):
        asked = asking.graded(entry if isinstance(entry, Mapping) else {}, task)
        if isinstance(asked, str):
            raise RefBenchError(f"{where}, question {number}: {asked}")
        questions.append(asked)
    if wrong := asking.set_faults(questions, ()):
        raise RefBenchError(f"{where}: {wrong[0]}")
    return tuple(questions)
