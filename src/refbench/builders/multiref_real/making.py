"""What people decided about an entry, checked like what machines wrote: their mistakes are said, not dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from refbench.benchmarks.multiref.cases import Category
from refbench.builders.kit import Decision, DroppedItems, Review
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.replies import line, reason_of
from refbench.builders.kit.sources import Plain
from refbench.builders.multiref_real import asking
from refbench.builders.multiref_real.asking import category_of, instruction_fault
from refbench.builders.multiref_real.item import Item, Sought
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.record import RefBenchError

_FIELDS = ("instruction", "category", "output")


@dataclass(frozen=True)
class Edit:
    """A decision made usable."""

    rejected: bool = False
    settled: bool = False
    """A person has looked at it: the checker's opinion does not count any more."""
    instruction: str = ""
    category: Category | None = None
    output: Plain | None = None


def read_edit(decision: Decision | None, sought: Sought) -> Edit:
    if decision is None:
        return Edit()
    if decision.decision != "edit":
        return Edit(rejected=decision.decision == "reject", settled=decision.decision == "accept")
    where = f"--review, {decision.id}"
    if strange := [name for name in decision.edit if name not in _FIELDS]:
        raise RefBenchError(f"{where}: {strange[0]} cannot be edited, only {', '.join(_FIELDS)}")
    instruction = ""
    if "instruction" in decision.edit:
        instruction = line(decision.edit["instruction"])
        if fault := instruction_fault(instruction, len(sought.inputs)):
            raise RefBenchError(f"{where}: {fault[1]}")
    category = None
    if "category" in decision.edit:
        category = category_of(decision.edit["category"])
        if category is None:
            raise RefBenchError(f"{where}: the category is a number from 1 to 5")
    output = None
    if "output" in decision.edit:
        output = next((one for one in sought.outputs if one.name == decision.edit["output"]), None)
        if output is None:
            raise RefBenchError(f"{where}: the output is one of {', '.join(one.name for one in sought.outputs)}")
    return Edit(settled=True, instruction=instruction, category=category, output=output)


# From a request to an entry: one output chosen, the instruction rewritten, the entry accepted and put in a category.
#
# What cannot be repaired is dropped with its reason; what an endpoint or the budget stopped is given back as the
# failure
# it is, for the next run.

Told = TypeVar("Told")
STAGES = ("source", "review", "output", "instruction", "acceptance", "category")


