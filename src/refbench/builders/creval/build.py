"""The build: pictures looked at, dealt to dimensions, instructed, questioned and audited, block by block.

A block is finished before the next begins, so that a build that the budget ends has whole items of every dimension, and
what a later block does follows from the replies to the earlier ones, however often it was stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refbench.builders import BuildReport
from refbench.builders.creval.dimensions import dimensions
from refbench.builders.creval.edits import read_edit
from refbench.builders.creval.item import Item, Planned
from refbench.builders.creval.layout import take_folder
from refbench.builders.creval.making import Flagged, Makers
from refbench.builders.creval.plan import Splits, deal, quotas
from refbench.builders.creval.shipping import Made, Settings, ship
from refbench.builders.pictures import SourcePicture, distinct_pictures, plain_picture, stems
from refbench.builders.rounds import paid, together
from refbench.builders.texts import repeats
from refbench.calls import Transport
from refbench.chat.build import make_vlm
from refbench.chat.local import LocalVLM
from refbench.chat.spec import Spec
from refbench.chat.vlm import VLM
from refbench.collection import Found, collect
from refbench.engine.interviews import Interviews
from refbench.failure import KINDS, Failure
from refbench.record import RefBenchError
from refbench.refblend.draws import shuffled
from refbench.workshop import DroppedItems, Review

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
    if size is not None and size < 1:
        raise RefBenchError(f"--size {size}: give how many items you want, at least 1")
    if strange := [kind for kind in retry if kind not in KINDS]:
        raise RefBenchError(f"--retry {strange[0]}: there are {', '.join(KINDS)}")
    specs = {
        "writer": Spec.parse(writer, "--writer"),
        "checker": Spec.parse(checker or writer, "--checker"),
        "auditor": None if auditor == "none" else Spec.parse(auditor or checker or writer, "--auditor"),
    }
    known, decisions = dimensions(examples), Review.read(review)
    dropped, splits = DroppedItems(), Splits(test_share, seed)
    collection = await asyncio.to_thread(collect, source)
    pictures = distinct_pictures(collection, dropped)
    if not pictures:
        raise RefBenchError(f"{source} holds no picture that can be used: {_why_none(dropped)}")
    take_folder(out, source, splits.names)
    wanted = size or len(pictures)
    settings = Settings(specs, wanted, seed, source, examples, test_share, flagged, collection.root)
    async with (
        Transport(concurrency=concurrency, timeout=timeout) as transport,
        Interviews(out / ".build", transport, budget=budget, retry=retry) as interviews,
        _vlms(specs, transport) as vlms,
    ):
        makers = Makers(interviews, vlms["writer"], vlms["checker"], vlms.get("auditor"), known, seed, flagged, dropped)
        names = stems(pictures)
        order = shuffled(pictures, seed, "order")[: max(_LOOKED_AT * wanted, _BLOCK)]
        work = _Work(makers, decisions, splits, source, out, names, quotas(wanted, seed), deque(order), concurrency)
        await work.run(show or (lambda line: None))
        more = len(pictures) > len(order)
        made = Made(work.items, work.begun, work.unfinished, work.stopped, work.places, more)
        return ship(
            out, settings, made, dropped, decisions, splits.names, asked=interviews.asked, cost=paid(interviews, vlms)
        )


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
    items: list[Item] = field(default_factory=list)
    begun: int = 0
    unfinished: int = 0
    stopped: str = ""

    async def run(self, show: Callable[[str], None]) -> None:
        while self.places.total() and not self.stopped:
            dealt = self._deal()
            if len(dealt) < self.places.total() and self.waiting:
                await self._look()
                dealt = self._deal()
            if not dealt and not self.waiting:
                return
            if dealt and not self.stopped:
                await self._make(dealt)
            show(
                f"{len(self.items)} items made, {self.places.total()} open, {len(self.makers.dropped)} left out, "
                f"{self.makers.interviews.asked} calls"
            )

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
        self._stop_if_hopeless(told)

    async def _make(self, dealt: dict[str, int]) -> None:
        planned = [
            Planned(self.pool.pop(stem)[0], class_id, self.splits.of_next(class_id)) for stem, class_id in dealt.items()
        ]
        self.places.subtract(dealt.values())
        self.begun += len(planned)
        edits = {one.picture.stem: read_edit(self.review.of(one.picture.stem)) for one in planned}
        going: list[Planned] = []
        for one in planned:
            if edits[one.picture.stem].rejected:
                self._drop(one, "review", "rejected", "")
            else:
                going.append(one)
        written = await together(
            [_given(edits[one.picture.stem].instruction) or self.makers.instruct(one) for one in going],
            self.concurrency,
        )
        texts = self._without_repeats(going, written)
        # Few at a time and each to its end: where the budget stops it, whole items are there.
        made = await together(
            [self.makers.question(one, text, edits[one.picture.stem]) for one, text in texts],
            max(1, self.concurrency // 3),
        )
        self.items += [one for one in made if isinstance(one, Item)]
        for one, outcome in [*zip(going, written, strict=True), *zip((p for p, _ in texts), made, strict=True)]:
            if isinstance(outcome, Failure) and not outcome.transient:
                self.places[one.class_id] += 1  # its place is open again; that of an unfinished one is kept for it
        self._stop_if_hopeless([*(f for f in written if isinstance(f, Failure)), *made])

    def _without_repeats(
        self, planned: Sequence[Planned], written: Sequence[str | Failure]
    ) -> list[tuple[Planned, str]]:
        earlier = [item.instruction for item in self.items]
        found: list[tuple[Planned, str]] = []
        for one, text in zip(planned, written, strict=True):
            if isinstance(text, Failure):
                continue
            if other := repeats(text, [*earlier, *(said for _, said in found)]):
                self._drop(one, "instruction", "duplicate", f"nearly the same as: {other[:200]}")
            else:
                found.append((one, text))
        return found

    def _drop(self, planned: Planned, stage: str, reason: str, detail: str) -> None:
        picture = planned.picture.name
        self.makers.dropped.add(stage, "item", picture, reason, detail, picture=picture)
        self.places[planned.class_id] += 1

    def _stop_if_hopeless(self, told: Sequence[object]) -> None:
        """Money that is spent and an endpoint that is dead end the build; a single call that fails does not."""
        failed = [one for one in told if isinstance(one, Failure) and one.transient]
        self.unfinished += len(failed)
        if any(one.kind == "budget" for one in failed):
            self.stopped = "budget"
        elif 2 * len(failed) > len(told):
            self.stopped = "unreachable"


def _given(instruction: str | None) -> Coroutine[Any, Any, str | Failure] | None:
    async def said() -> str | Failure:
        assert instruction is not None
        return instruction

    return None if instruction is None else said()


@contextlib.asynccontextmanager
async def _vlms(specs: Mapping[str, Spec | None], transport: Transport) -> AsyncIterator[dict[str, VLM]]:
    """A VLM for each role; one that has several is there once, for local weights fill a device."""
    by_spec = {spec.key: make_vlm(spec, transport) for spec in specs.values() if spec is not None}
    try:
        yield {role: by_spec[spec.key] for role, spec in specs.items() if spec is not None}
    finally:
        for vlm in by_spec.values():
            if isinstance(vlm, LocalVLM):
                vlm.close()


def _why_none(dropped: DroppedItems) -> str:
    reasons = dropped.counts().get("pictures", {})
    return ", ".join(f"{number} {reason}" for reason, number in reasons.items()) or "there are none in it"
