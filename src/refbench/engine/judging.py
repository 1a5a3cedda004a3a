"""Judging: for each case, every model's output goes to every judge; what is recorded already is not asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import NamedTuple

from refbench.benchmarks import Benchmark
from refbench.benchmarks.kit.definition import Asked, Material
from refbench.calls.pool import WithdrawnError
from refbench.calls.prices import Budget, BudgetSpentError, Reservation
from refbench.calls.transport import UNSENT, Transport
from refbench.case import AnyCase
from refbench.chat.pictures import SentPicture
from refbench.chat.vlm import VLM, ChatRequest, Pictures
from refbench.engine.breaker import Breaker
from refbench.engine.generating import RunPictures, ahead
from refbench.engine.progress import Progress
from refbench.engine.setup import OnRecord, Setup
from refbench.evidence import PEOPLE, Evidence, Purpose
from refbench.failure import TRANSIENT, Failure
from refbench.judges.prompts import repair_request
from refbench.models import AnyModel
from refbench.output import content_of
from refbench.record import RefBenchError, canonical_json, content_key
from refbench.runs import Run
from refbench.runs.ledger import ANSWERED, Recorder
from refbench.tables.scorer import whole_parts

_MOST_REPEATS = 1000
_MOST_ASKED = 2
"""How often a judge is asked for one reply at the most: once more where it could not be read."""
_AHEAD = 8
"""Cases whose pictures are prepared before they are asked about."""

Repair = Callable[[AnyCase, Purpose, Evidence, ChatRequest], ChatRequest | None]
"""The one further request for a reply that could not be read; None when it could."""


class Ask(NamedTuple):
    """What is to be asked about a case: by all judges and in all parts, or by some and in some."""

    case: AnyCase
    parts: frozenset[str] | None = None
    judges: frozenset[str] | None = None

    def wants(self, part: str) -> bool:
        """Whether a request for this part (`IF`, or `IF/2` of several) is to be made."""
        return self.parts is None or part.partition("/")[0] in self.parts


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
    instead: str = ""
    """The act on record that the new reply is to retire, where it is asked for once more."""


@dataclass(kw_only=True)
class ScoringRun:
    """What judging and measuring share. `stopped` says why it ended early, "" if it did not."""

    setup: Setup
    recorder: Recorder
    pictures: RunPictures
    on_record: OnRecord
    progress: Progress = field(default_factory=Progress)
    stopped: str = ""

    def is_settled(self, act: str, purpose: Purpose) -> bool:
        """Whether an act is on record, done or failed in a way that does not pass; it then serves the purpose too."""
        failed = self.recorder.writer.failed(act)
        settled = self.recorder.writer.succeeded(act) or (failed is not None and failed not in TRANSIENT)
        if settled:
            self.recorder.link(act, purpose)
        return settled


@dataclass(kw_only=True)
class JudgingRun(ScoringRun):
    """The judging of one run."""

    run: Run
    transport: Transport
    budget: Budget
    breaker: Breaker = field(default_factory=lambda: Breaker(0))
    repair: Repair | None = None
    failed_replies: frozenset[str] = frozenset()
    """Acts whose replies a reader takes for a failure that is to be tried again."""
    _retried: set[str] = field(default_factory=set)
    _states: dict[str, frozenset[str]] = field(default_factory=dict)
    _cases: dict[str, AnyCase] = field(default_factory=dict)
    _unread: dict[str, Evidence] = field(default_factory=dict)
    _counted: set[str] = field(default_factory=set)
    """Acts that progress counts: equal requests are one call."""
    sharing: dict[str, list[Purpose]] = field(default_factory=dict)
    """Acts on their way, with the other purposes that wait for the same reply."""

    async def judge(self, asks: Sequence[Ask]) -> None:
        """Judge what is to be asked in its order, many at a time, all models on a case before the next."""
        self._cases = {ask.case.id: ask.case for ask in asks}
        self._unread = self._unrepaired() if self.repair else {}
        # A few more than can be in flight: enough to keep every place taken, few enough to have their pictures at hand.
        calls = _Open((self.transport.concurrency + _AHEAD) * len(self.setup.judges))

        async def one(planned: Sequence[Planned], held: Reservation) -> None:
            try:
                async with held, asyncio.TaskGroup() as group:
                    for call in planned:
                        group.create_task(self._call(call))
            finally:
                await calls.close(len(planned))

        # The pictures of the next few cases are opened and hashed ahead.
        plans = ahead(asks, self.plan, _AHEAD, finish=lambda: self.stopped == "interrupt")
        try:
            async with aclosing(plans), asyncio.TaskGroup() as group:
                async for planned in plans:
                    if self.stopped or self.given_up():
                        break
                    try:
                        held = await self.budget.reserve(sum(call.worst_usd for call in planned))
                    except BudgetSpentError:
                        self.stopped = "budget"
                        break
                    if planned:
                        await calls.open(len(planned))
                        group.create_task(one(planned, held))
        except BaseExceptionGroup as errors:
            raise first_error(errors) from None
        if self.budget.short is not None:  # for a case, or for another try of a call
            self.stopped = self.stopped or "budget"
        if self.given_up():
            self.stopped = self.stopped or "failures"

    def given_up(self) -> bool:
        """Whether no judge is asked anything more."""
        return self.breaker.all_of(judge.name for judge in self.setup.judges)

    async def rehearse(self) -> None:
        """Check on a few outputs, one for each judge and part, that what is asked now is what is on record. Refuses
        prompts, parameters and models that changed, before anything is paid for."""
        names = {judge.name for judge in self.setup.judges}
        for case, model, seed in self.on_record.examples(self.setup.dataset, self.setup.models, names):
            for item, output, _ in await self._asked(case, model, seed):
                for judge in self.setup.judges if item.settled is None else ():
                    if not item.families(judge.family):
                        continue
                    purpose = purpose_of(case, model.name, seed, judge, 0, item, output)
                    self.on_record.known_as(purpose, judge.canonical(item.request, item.draw * _MOST_REPEATS))

    def _unrepaired(self) -> dict[str, Evidence]:
        """Replies on record that could not be read and were not asked for again: their run was stopped in between."""
        assert self.repair is not None
        nothing = ChatRequest(parts=())
        unread: dict[str, Evidence] = {}
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
                unread[evidence.id], places[evidence.id] = evidence, place
        return {act: evidence for act, evidence in unread.items() if places[act] not in repaired}

    async def plan(self, ask: Ask) -> list[Planned]:
        """The calls that a case still needs, over all models, judges and repeats."""
        calls: list[Planned] = []
        case = ask.case
        judges = [judge for judge in self.setup.judges if ask.judges is None or judge.name in ask.judges]
        for model, seed in self.setup.models_and_seeds():
            asked = [one for one in await self._asked(case, model, seed) if ask.wants(one[0].part)]
            for judge in judges:
                for repeat in range(self.setup.repeats_of(model)):
                    for item, output, material in asked:
                        if not item.families(judge.family):
                            continue
                        purpose = purpose_of(case, model.name, seed, judge, repeat, item, output)
                        if item.settled is not None:
                            await self._record_settled(purpose, item, material)
                            continue
                        planned = await self._planned(purpose, judge, item, pictures_of(material))
                        if planned is not None:
                            calls.append(planned)
            self.progress.laid_out += 1
        return calls

    async def _asked(self, case: AnyCase, model: AnyModel, seed: int) -> list[tuple[Asked, str, Material]]:
        """What is asked of an output, with its content and what is shown; nothing where there is none to judge."""
        material = await self._material(case, model, seed)
        if material is None:
            return []
        output = content_of(picture.original.sha256 for picture in material.outputs)
        if self.setup.judging.compose is not None:
            material = await asyncio.to_thread(self.setup.judging.compose, case, material, self.pictures.store)
        return [(item, output, material) for item in self.setup.judging.ask(case, material)]

    async def _planned(self, purpose: Purpose, judge: VLM, item: Asked, pictures: Pictures) -> Planned | None:
        number = purpose.repeat + item.draw * _MOST_REPEATS
        act = self.on_record.known_as(purpose, judge.canonical(item.request, number))
        first = act not in self._counted
        self._counted.add(act)
        unread = self._unread.pop(act, None)
        if unread is not None:
            self.progress.expected += 1
            self.sharing[act] = []
            worst = judge.worst_cost(item.request, pictures) or 0.0
            return Planned(purpose, judge, item.request, pictures, act, number, worst, unread)
        failed = self.recorder.writer.failed(act)
        again = act not in self._retried and (act in self.failed_replies or failed in self.setup.options.retry)
        if not again and self.is_settled(act, purpose):
            self.progress.expected += first
            self.progress.known += first
            return None
        if act in self.sharing:  # the same request is on its way for another purpose
            self.sharing[act].append(purpose)
            return None
        self.progress.expected += 1
        self.sharing[act] = []
        worst = judge.worst_cost(item.request, pictures) or 0.0
        most = _MOST_ASKED * worst if self.repair else worst
        if again:
            self._retried.add(act)
        return Planned(purpose, judge, item.request, pictures, act, number, most, instead=act if again else "")

    async def _record_settled(self, purpose: Purpose, item: Asked, material: Material) -> None:
        """What the benchmark knows without a judge is evidence like any other, and costs nothing."""
        request = {
            "settled": item.part,
            "protocol": item.protocol,
            "case": purpose.case,
            "draw": item.draw,
            "outputs": [picture.original.sha256 for picture in material.outputs],
        }
        known = {"failure": item.settled} if isinstance(item.settled, Failure) else {"reply": item.settled}
        self.progress.expected += 1
        self.progress.known += 1
        await self.recorder.record((Evidence(kind="chat", request=request, **known), (purpose,)))

    async def _material(self, case: AnyCase, model: AnyModel, seed: int = 0) -> Material | None:
        """The pictures that judges will see, or None when there is nothing to judge; either way it is recorded."""
        golden = case.targets if self.setup.judging.shows_targets else ()
        paths = await self.pictures.gather(case, model, (*case.request.pictures, *golden), seed)
        if paths is None:
            return None
        opened, place = self.pictures.inputs, self.setup.dataset.path
        inputs, targets = ([opened[place(one)] for one in pictures] for pictures in (case.request.pictures, golden))
        unreadable = [picture for picture in (*inputs, *targets) if isinstance(picture, Failure)]
        if unreadable:
            # A case whose own pictures cannot be read is a failure of every judge on it, and costs nothing.
            for judge in self.setup.judges:
                request = {"unsendable": case.id, "judge": judge.name}
                purpose = Purpose(case=case.id, model=model.name, judge=judge.name, part="*", seed=seed)
                await self.recorder.record((Evidence(kind="chat", request=request, failure=unreadable[0]), (purpose,)))
            return None
        outputs = [self.pictures.outputs[path] for path in paths]
        return Material(_sent(inputs), _sent(outputs), _sent(targets), model=model.name)

    async def _call(self, planned: Planned) -> None:
        """Make one call (and, at most once, ask again for a readable reply) and record it before letting go."""
        judge, purpose = planned.judge, planned.purpose
        limiter = self.transport.limiter(judge.endpoint or judge.name)
        async with limiter.place():
            # None can succeed, or none shall be begun.
            if self.stopped in ("error", "interrupt") or judge.name in self.breaker.stopped:
                return
            try:
                with self.progress.call():
                    evidence = planned.unread or await judge.ask(planned.request, planned.pictures, planned.number)
            except WithdrawnError:
                return
            except RefBenchError:
                self.stopped = "error"
                raise
            if evidence.failure is not None and evidence.failure.detail == UNSENT:
                return
            if self.stopped != "interrupt":
                self.breaker.note(judge.name, evidence.failure)
            self.note_state(judge)
            if judge.endpoint is None:  # the transport has not seen this call
                limiter.answered()
            purposes = (purpose, *self.sharing[planned.act])
            if planned.unread is None:
                await self.settle(evidence, purposes, instead=planned.instead)
            # Until it is on record the call is still on its way: who needed it meanwhile does not pay for it again.
            for late in self.sharing.pop(planned.act)[len(purposes) - 1 :]:
                self.recorder.link(evidence.id, late)
                purposes = (*purposes, late)
            repair = self.repair if self.stopped != "interrupt" else None  # the next run makes up for it
            again = repair(self._cases[purpose.case], purpose, evidence, planned.request) if repair else None
            if again is not None:
                act = content_key({"kind": "chat", **judge.canonical(again, planned.number)})
                second = tuple(p.model_copy(update={"part": f"{p.part}+repair"}) for p in purposes)
                if not self.recorder.writer.succeeded(act):
                    self.progress.asked_again += 1
                    with self.progress.call():
                        repaired = await judge.ask(again, planned.pictures, planned.number)
                    await self.settle(repaired, second)
        self.progress.done += 1

    def note_state(self, judge: VLM) -> None:
        """Write down what a judge's server calls the states that it answered in, as soon as there is a new one."""
        for state in judge.system_fingerprints - self._states.get(judge.name, frozenset()):
            said = canonical_json({"judge": judge.name, "state": state}).decode()
            self.recorder.writer.note(f"{ANSWERED}{said}", "")
        self._states[judge.name] = frozenset(judge.system_fingerprints)

    async def settle(self, evidence: Evidence, purposes: tuple[Purpose, ...], *, instead: str = "") -> None:
        self.budget.pay(evidence.charged_usd)
        self.progress.spent_usd = self.budget.spent
        if evidence.failure is not None:
            first = purposes[0]
            self.progress.fail(f"{first.case} by {first.model}, judged by {first.judge}", evidence.failure)
        try:
            await self.recorder.record((evidence, purposes), instead=instead)
        except RefBenchError:
            self.stopped = "error"  # whoever gets this call's place must not begin another
            raise