@dataclass(frozen=True)
class Makers:
    """Who makes the entries, and where it is put down what was left out."""

    interviews: Interviews
    writer: VLM
    checker: VLM | None
    review: Review
    dropped: DroppedItems
    offered: dict[str, Item] = field(default_factory=dict)
    """Entries that a person may mend: a token is missing, or the checker turned them down."""

    async def make(self, sought: Sought) -> Item | Failure:
        """The entry, or why there is none: a transient failure is the next run's, any other is put down as dropped."""
        edit = read_edit(self.review.of(sought.name), sought)
        if edit.rejected:
            return self._drop(sought, "review", "rejected", "")
        output = edit.output or await self._chosen(sought)
        if isinstance(output, Failure):
            return self._lost(sought, "output", output)
        item = Item(sought, output, edit.instruction)
        if not edit.instruction:
            written = await self._rewritten(item)
            if not isinstance(written, Item):
                return written
            item = written
        if not edit.instruction:
            accepted = await self._accepted(item, edit)
            if not isinstance(accepted, Item):
                return accepted
            item = accepted
        category = edit.category or await self._ask(
            self.writer,
            sought,
            "category",
            [asking.category_prompt(sought, item.instruction)],
            asking.read_category,
        )
        if isinstance(category, Failure):
            return self._lost(sought, "category", category, item)
        return replace(item, category=category)

    async def _chosen(self, sought: Sought) -> Plain | Failure:
        """The output to keep. Whoever did not write the instruction chooses; the others are put down."""
        if len(sought.outputs) == 1:
            return sought.outputs[0]
        marks = await self._ask(
            self.checker or self.writer,
            sought,
            "choose",
            asking.shown(sought, sought.outputs, asking.choose_prompt(sought)),
            lambda reply: asking.read_choice(reply, len(sought.outputs)),
        )
        if isinstance(marks, Failure):
            return marks
        place = asking.best(marks)
        for number, (output, row) in enumerate(zip(sought.outputs, marks, strict=True)):
            if number != place:
                said = ", ".join(f"{name} {mark}" for name, mark in zip(asking.MARKS, row, strict=True))
                self.dropped.add(
                    "output", "output", f"{sought.id} {output.name}", "another is better", said, picture=output.name
                )
        return sought.outputs[place]

    async def _rewritten(self, item: Item, complaint: str = "") -> Item | Failure:
        sought = item.sought
        drafts: list[tuple[str, str, str]] = []
        said = await self._ask(
            self.writer,
            sought,
            "rewrite again" if complaint else "rewrite",
            asking.shown(sought, [item.output], asking.rewrite_prompt(sought, item.instruction, complaint)),
            lambda reply: asking.read_rewrite(reply, sought, drafts),
        )
        if not isinstance(said, Failure):
            return replace(item, instruction=said)
        if said.transient:
            return said
        if drafts:
            text, kind, fault = drafts[-1]
            self.offered[sought.name] = replace(item, instruction=text, problem=fault)
            return self._drop(sought, "instruction", kind, f"{fault}: {text[:200]}")
        return self._lost(sought, "instruction", said, item)

    async def _accepted(self, item: Item, edit: Edit) -> Item | Failure:
        """The entry as the checker accepts it; an instruction that it complains of is written once more.

        What a person has accepted goes the same way, so that it is what that person saw.
        """
        if self.checker is None:
            return item
        verdict = await self._verdict(item)
        if isinstance(verdict, asking.Verdict) and verdict.wording:
            written = await self._rewritten(item, str(verdict))
            if not isinstance(written, Item):
                return written
            item, verdict = written, await self._verdict(written)
        if isinstance(verdict, Failure):
            if verdict.transient or not self._settled(item, edit):
                return self._lost(item.sought, "acceptance", verdict, item)
        elif verdict.against and not self._settled(item, edit):
            self.offered[item.sought.name] = replace(item, problem=str(verdict))
            return self._drop(item.sought, "acceptance", verdict.against[0], str(verdict))
        return item

    def _settled(self, item: Item, edit: Edit) -> bool:
        """Whether a person has decided about this very instruction, or about the output that it is written for."""
        decision = self.review.of(item.sought.name)
        if decision is None or not edit.settled:
            return False
        return edit.output is not None or self.review.stands(decision, instruction=item.instruction)

    async def _verdict(self, item: Item) -> asking.Verdict | Failure:
        assert self.checker is not None
        sought = item.sought
        return await self._ask(
            self.checker,
            sought,
            "accept",
            asking.shown(sought, [item.output], asking.accept_prompt(sought, item.instruction)),
            lambda reply: asking.read_verdict(reply, len(sought.inputs)),
        )

    async def _ask(
        self, vlm: VLM, sought: Sought, part: str, said: list[str | Path], read: Callable[[str], Told | Failure]
    ) -> Told | Failure:
        return await self.interviews.ask(vlm, sought.name, part, said, read, max_tokens=asking.TOKENS[part.split()[0]])

    def _lost(self, sought: Sought, stage: str, why: Failure, item: Item | None = None) -> Failure:
        if why.transient:
            return why
        if item is not None:
            self.offered[sought.name] = replace(item, problem=f"{stage}: {why}")
        return self._drop(sought, stage, reason_of(why), why.detail)

    def _drop(self, sought: Sought, stage: str, reason: str, detail: str) -> Failure:
        picture = sought.inputs[0].name
        self.dropped.add(stage, "request", sought.name, reason, detail[:500], picture=picture)
        return Failure(kind="undefined", detail=f"dropped: {reason}")
