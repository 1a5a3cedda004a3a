"""The build: pictures looked at, dealt to dimensions, instructed, questioned and audited, block by block.

A block is finished before the next begins, so that a build that the budget ends has whole items of every dimension, and
what a later block does follows from the replies to the earlier ones, however often it was stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from refbench.benchmarks.creval.cases import DIMENSIONS
from refbench.builders import BuildReport
from refbench.builders.creval import CREvalSettings, asking
from refbench.builders.creval.dataset import ship
from refbench.builders.creval.dimensions import Splits, deal, dimensions
from refbench.builders.creval.item import Item, Planned
from refbench.builders.creval.making import Edit, Maker, read_edit
from refbench.builders.kit.draws import quotas, shuffled
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.flow import Builder, Show, Work, started, together
from refbench.builders.kit.pictures import SourcePicture, distinct_pictures, plain_picture, stems
from refbench.builders.kit.replies import repeats
from refbench.failure import Failure
from refbench.pictures.collection import Found

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
