"""The build: pictures filtered, screened and classified, gaps filled, sets drawn, written and checked."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.benchmarks.multibanana.cases import Task
from refbench.builders import BuildReport
from refbench.builders.kit import DroppedItems, Review
from refbench.builders.kit.draws import draw, shuffled
from refbench.builders.kit.flow import BLOCK, Worked, together
from refbench.builders.kit.folder import claim
from refbench.builders.kit.pictures import why_none
from refbench.builders.kit.replies import reason_of
from refbench.builders.kit.settings import Calls, Settings, check_wishes, opened
from refbench.builders.kit.store import Store
from refbench.builders.multibanana.dataset import Made, ship
from refbench.builders.multibanana.filters import Eyes, figures, load_filters, open_eyes
from refbench.builders.multibanana.making import STAGES, FinishedSet, Makers
from refbench.builders.multibanana.pictures import (
    Painting,
    PlainPicture,
    category_counts,
    lookalike,
    priced,
    spent_on,
    user_pictures,
    wishes,
)
from refbench.builders.multibanana.tasks import Candidate, Member, candidates, possible, quotas
from refbench.calls import Transport
from refbench.chat.build import make_vlm
from refbench.failure import Failure
from refbench.models import ImageModel
from refbench.models.build import ModelSetup, make_model
from refbench.pictures.collection import collect
from refbench.record import RefBenchError
from refbench.specs import Spec

SIZE = 180
"""Sets by default: five for each of the 36 tasks."""
FILL_TO = 8
_LOOKED_AT = 3
_LEAST_LOOKED_AT = 300
"""Pictures that are looked at, at most: these, or three for each set wanted; the paper has two."""
_TRIES = 4
"""Sets that are tried at most for each that is wanted of a task."""
Show = Callable[[str], None]


async def build(
    source: Path,
    out: Path,
    *,
    writer: str,
    checker: str | None = None,
    size: int = SIZE,
    seed: int = 0,
    budget: str | None = None,
    review: Path | None = None,
    filters: Path | None = None,
    fill: str | ImageModel | None = None,
    fill_to: int = FILL_TO,
    test_share: float | None = None,
    device: str = "cpu",
    concurrency: int = 16,
    timeout: float = 180.0,
    retry: Sequence[str] = (),
    show: Show | None = None,
) -> BuildReport:
    """A MultiBanana of the pictures below `source`, in `out`. The same call again resumes; the same replies give the
    same files. The writer classifies pictures and writes instructions, the checker (the writer by default) screens
    pictures and checks sets. `fill` paints for categories with fewer than `fill_to` pictures."""
    calls = Calls(concurrency, timeout, budget, retry)
    check_wishes(size, test_share, "sets")
    if fill_to < 1:
        raise RefBenchError(f"--fill-to {fill_to}: give a number of pictures, at least 1")
    wrote = Spec.parse(writer, "--writer")
    specs = {"writer": wrote, "checker": Spec.parse(checker, "--checker") if checker else wrote}
    limits, decisions, dropped = load_filters(filters), Review.read(review), DroppedItems(STAGES)
    eyes = open_eyes(limits, device)
    collection = await asyncio.to_thread(collect, source)
    work = out / ".build"
    claim(out, source, "multibanana", ("data",))
    pictures = await asyncio.to_thread(user_pictures, collection, work, dropped)
    if not pictures:
        raise RefBenchError(f"{source} holds no picture that can be used: {why_none(dropped)}")
    settings = Settings(source, specs, size, seed, test_share, source)
    async with opened(work, specs, calls) as desk:
        interviews = desk.interviews
        makers = Makers(interviews, desk.vlms["writer"], desk.vlms["checker"], limits, decisions, dropped)
        made = Made(Worked(), there=len(pictures), sets={split: [] for split in settings.splits}, fill_to=fill_to)
        with Store(work / "figures.jsonl") as store, Store(work / "fill.jsonl") as painted:
            stage = _Build(settings, makers, eyes, store, made, calls.at_a_time, show or (lambda line: None))
            interviews.budget.pay(spent_on(painted))  # one budget for the whole build
            chosen = shuffled(pictures, seed, "looked at")[: max(_LEAST_LOOKED_AT, _LOOKED_AT * size)]
            async with _painter(fill, desk.transport, work) as model:
                painting = None if model is None else Painting(model, painted, work, interviews.budget, seed)
                await stage.admit(chosen)
                made.looked = len(chosen)
                if painting is not None:
                    await stage.fill(painting, chosen)
            await stage.write()
            store.settle()
            cost = desk.paid() if priced(painted) else None
        return ship(out, settings, made, eyes, makers, asked=interviews.asked, cost=cost)


@contextlib.asynccontextmanager
async def _painter(fill: str | ImageModel | None, transport: Transport, work: Path) -> AsyncIterator[ImageModel | None]:
    """The model that fills gaps, made before anything is asked: what is wrong with its spec is said at once."""
    model = _made(fill, transport, work) if isinstance(fill, str) else fill
    try:
        yield model
    finally:
        if model is not None:
            await model.close()


def _made(fill: str, transport: Transport, work: Path) -> ImageModel:
    spec = Spec.parse(fill, "--fill")
    leaf = spec.innermost
    if leaf.kind in ("folder", "steps") or (leaf.kind, leaf.what) == ("baseline", "truth"):
        raise RefBenchError(f"--fill {fill}: give a model that paints, not pictures that are there already")
    try:
        model = make_model(spec, ModelSetup(transport, lambda vlm: make_vlm(vlm, transport), work / "painting"))
    except RefBenchError as error:  # models are told of as --model everywhere else
        raise RefBenchError(str(error).replace("--model", "--fill")) from error
    assert isinstance(model, ImageModel)
    return model


@dataclass
class _Build:
    """The stages, each in blocks so that a dead endpoint or a spent budget ends it early."""

    settings: Settings
    makers: Makers
    eyes: Eyes
    store: Store
    made: Made
    most: int
    show: Show

    async def admit(self, pictures: Sequence[PlainPicture]) -> None:
        """Filter, screen and classify; what passes joins the pool."""
        seen = await asyncio.to_thread(figures, pictures, self.eyes, self.store, self.show)
        passing = [one for one in pictures if self.makers.passes(one, seen[one.sha256])]
        self.show(f"{len(passing)} of {len(pictures)} pictures pass the filters")
        for start in range(0, len(passing), BLOCK):
            if self.made.worked.stopped:
                self.made.worked.unfinished += len(passing) - start
                return
            block = passing[start : start + BLOCK]
            told = await together([self.makers.member(one, seen[one.sha256]) for one in block], self.most)
            self.made.pool += [one for one in told if isinstance(one, Member)]
            self.made.worked.count(told)
            self.show(f"{min(start + BLOCK, len(passing))} of {len(passing)} pictures looked at")

    async def fill(self, painting: Painting, pictures: Sequence[PlainPicture]) -> None:
        """Paint what categories lack; painted pictures pass the same gates as the user's."""
        enough = self.made.fill_to
        self.made.painter = painting.model.name
        wanted = wishes(category_counts([one.categories for one in self.made.pool]), enough, self.settings.seed)
        known = list(pictures)
        painted: list[PlainPicture] = []
        for start in range(0, len(wanted), BLOCK):
            if self.made.worked.stopped:
                break
            block = wanted[start : start + BLOCK]
            told = await together([painting.paint(wish) for wish in block], self.most)
            for wish, one in zip(block, told, strict=True):
                if isinstance(one, Failure):
                    if not one.transient:
                        self.makers.dropped.add("fill", "picture", wish.prompt, reason_of(one), one.detail)
                elif other := lookalike(one.looks, known):
                    said = f"looks like {other.name}"
                    self.makers.dropped.add("fill", "picture", one.name, "near-duplicate", said)
                else:
                    known.append(one)
                    painted.append(one)
            self.made.worked.count([one for one in told if not isinstance(one, Failure) or one.transient])
            self.show(f"{min(start + BLOCK, len(wanted))} of {len(wanted)} pictures painted")
        await self.admit(painted)
        has = category_counts([one.categories for one in self.made.pool])
        self.made.short = {name: number for name, number in has.items() if number < enough}

    async def write(self) -> None:
        """Write and check sets, split by split; a picture is in one split only."""
        for split in self.made.sets:
            pool = [one for one in self.made.pool if self._side(one) == split]
            share = self.settings.test_share
            part = 1.0 if share is None else share if split == "test" else 1 - share
            tasks, impossible = possible(pool)
            wanted = quotas(max(1, round(self.settings.wanted * part)), tasks, self.settings.seed)
            label = f"{split}: " if split else ""
            so_far = " so far" if self.made.worked.unfinished else ""
            self.made.missing |= {f"{label}{name}": f"{why}{so_far}" for name, why in impossible.items()}
            streams = {task.name: candidates(task, pool, self.settings.seed) for task in tasks}
            short = await self._sets(split, tasks, wanted, streams)
            self.made.missing |= {f"{label}{name}": why for name, why in short.items()}

    async def _sets(
        self, split: str, tasks: Sequence[Task], wanted: Mapping[str, int], streams: Mapping[str, Iterator[Candidate]]
    ) -> dict[str, str]:
        """Rounds over all tasks, so that a build that ends early has some of each; gives what is short and why."""
        worked = self.made.worked
        finished: Counter[str] = Counter()
        pending: Counter[str] = Counter()
        begun: Counter[str] = Counter()
        while not worked.stopped:
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
                pending[candidate.task.name] += isinstance(one, Failure)
            self.show(f"{len(worked.items)} of {self.settings.wanted} sets made, {worked.begun} begun")
        if not worked.stopped:
            await self._finish(split, [one for t in tasks for one in self._decided(streams[t.name], t, wanted[t.name])])
        return {
            task.name: f"{finished[task.name]} of {wanted[task.name]} sets: {self._why(task, begun[task.name])}"
            for task in tasks
            if finished[task.name] < wanted[task.name]
        }

    async def _finish(self, split: str, block: Sequence[Candidate]) -> list[FinishedSet | Failure | None]:
        told = await together([self.makers.finished(one) for one in block], self.most)
        made = [one for one in told if isinstance(one, FinishedSet)]
        self.made.sets[split] += made
        self.made.worked.items += made
        self.made.worked.begun += len(block)
        if block:
            self.made.worked.count(told)
        return told

    def _decided(self, stream: Iterator[Candidate], task: Task, wanted: int) -> Iterator[Candidate]:
        """Sets that people have decided on and that others pushed out, by their word about what was dropped before."""
        for _ in range(_TRIES * wanted):
            waiting = [one for one in self.makers.review.strangers() if one.startswith(f"{task.name}/")]
            candidate = next(stream, None) if waiting else None
            if candidate is None:
                return
            if candidate.id in waiting:
                self.makers.review.of(candidate.id)
                yield candidate

    def _why(self, task: Task, begun: int) -> str:
        if self.made.worked.stopped or self.made.worked.unfinished:
            return "the build was not finished"
        lost = sum(one.what == "set" and one.id.startswith(f"{task.name}/") for one in self.makers.dropped)
        return f"{begun} were tried and {lost} of them dropped" if lost else "its pictures give no further ones"

    def _side(self, member: Member) -> str:
        share = self.settings.test_share
        if share is None:
            return ""
        return "test" if draw(self.settings.seed, "split", member.picture.sha256) < share * 2**64 else "dev"
