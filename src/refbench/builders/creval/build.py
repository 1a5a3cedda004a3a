"""The build: pictures looked at, dealt to dimensions, instructed, questioned and audited, block by block.

A block is finished before the next begins, so that a build that the budget ends has whole items of every dimension, and
what a later block does follows from the replies to the earlier ones, however often it was stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refbench.builders import BuildReport
from refbench.builders.creval.dataset import Made, ship, take_folder
from refbench.builders.creval.dimensions import Splits, deal, dimensions, quotas
from refbench.builders.creval.item import Item, Planned
from refbench.builders.creval.making import STAGES, Edit, Flagged, Makers, read_edit
from refbench.builders.kit import DroppedItems, Review
from refbench.builders.kit.draws import shuffled
from refbench.builders.kit.flow import Worked, together
from refbench.builders.kit.pictures import SourcePicture, distinct_pictures, plain_picture, stems, why_none
from refbench.builders.kit.replies import repeats
from refbench.builders.kit.settings import Calls, Settings, check_wishes, opened, role
from refbench.failure import Failure
from refbench.pictures.collection import Found, collect
from refbench.record import RefBenchError
from refbench.specs import Spec

_BLOCK = 36
"""Pictures of a block: four for each dimension."""
_LOOKED_AT = 3
"""Pictures that are looked at, at most, for each item wanted."""


async def build(
    source: Path,
    out: Path,
    *,
    writer: str,
    checker: str | None = None,
    auditor: str | None = None,
    size: int | None = None,
    seed: int = 0,
    budget: str | None = None,
    review: Path | None = None,
    examples: Path | None = None,
    test_share: float | None = None,
    flagged: Flagged = "drop",
    concurrency: int = 16,
    timeout: float = 180.0,
    retry: Sequence[str] = (),
    show: Callable[[str], None] | None = None,
) -> BuildReport:
    """A CREval of the pictures below `source`, in `out`. The same call again resumes; the same replies give the same
    files. `checker` writes the questions (the writer itself by default), `auditor` asks them of the unedited pictures
    (the checker by default, "none" for no audit). `size` items are wanted, by default one for each picture."""
    calls = Calls(concurrency, timeout, budget, retry)
    check_wishes(size, test_share, "items")
    wrote = Spec.parse(writer, "--writer")
    asked = Spec.parse(checker, "--checker") if checker else wrote
    specs = {"writer": wrote, "checker": asked, "auditor": role(auditor, "--auditor", asked)}
    known, decisions = dimensions(examples), Review.read(review)
    dropped, splits = DroppedItems(STAGES), Splits(test_share, seed)
    collection = await asyncio.to_thread(collect, source)
    pictures = distinct_pictures(collection, dropped)
    if not pictures:
        raise RefBenchError(f"{source} holds no picture that can be used: {why_none(dropped)}")
    take_folder(out, source, splits.names)
    wanted = size or len(pictures)
    settings = Settings(source, specs, wanted, seed, test_share, collection.root)
    async with opened(out / ".build", specs, calls) as desk:
        interviews, vlms = desk.interviews, desk.vlms
        makers = Makers(interviews, vlms["writer"], vlms["checker"], vlms.get("auditor"), known, seed, flagged, dropped)
        names = stems(pictures)
        order = shuffled(pictures, seed, "order")[: max(_LOOKED_AT * wanted, _BLOCK)]
        work = _Work(makers, decisions, splits, source, out, names, quotas(wanted, seed), deque(order), concurrency)
        await work.run(show or (lambda line: None))
        short = quotas(wanted, seed)
        short.subtract(item.planned.class_id for item in work.worked.items)
        made = Made(work.worked, short, more=len(pictures) > len(order))
        return ship(out, settings, made, makers, decisions, examples, asked=interviews.asked, cost=desk.paid())


@dataclass
class _Work:
    """What stands and what is still open, while blocks are worked through."""

    makers: Makers
    review: Review
    splits: Splits
    source: Path
    out: Path
    stems: dict[str, str]
    places: Counter[int]
    """Items still wanted of each dimension."""
    waiting: deque[Found]
    concurrency: int
    pool: dict[str, tuple[SourcePicture, tuple[int, ...]]] = field(default_factory=dict)
    """Pictures that were looked at and have no dimension yet."""
    rejected: Counter[int] = field(default_factory=Counter)
    """Places of items that people have rejected: they are dealt last, so that a rejection moves no other item."""
    worked: Worked[Item] = field(default_factory=Worked)

    async def run(self, show: Callable[[str], None]) -> None:
        while not self.worked.stopped:
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
            if dealt and not self.worked.stopped:
                await self._make(dealt)
            show(
                f"{len(self.worked.items)} items made, {self.places.total() + self.rejected.total()} open, "
                f"{len(self.makers.dropped)} left out, {self.makers.interviews.asked} calls"
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
        folder = self.out / ".build/pictures"
        plain: list[SourcePicture] = []
        for found in block:
            one = await asyncio.to_thread(plain_picture, self.source, found.name, self.stems[found.name], folder)
            if isinstance(one, Failure):
                self.makers.dropped.add("pictures", "picture", found.name, "unreadable", one.detail)
            else:
                plain.append(one)
        told = await together([self.makers.screen(picture) for picture in plain], self.concurrency)
        for picture, said in zip(plain, told, strict=True):
            if not isinstance(said, Failure) and said.usable and said.suits:
                self.pool[picture.stem] = (picture, said.suits)
        self.worked.count(told)

    async def _make(self, dealt: dict[str, int]) -> None:
        planned = [
            Planned(self.pool.pop(stem)[0], class_id, self.splits.of_next(class_id)) for stem, class_id in dealt.items()
        ]
        self.places.subtract(dealt.values())
        self.worked.begun += len(planned)
        edits = {one.picture.stem: self._edit(one) for one in planned}
        going: list[Planned] = []
        for one in planned:
            if edits[one.picture.stem].rejected:
                self._drop(one, "review", "rejected", "", self.rejected)
            else:
                going.append(one)
        written = await together(
            [_given(edits[one.picture.stem].instruction) or self.makers.instruct(one) for one in going],
            self.concurrency,
        )
        texts = self._without_repeats(going, written)
        # Few at a time and each to its end: where the budget stops it, whole items are there.
        made = await together(
            [self.makers.question(one, text, self._about(text, one, edits[one.picture.stem])) for one, text in texts],
            max(1, self.concurrency // 3),
        )
        self.worked.items += [one for one in made if isinstance(one, Item)]
        for one, outcome in [*zip(going, written, strict=True), *zip((p for p, _ in texts), made, strict=True)]:
            if isinstance(outcome, Failure) and not outcome.transient:
                self.places[one.class_id] += 1  # its place is open again; that of an unfinished one is kept for it
        self.worked.count([*(f for f in written if isinstance(f, Failure)), *made])

    def _edit(self, planned: Planned) -> Edit:
        """What a person decided; nothing where it was about the picture in another dimension."""
        decision = self.review.of(planned.picture.stem)
        if decision is None or not self.review.stands(decision, class_id=planned.class_id):
            return Edit()
        return read_edit(decision)

    def _about(self, instruction: str, planned: Planned, edit: Edit) -> Edit:
        """The edit, unless its questions were written for another instruction of the writer's."""
        decision = self.review.of(planned.picture.stem)
        if decision is None or not edit.questions or edit.instruction:
            return edit
        return edit if self.review.stands(decision, instruction=instruction) else Edit()

    def _without_repeats(
        self, planned: Sequence[Planned], written: Sequence[str | Failure]
    ) -> list[tuple[Planned, str]]:
        earlier = [item.instruction for item in self.worked.items]
        found: list[tuple[Planned, str]] = []
        for one, text in zip(planned, written, strict=True):
            if isinstance(text, Failure):
                continue
            if other := repeats(text, [*earlier, *(said for _, said in found)]):
                self._drop(one, "instruction", "duplicate", f"nearly the same as: {other[:200]}", self.places)
            else:
                found.append((one, text))
        return found

    def _drop(self, planned: Planned, stage: str, reason: str, detail: str, places: Counter[int]) -> None:
        picture = planned.picture.name
        self.makers.dropped.add(stage, "item", picture, reason, detail, picture=picture)
        places[planned.class_id] += 1


def _given(instruction: str | None) -> Coroutine[Any, Any, str | Failure] | None:
    async def said() -> str | Failure:
        assert instruction is not None
        return instruction

    return None if instruction is None else said()
