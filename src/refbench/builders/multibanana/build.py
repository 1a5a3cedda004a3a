"""The build of a MultiBanana: pictures filtered, screened and classified, gaps filled, sets drawn, written and checked.

What cannot be used is dropped with its reason; what an endpoint or the budget stopped is the next run's to finish.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from refbench.benchmarks.multibanana.cases import TAGS, Task
from refbench.builders import BuildReport
from refbench.builders.kit.draws import draw, quotas, shuffled
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.flow import BLOCK, Builder, Show, Work, started, together
from refbench.builders.kit.replies import line
from refbench.builders.kit.review import Decision
from refbench.builders.kit.store import Store
from refbench.builders.multibanana import MultiBananaSettings, classify, writing
from refbench.builders.multibanana.dataset import Made, ship
from refbench.builders.multibanana.filters import (
    FilterNetworks,
    Filters,
    PictureFigures,
    choose_networks,
    load_filters,
    measure_all,
    picture_fault,
)
from refbench.builders.multibanana.pictures import (
    Painting,
    PoolPicture,
    category_counts,
    lookalike,
    opened_painter,
    priced,
    spent_on,
    user_pictures,
    wishes,
)
from refbench.builders.multibanana.tasks import Candidate, Member, candidates, possible
from refbench.builders.multibanana.writing import FinishedSet
from refbench.failure import Failure
from refbench.models import ImageModel
from refbench.record import RefBenchError

BUILDER = Builder(
    name="multibanana",
    benchmark="multibanana",
    stages=("pictures", "review", "filters", "screen", "classification", "fill", "instruction", "check"),
    places=("data",),
    prompts=classify.PROMPTS,
    tokens={"screen": 1500, "look": 2000, "instruction": 3000, "check": 2000},
    roles={"checker": "writer"},
)
_LOOKED_AT = 3
_LEAST_LOOKED_AT = 300
"""Pictures that are looked at, at most: these, or three for each set wanted; the paper has two."""
_TRIES = 4
"""Sets that are tried at most for each that is wanted of a task."""


async def build(
    settings: MultiBananaSettings, show: Show | None = None, *, painter: ImageModel | None = None
) -> BuildReport:
    """Make a MultiBanana of the pictures below the source. The same call again resumes; the same replies give the same
    files. `painter` fills gaps in place of the model that the settings name."""
    filters = load_filters(settings.filters)
    predictors = choose_networks(filters, settings.device)
    async with started(BUILDER, settings, show) as work:
        folder = settings.work_folder
        pictures = await asyncio.to_thread(user_pictures, settings.source, folder, work.dropped)
        work.wanted = settings.size
        made = Made({split: [] for split in settings.splits}, there=len(pictures))
        with Store(folder / "figures.jsonl") as store, Store(folder / "fill.jsonl") as painted:
            stages = _Stages(work, Maker(work, filters), predictors, store, made)
            budget = work.interviews.budget
            budget.pay(spent_on(painted))  # one budget for the whole build
            chosen = shuffled(pictures, settings.seed, "looked at")[: max(_LEAST_LOOKED_AT, _LOOKED_AT * settings.size)]
            async with opened_painter(settings.fill, painter, work.transport, folder) as model:
                painting = None if model is None else Painting(model, painted, folder, budget, settings.seed)
                await stages.admit(chosen)
                made.looked = len(chosen)
                if painting is not None:
                    await stages.fill(painting, chosen)
            await stages.write()
            store.settle()
            work.unpriced = not priced(painted)
        return ship(work, made, predictors)


@dataclass
class _Stages:
    """The stages, each in blocks so that a dead endpoint or a spent budget ends it early."""

    work: Work[MultiBananaSettings, FinishedSet]
    maker: Maker
    predictors: FilterNetworks
    store: Store
    made: Made

    async def admit(self, pictures: Sequence[PoolPicture]) -> None:
        """Filter, screen and classify; what passes joins the pool."""
        seen = await asyncio.to_thread(measure_all, pictures, self.predictors, self.store, self.work.show)
        passing = [one for one in pictures if self.maker.passes(one, seen[one.sha256])]
        self.work.show(f"{len(passing)} of {len(pictures)} pictures pass the filters")
        for start in range(0, len(passing), BLOCK):
            if self.work.stopped:
                self.work.unfinished += len(passing) - start
                return
            block = passing[start : start + BLOCK]
            told = await together([self.maker.member(one, seen[one.sha256]) for one in block], self.work.at_a_time)
            self.made.pool += [one for one in told if isinstance(one, Member)]
            self.work.count(told)
            self.work.show(f"{min(start + BLOCK, len(passing))} of {len(passing)} pictures looked at")

    async def fill(self, painting: Painting, pictures: Sequence[PoolPicture]) -> None:
        """Paint what categories lack; painted pictures pass the same gates as the user's."""
        enough = self.work.settings.fill_to
        self.made.painter = painting.model.name
        wanted = wishes(category_counts([one.categories for one in self.made.pool]), enough, self.work.settings.seed)
        known = list(pictures)
        painted: list[PoolPicture] = []
        for start in range(0, len(wanted), BLOCK):
            if self.work.stopped:
                break
            block = wanted[start : start + BLOCK]
            told = await together([painting.paint(wish) for wish in block], self.work.at_a_time)
            for wish, one in zip(block, told, strict=True):
                if isinstance(one, Failure):
                    self.work.lost(Subject("picture", wish.prompt), "fill", one)
                elif other := lookalike(one.looks, known):
                    self.work.drop(one.subject, "fill", "near-duplicate", f"looks like {other.name}")
                else:
                    known.append(one)
                    painted.append(one)
            self.work.count([one for one in told if not isinstance(one, Failure) or one.transient])
            self.work.show(f"{min(start + BLOCK, len(wanted))} of {len(wanted)} pictures painted")
        await self.admit(painted)
        has = category_counts([one.categories for one in self.made.pool])
        self.made.short = {name: number for name, number in has.items() if number < enough}

    async def write(self) -> None:
        """Write and check sets, split by split; a picture is in one split only."""
        for split in self.made.sets:
            pool = [one for one in self.made.pool if self._side(one) == split]
            share = self.work.settings.test_share
            part = 1.0 if share is None else share if split == "test" else 1 - share
            tasks, impossible = possible(pool)
            names = [task.name for task in tasks]
            wanted = quotas(max(1, round(self.work.wanted * part)), names, self.work.settings.seed)
            label = f"{split}: " if split else ""
            so_far = " so far" if self.work.unfinished else ""
            self.made.missing |= {f"{label}{name}": f"{why}{so_far}" for name, why in impossible.items()}
            streams = {task.name: candidates(task, pool, self.work.settings.seed) for task in tasks}
            short = await self._sets(split, tasks, wanted, streams)
            self.made.missing |= {f"{label}{name}": why for name, why in short.items()}

    async def _sets(
        self, split: str, tasks: Sequence[Task], wanted: Mapping[str, int], streams: Mapping[str, Iterator[Candidate]]
    ) -> dict[str, str]:
        """Rounds over all tasks, so that a build that ends early has some of each; gives what is short and why."""
        work = self.work
        finished: Counter[str] = Counter()
        pending: Counter[str] = Counter()
        begun: Counter[str] = Counter()
        while not work.stopped:
            open_places = {t.name: wanted[t.name] - finished[t.name] - pending[t.name] for t in tasks}
            block: list[Candidate] = []
            for task in tasks:
                if open_places[task.name] > 0 and begun[task.name] < _TRIES * wanted[task.name]:
                    block += [one for one in [next(streams[task.name], None)] if one is not None]
            if not block:
                break
            begun.update(one.task.name for one in block)
            for candidate, one in zip(block, await self._finish(split, block), strict=True):
                finished[candidate.task.name] += isinstance(one, FinishedSet)
                pending[candidate.task.name] += isinstance(one, Failure) and one.transient
            self.work.show(f"{len(work.items)} of {self.work.wanted} sets made, {work.begun} begun")
        if not work.stopped:
            await self._finish(split, [one for t in tasks for one in self._decided(streams[t.name], t, wanted[t.name])])
        return {
            task.name: f"{finished[task.name]} of {wanted[task.name]} sets: {self._why(task, begun[task.name])}"
            for task in tasks
            if finished[task.name] < wanted[task.name]
        }

    async def _finish(self, split: str, block: Sequence[Candidate]) -> list[FinishedSet | Failure]:
        told = await together([self.maker.finished(one) for one in block], self.work.at_a_time)
        made = [one for one in told if isinstance(one, FinishedSet)]
        self.made.sets[split] += made
        self.work.items += made
        self.work.begun += len(block)
        if block:
            self.work.count(told)
        return told

    def _decided(self, stream: Iterator[Candidate], task: Task, wanted: int) -> Iterator[Candidate]:
        """Sets that people have decided on and that others pushed out, by their word about what was dropped before."""
        for _ in range(_TRIES * wanted):
            waiting = [one for one in self.work.review.strangers() if one.startswith(f"{task.name}/")]
            candidate = next(stream, None) if waiting else None
            if candidate is None:
                return
            if candidate.id in waiting:
                self.work.review.of(candidate.id)
                yield candidate

    def _why(self, task: Task, begun: int) -> str:
        if self.work.stopped or self.work.unfinished:
            return "the build was not finished"
        lost = sum(one.what == "set" and one.id.startswith(f"{task.name}/") for one in self.work.dropped)
        return f"{begun} were tried and {lost} of them dropped" if lost else "its pictures give no further ones"

    def _side(self, member: Member) -> str:
        share = self.work.settings.test_share
        if share is None:
            return ""
        return "test" if draw(self.work.settings.seed, "split", member.picture.sha256) < share * 2**64 else "dev"