def repairer(bench: Benchmark) -> Repair:
    """Ask once more, quoting the reply, when the corrected reader could not read all of it."""
    reader = bench.scoring.protocols["corrected"].read

    def repair(case: AnyCase, purpose: Purpose, evidence: Evidence, request: ChatRequest) -> ChatRequest | None:
        if evidence.reply is None or purpose.protocol == "paper" or "/" in purpose.part or PEOPLE in evidence.request:
            return None
        failures = [score.failure for score in reader(case, purpose, evidence) if score.failure is not None]
        if not any(failure.kind == "unparsable" for failure in failures):
            return None
        return repair_request(request, evidence.reply, "The form is the one that was described above.")

    return repair


def replies_read_as(kinds: Sequence[str], setup: Setup, run: Run) -> frozenset[str]:
    """Acts whose replies a reader of some protocol takes for such a failure: a refusal in words is a reply."""
    by_id, bench = setup.dataset.by_id(), setup.bench
    acts: dict[Purpose, list[str]] = {}

    def noted() -> Iterator[tuple[Purpose, Evidence]]:
        for purpose, evidence in run.evidence():
            if PEOPLE in evidence.request:  # nobody is asked again for them here
                continue
            if evidence.kind == "chat" and evidence.reply is not None and "+" not in purpose.part:
                whole = purpose.model_copy(update={"part": purpose.part.partition("/")[0]})
                acts.setdefault(whole, []).append(evidence.id)
                yield purpose, evidence

    failed: set[str] = set()
    for purpose, evidence in whole_parts(noted()):
        if purpose.case not in by_id:
            continue
        for name, protocol in bench.scoring.protocols.items():
            if purpose.protocol in ("", name):
                read = protocol.read(by_id[purpose.case], purpose, evidence)
                if any(score.failure is not None and score.failure.kind in kinds for score in read):
                    failed.update(acts[purpose])
    return frozenset(failed)


