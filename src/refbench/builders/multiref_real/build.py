"""The build of a real-world MultiRef: outputs chosen, instructions rewritten, entries accepted and put in categories.

What cannot be repaired is dropped with its reason; what an endpoint or the budget stopped is given back as the failure
it is, for the next run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from refbench.benchmarks.multiref.cases import Category
from refbench.builders import BuildReport
from refbench.builders.kit.draws import shuffled
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.flow import Builder, Show, Work, started
from refbench.builders.kit.pictures import SourcePicture
from refbench.builders.kit.replies import line
from refbench.builders.kit.review import Decision
from refbench.builders.multiref_real import MultiRefRealSettings, asking
from refbench.builders.multiref_real.dataset import PLACE, ship
from refbench.builders.multiref_real.item import EditRequest, Item
from refbench.builders.multiref_real.sources import read_requests
from refbench.failure import Failure
from refbench.record import RefBenchError

BUILDER = Builder(
    name="multiref-real",
    benchmark="multiref",
    stages=("source", "review", "output", "instruction", "acceptance", "category"),
    places=(PLACE,),
    prompts=asking.PROMPTS,
    tokens={"choose": 2000, "rewrite": 1500, "accept": 2000, "category": 500},
    roles={"checker": "writer"},
    optional=frozenset({"checker"}),
)


async def build(settings: MultiRefRealSettings, show: Show | None = None) -> BuildReport:
    """Make a real-world MultiRef of the requests in the source. The same call again resumes; the same replies give the
    same files."""
    async with started(BUILDER, settings, show) as work:
        requests = await work.plans(read_requests)
        await work.rounds(shuffled(requests, settings.seed, "order"), Maker(work).make)
        return ship(work)


@dataclass(frozen=True)
class Maker:
    """Makes entries of requests."""

    work: Work[MultiRefRealSettings, Item]

    async def make(self, request: EditRequest, decision: Decision | None) -> Item | Failure:
        """The entry: one output, an instruction that the checker accepts, and a category."""
        work = self.work
        edit = read_edit(decision, request)
        output = edit.output or await self._chosen(request)
        if isinstance(output, Failure):
            return work.lost(request.subject, "output", output)
        item = Item(request, output, edit.instruction)
        if not edit.instruction:
            written = await self._rewritten(item)
            accepted = written if isinstance(written, Failure) else await self._accepted(written, edit)
            if isinstance(accepted, Failure):
                return accepted
            item = accepted
        category = edit.category or await work.ask(
            "writer", request.name, "category", asking.category_parts(item), asking.read_category
        )
        if isinstance(category, Failure):
            return self._lost(item, "category", category)
        return replace(item, category=category)

    async def _chosen(self, request: EditRequest) -> SourcePicture | Failure:
        """The output to keep. Whoever did not write the instruction chooses; the others are put down."""
        if len(request.outputs) == 1:
            return request.outputs[0]
        role, parts = "checker" if "checker" in self.work.vlms else "writer", asking.choose_parts(request)
        marks = await self.work.ask(role, request.name, "choose", parts, asking.read_choice, len(request.outputs))
        if isinstance(marks, Failure):
            return marks
        place = asking.best(marks)
        for number, (output, row) in enumerate(zip(request.outputs, marks, strict=True)):
            if number != place:
                said = ", ".join(f"{name} {mark}" for name, mark in zip(asking.MARKS, row, strict=True))
                subject = Subject("output", f"{request.id} {output.name}", output.name)
                self.work.drop(subject, "output", "another is better", said)
        return request.outputs[place]

    async def _rewritten(self, item: Item, complaint: str = "") -> Item | Failure:
        request, part = item.request, "rewrite again" if complaint else "rewrite"
        parts = asking.rewrite_parts(item, complaint)
        drafts: list[tuple[str, str, str]] = []
        said = await self.work.ask(
            "writer", request.name, part, parts, asking.read_rewrite, len(request.inputs), drafts
        )
        if not isinstance(said, Failure):
            return replace(item, instruction=said)
        if said.transient or not drafts:
            return self._lost(item, "instruction", said)
        text, kind, fault = drafts[-1]
        offered = replace(item, instruction=text, problem=fault)
        return self._offer(offered, "instruction", kind, f"{fault}: {text[:200]}")

    async def _accepted(self, item: Item, edit: Edit) -> Item | Failure:
        """The entry as the checker accepts it; an instruction that it complains of is written once more.

        What a person has accepted goes the same way, so that it is what that person saw.
        """
        if "checker" not in self.work.vlms:
            return item
        verdict = await self._verdict(item)
        if isinstance(verdict, asking.Verdict) and verdict.wording:
            written = await self._rewritten(item, str(verdict))
            if not isinstance(written, Item):
                return written
            item, verdict = written, await self._verdict(written)
        if isinstance(verdict, Failure):
            if verdict.transient or not self._settled(item, edit):
                return self._lost(item, "acceptance", verdict)
        elif verdict.against and not self._settled(item, edit):
            offered = replace(item, problem=str(verdict))
            return self._offer(offered, "acceptance", verdict.against[0], str(verdict)[:500])
        return item

    def _settled(self, item: Item, edit: Edit) -> bool:
        """Whether a person has decided about this very instruction, or about the output that it is written for."""
        decision = self.work.review.of(item.request.name)
        if decision is None or not edit.settled:
            return False
        return edit.output is not None or self.work.review.stands(decision, instruction=item.instruction)

    async def _verdict(self, item: Item) -> asking.Verdict | Failure:
        request, parts = item.request, asking.accept_parts(item)
        return await self.work.ask("checker", request.name, "accept", parts, asking.read_verdict, len(request.inputs))

    def _lost(self, item: Item, stage: str, why: Failure) -> Failure:
        """Dropped, unless the next run can finish it; a person may mend it."""
        if not why.transient:
            self.work.offered[item.request.name] = replace(item, problem=f"{stage}: {why}")
        return self.work.lost(item.request.subject, stage, why)

    def _offer(self, item: Item, stage: str, reason: str, detail: str) -> Failure:
        """Dropped, with its problem; a person may mend it."""
        self.work.offered[item.request.name] = item
        return self.work.drop(item.request.subject, stage, reason, detail)


@dataclass(frozen=True)
class Edit:
    """What a person puts in place of the machine's."""

    settled: bool = False
    """A person has looked at it: the checker's opinion does not count any more."""
    instruction: str = ""
    category: Category | None = None
    output: SourcePicture | None = None


def read_edit(decision: Decision | None, request: EditRequest) -> Edit:
    """What people decided about an entry, checked like what machines wrote: their mistakes are said, not dropped."""
    if decision is None:
        return Edit()
    fields = decision.edited("instruction", "category", "output")
    instruction = line(fields.get("instruction"))
    if "instruction" in fields and (fault := asking.instruction_fault(instruction, len(request.inputs))):
        raise RefBenchError(f"{decision.where}: {fault[1]}")
    category = asking.category_of(fields.get("category"))
    if "category" in fields and category is None:
        raise RefBenchError(f"{decision.where}: the category is a number from 1 to 5")
    output = next((one for one in request.outputs if one.name == fields.get("output")), None)
    if "output" in fields and output is None:
        names = ", ".join(one.name for one in request.outputs)
        raise RefBenchError(f"{decision.where}: the output is one of {names}")
    return Edit(True, instruction, category, output)