@dataclass(frozen=True)
class Maker:
    """Makes members of the pool and finished sets."""

    work: Work[MultiBananaSettings, FinishedSet]
    filters: Filters

    def passes(self, picture: PoolPicture, seen: PictureFigures) -> bool:
        """Whether the picture passes the filters; a person's word goes before theirs."""
        decision = self.work.review.of(picture.review_id)
        if decision is not None and decision.rejected:
            self.work.drop(picture.subject, "review", "rejected", decision.comment)
            return False
        fault = picture_fault(seen, self.filters)
        if fault is not None and decision is None:
            self.work.drop(picture.subject, "filters", *fault)
            return False
        return True

    async def member(self, picture: PoolPicture, seen: PictureFigures) -> Member | Failure:
        """The picture with what it shows, unless the screen rules it out."""
        work, decision = self.work, self.work.review.of(picture.review_id)
        screened = await work.ask(
            "checker", picture.about, "screen", [picture.path, classify.screen_prompt()], classify.read_screen
        )
        if isinstance(screened, Failure):
            if screened.transient or decision is None:
                return work.lost(picture.subject, "screen", screened)
        elif screened[0] and decision is None:
            return work.drop(picture.subject, "screen", *screened)
        look = await work.ask(
            "writer", picture.about, "look", [picture.path, classify.look_prompt()], classify.read_look
        )
        if isinstance(look, Failure):
            return work.lost(picture.subject, "classification", look)
        if decision is not None and decision.edit:
            look = _corrected(look, decision)
        return Member(picture, look, look.categories(scenery_only=seen.scenery_only))

    async def finished(self, candidate: Candidate) -> FinishedSet | Failure:
        """The set with its instruction, unless it cannot be written or does not pass the check."""
        work, decision = self.work, self.work.review.of(candidate.id)
        if decision is not None and decision.rejected:
            return work.drop(candidate.subject, "review", "rejected", decision.comment)
        edit = read_edit(decision, candidate)
        written: writing.Written | Failure
        if "instruction" in edit:
            written = writing.Written(instruction=edit["instruction"], thinking="Written by a person.")
        else:
            parts = writing.write_request(candidate)
            written = await work.ask("writer", candidate.id, "instruction", parts, writing.read_written, candidate)
        if isinstance(written, Failure):
            return work.lost(candidate.subject, "instruction", written)
        tags = edit.get("tags", classify.tags_of([one.look for one in candidate.references]))
        # A person has looked at it: written it, or decided about this very instruction.
        if decision is not None and (
            "instruction" in edit or work.review.stands(decision, instruction=written.instruction)
        ):
            return FinishedSet(candidate, written, tags, None)
        parts = writing.check_request(candidate, written.instruction)
        checked = await work.ask("checker", candidate.id, "check", parts, writing.read_check)
        if isinstance(checked, Failure):
            return work.lost(candidate.subject, "check", checked)
        if fault := checked.fault(self.filters):
            work.offered[candidate.id] = FinishedSet(candidate, written, tags, checked, fault)
            return work.drop(candidate.subject, "check", fault, f"{written.instruction} ({checked.reason})")
        return FinishedSet(candidate, written, tags, checked)


def _corrected(look: classify.Look, decision: Decision) -> classify.Look:
    try:
        return classify.edited_look(look, decision.edit)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RefBenchError(f"{decision.where}: {where}: {first['msg']}") from error


def read_edit(decision: Decision | None, candidate: Candidate) -> dict[str, Any]:
    """What a person puts in place of the machine's, checked like it."""
    fields = decision.edited("instruction", "tags") if decision else {}
    found: dict[str, Any] = {}
    if decision and "instruction" in fields:
        found["instruction"] = line(fields["instruction"])
        if wrong := writing.instruction_fault(found["instruction"], candidate.references):
            raise RefBenchError(f"{decision.where}: {wrong}")
    if decision and "tags" in fields:
        said = fields["tags"]
        labels = said.replace(",", " ").split() if isinstance(said, str) else said
        if not isinstance(labels, list) or any(label not in TAGS for label in labels):
            raise RefBenchError(f"{decision.where}: tags are a list of {', '.join(TAGS)}")
        found["tags"] = tuple(label for label in TAGS if label in labels)
    return found
