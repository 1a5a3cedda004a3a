"""Judging: for each case, every model's output goes to every judge; what is recorded already is not asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from refbench.benchmarks import Dataset
from refbench.benchmarks.benchmark import Asked, Judging, Material
from refbench.calls import Budget, BudgetSpentError, Transport
from refbench.case import AnyCase
from refbench.chat.request import ChatRequest
from refbench.chat.sent import SentPicture
from refbench.chat.vlm import VLM, Pictures
from refbench.engine.ahead import ahead
from refbench.engine.gallery import Gallery
from refbench.engine.progress import Progress
from refbench.engine.recorder import Recorder
from refbench.evidence import Evidence, Purpose
from refbench.failure import TRANSIENT, Failure
from refbench.models import AnyModel
from refbench.record import RefBenchError, content_key
from refbench.runs import Run

_MOST_REPEATS = 1000
_AHEAD = 8
"""Cases whose pictures are prepared before they are asked about."""

Repair = Callable[[AnyCase, Purpose, Evidence, ChatRequest], ChatRequest | None]
"""The one further request for a reply that could not be read; None when it could."""


@dataclass(frozen=True)
class Planned:
    """One call that is to be made: what it is for, who is asked what, and the worst it can cost."""

    purpose: Purpose
    judge: VLM
    request: ChatRequest
    pictures: Pictures
    act: str
    number: int
    """Tells calls with the same words apart: the repeat and the benchmark's own draw."""
    worst_usd: float
    unread: Evidence | None = None
    """The reply that is on record already and could not be read, when only the repair is missing."""