def nothing_to_retry(kinds: Sequence[str], setup: Setup, run: Run) -> tuple[str, ...]:
    """Sentences about kinds that are to be tried again, of which there is nothing on record."""
    if not kinds:
        return ()
    there = {output.failure.kind for output in run.outputs() if output.failure is not None}
    there |= {act.failure.kind for _, act in run.evidence() if act.failure is not None}
    empty = [kind for kind in kinds if kind not in there and not replies_read_as([kind], setup, run)]
    return tuple(
        f"--retry {kind}: nothing in {run.path} failed so, and nothing is asked again for it" for kind in empty
    )


def pictures_of(material: Material) -> Pictures:
    made = _sent([*material.composed.values()])
    return {p.sha256: p for p in (*material.inputs, *material.outputs, *material.targets, *made)}


def _sent(pictures: Sequence[SentPicture | Failure]) -> tuple[SentPicture, ...]:
    return tuple(picture for picture in pictures if isinstance(picture, SentPicture))


def purpose_of(case: AnyCase, model: str, seed: int, judge: VLM, repeat: int, item: Asked, output: str) -> Purpose:
    return Purpose(
        case=case.id,
        model=model,
        judge=judge.name,
        part=item.part,
        seed=seed,
        repeat=repeat,
        protocol=item.protocol,
        output=output,
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