@dataclass
class JudgingRun:
    """Everything that judging needs, together. `stopped` says why it ended early, "" if it did not."""

    run: Run
    dataset: Dataset
    models: Sequence[AnyModel]
    judges: Sequence[VLM]
    judging: Judging
    transport: Transport
    budget: Budget
    recorder: Recorder
    gallery: Gallery
    seeds: int = 1
    repeats: int = 1
    retry: frozenset[str] = frozenset()
    repair: Repair | None = None
    progress: Progress = field(default_factory=Progress)
    stopped: str = ""
    _cases: dict[str, AnyCase] = field(default_factory=dict)
    _unread: dict[str, Evidence] = field(default_factory=dict)
    _sharing: dict[str, list[Purpose]] = field(default_factory=dict)
    """Acts on their way, with the other purposes that wait for the same reply."""

    async def judge(self, cases: Sequence[AnyCase]) -> None:
        """Judge the cases in their order, many at a time, all models on a case before the next."""
        self._cases = {case.id: case for case in cases}
        self._unread = self._unrepaired() if self.repair else {}
        # A few more than can be in flight: enough to keep every place taken, few enough to have their pictures at hand.
        calls = _Open((self.transport.concurrency + _AHEAD) * len(self.judges))

        async def one(planned: Sequence[Planned], worst: float) -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    for call in planned:
                        group.create_task(self._call(call))
            finally:
                await self.budget.release(worst)
                await calls.close(len(planned))

        # The pictures of the next few cases are opened and hashed ahead.
        plans = ahead(cases, self._plan, _AHEAD)
        try:
            async with aclosing(plans), asyncio.TaskGroup() as group:
                async for planned in plans:
                    if self.stopped:
                        break
                    worst = sum(call.worst_usd for call in planned)
                    try:
                        await self.budget.reserve(worst)
                    except BudgetSpentError:
                        self.stopped = "budget"
                        break
                    if planned:
                        await calls.open(len(planned))
                        group.create_task(one(planned, worst))
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None

    def _unrepaired(self) -> dict[str, Evidence]:
        """Replies on record that could not be read and were not asked for again: their run was stopped in between."""
        assert self.repair is not None
        nothing = ChatRequest(parts=())
        found: dict[str, Evidence] = {}
        repaired: set[tuple[str, ...]] = set()
        places: dict[str, tuple[str, ...]] = {}
        for purpose, evidence in self.run.evidence():
            if evidence.kind != "chat":
                continue
            part, plus, _ = purpose.part.partition("+")
            place = (purpose.case, purpose.model, purpose.judge, part, f"{purpose.seed} {purpose.repeat}")
            if plus:
                if evidence.failure is None or not evidence.failure.transient:
                    repaired.add(place)
            elif purpose.case in self._cases and self.repair(self._cases[purpose.case], purpose, evidence, nothing):
                found[evidence.id], places[evidence.id] = evidence, place
        return {act: evidence for act, evidence in found.items() if places[act] not in repaired}

    async def _plan(self, case: AnyCase) -> list[Planned]:
        """The calls that a case still needs, over all models, judges and repeats."""
        found: list[Planned] = []
        for model, seed in ((model, seed) for model in self.models for seed in range(self.seeds)):
            material = await self._material(case, model, seed)
            if material is None:
                continue
            if self.judging.compose is not None:
                material = await asyncio.to_thread(self.judging.compose, case, material, self.gallery.store)
            asked = self.judging.ask(case, material)
            made = [picture for picture in material.composed.values() if isinstance(picture, SentPicture)]
            pictures = {p.sha256: p for p in (*material.inputs, *material.outputs, *material.targets, *made)}
            for judge in self.judges:
                for repeat in range(self.repeats):
                    for item in asked:
                        if item.settled is not None:
                            await self._record_settled(case, model.name, seed, judge, repeat, item, material)
                            continue
                        planned = await self._planned(case, model.name, seed, judge, repeat, item, pictures)
                        if planned is not None:
                            found.append(planned)
        return found

    async def _planned(
        self, case: AnyCase, model: str, seed: int, judge: VLM, repeat: int, item: Asked, pictures: Pictures
    ) -> Planned | None:
        purpose = _purpose(case, model, seed, judge, repeat, item)
        number = repeat + item.draw * _MOST_REPEATS
        act = content_key({"kind": "chat", **judge.canonical(item.request, number)})
        writer = self.recorder.writer
        self.progress.expected += 1
        failed = writer.failed(act)
        unread = self._unread.pop(act, None)
        if unread is not None:
            self._sharing[act] = []
            worst = judge.worst_cost(item.request, pictures) or 0.0
            return Planned(purpose, judge, item.request, pictures, act, number, worst, unread)
        if writer.succeeded(act) or (failed is not None and failed not in TRANSIENT and failed not in self.retry):
            self.progress.known += 1
            self.recorder.link(act, purpose)
            return None
        if act in self._sharing:  # the same request is on its way for another purpose
            self._sharing[act].append(purpose)
            self.progress.known += 1
            return None
        self._sharing[act] = []
        worst = judge.worst_cost(item.request, pictures) or 0.0
        # A reply that cannot be read is asked for once more.
        return Planned(purpose, judge, item.request, pictures, act, number, 2 * worst if self.repair else worst)

    async def _record_settled(
        self, case: AnyCase, model: str, seed: int, judge: VLM, repeat: int, item: Asked, material: Material
    ) -> None:
        """What the benchmark knows without a judge is evidence like any other, and costs nothing."""
        request = {
            "settled": item.part,
            "protocol": item.protocol,
            "case": case.id,
            "draw": item.draw,
            "outputs": [picture.original.sha256 for picture in material.outputs],
        }
        known = {"failure": item.settled} if isinstance(item.settled, Failure) else {"reply": item.settled}
        purpose = _purpose(case, model, seed, judge, repeat, item)
        self.progress.expected += 1
        self.progress.known += 1
        await self.recorder.record((Evidence(kind="chat", request=request, **known), (purpose,)))

    async def _material(self, case: AnyCase, model: AnyModel, seed: int = 0) -> Material | None:
        """The pictures that judges will see, or None when there is nothing to judge; either way it is recorded."""
        inputs = [self.dataset.path(picture) for picture in case.request.pictures]
        targets = [self.dataset.path(picture) for picture in case.targets if self.judging.shows_targets]
        outputs = await self.gallery.gather(case, model, (*inputs, *targets), seed)
        if outputs is None:
            return None
        unreadable = [s for s in map(self.gallery.picture, (*inputs, *targets)) if isinstance(s, Failure)]
        if unreadable:
            await self._record_unsendable(case, model.name, seed, unreadable[0])
            return None
        return Material(
            inputs=tuple(self._ready(p) for p in inputs),
            outputs=tuple(self._ready(p) for p in outputs),
            targets=tuple(self._ready(p) for p in targets),
        )

    async def _record_unsendable(self, case: AnyCase, model: str, seed: int, failure: Failure) -> None:
        """A case whose own pictures cannot be read is a failure of every judge on it, and costs nothing."""
        for judge in self.judges:
            act = Evidence(kind="chat", request={"unsendable": case.id, "judge": judge.name}, failure=failure)
            purpose = Purpose(case=case.id, model=model, judge=judge.name, part="*", seed=seed)
            await self.recorder.record((act, (purpose,)))

    def _ready(self, path: Path) -> SentPicture:
        picture = self.gallery.picture(path)
        assert isinstance(picture, SentPicture)
        return picture

    async def _call(self, planned: Planned) -> None:
        """Make one call (and, at most once, ask again for a readable reply) and record it before letting go."""
        judge, purpose = planned.judge, planned.purpose
        limiter = self.transport.limiter(getattr(judge, "base_url", judge.name))
        async with limiter.place():
            self.progress.in_flight = self.transport.in_flight
            if self.stopped == "error":  # another call has found that none can succeed
                return
            try:
                evidence = planned.unread or await judge.ask(planned.request, planned.pictures, planned.number)
            except RefBenchError:
                self.stopped = "error"
                raise
            if not hasattr(judge, "base_url"):  # the transport has not seen this call
                limiter.answered()
            purposes = (purpose, *self._sharing.pop(planned.act))
            if planned.unread is None:
                await self._settle(evidence, purposes)
            again = self.repair(self._cases[purpose.case], purpose, evidence, planned.request) if self.repair else None
            if again is not None:
                act = content_key({"kind": "chat", **judge.canonical(again, planned.number)})
                second = tuple(p.model_copy(update={"part": f"{p.part}+repair"}) for p in purposes)
                if not self.recorder.writer.succeeded(act):
                    await self._settle(await judge.ask(again, planned.pictures, planned.number), second)
        self.progress.done += 1

    async def _settle(self, evidence: Evidence, purposes: tuple[Purpose, ...]) -> None:
        self.budget.pay(evidence.cost_usd)
        self.progress.spent_usd = self.budget.spent
        if evidence.failure is not None:
            self.progress.failed[evidence.failure.kind] += 1
        await self.recorder.record((evidence, purposes))


def _purpose(case: AnyCase, model: str, seed: int, judge: VLM, repeat: int, item: Asked) -> Purpose:
    return Purpose(
        case=case.id,
        model=model,
        judge=judge.name,
        part=item.part,
        seed=seed,
        repeat=repeat,
        protocol=item.protocol,
    )


class _Open:
    """Calls that are open at once, so that a long run is not planned into memory all at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._changed = asyncio.Condition()

    async def open(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._count < self._most)
            self._count += count

    async def close(self, count: int) -> None:
        async with self._changed:
            self._count -= count
            self._changed.notify_all()


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one thing to tell the user when several calls failed for the same reason."""
    for error in errors.exceptions:
        inner = first_error(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(inner, RefBenchError):
            return inner
    first = errors.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first
