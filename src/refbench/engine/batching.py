"""Judging in batches: the acts of live calls at half the price, handed in today and collected when they are done.

What is handed in stands in RUN/batches.jsonl before it goes out: a kill at any moment loses and repeats nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from refbench.calls.batch import (
    HALF_PRICE,
    BatchEndpoint,
    Batches,
    BatchLimits,
    BatchResult,
    Outcome,
    batches_of,
    hand_in,
    outcome,
)
from refbench.calls.transport import CallFailedError, RetryPolicy, Transport
from refbench.chat.vlm import VLM, BatchCalls, Reply, accounted
from refbench.engine.batch_journal import BatchJournal, OpenBatch, place_of
from refbench.engine.judging import Ask, JudgingRun, Planned
from refbench.evidence import Attempt, Evidence, Purpose
from refbench.failure import Failure
from refbench.record import Record, RefBenchError

_TIMEOUT = 1800.0  # seconds for 200 MB on a slow line
_PATIENCE = 60  # rounds of polling that may fail on end before the command gives up; the batches go on without it
_TOGETHER = 500  # results recorded in one go, so that they share a flush of the ledger


class BatchReport(Record):
    """What a command did and what it left with the providers, in requests."""

    submitted: int
    recorded: int
    outstanding: int
    batches: int
    run: str

    def __str__(self) -> str:
        done = f"{self.submitted} requests handed in, {self.recorded} results recorded"
        left = f"{self.outstanding} outstanding in {self.batches} batches"
        later = f"run the same command (--out {self.run}) with --batch again to collect them"
        return f"{done}, {left}: {later}" if self.outstanding else done


@dataclass
class _Window:
    """One judge, its provider's batch API, and the calls that wait for the next batch."""

    judge: VLM
    calls: BatchCalls
    batches: Batches
    limits: BatchLimits
    waiting: list[Planned] = field(default_factory=list)
    size: int = 0
    """About how many bytes wait; what goes into a batch is measured when it is assembled."""

    def add(self, call: Planned) -> None:
        self.waiting.append(call)
        self.size += _size(call)

    @property
    def full(self) -> bool:
        return len(self.waiting) >= self.limits.requests or self.size >= self.limits.size

    def fill(self) -> tuple[dict[str, bytes], list[Planned], list[tuple[Planned, Failure]]]:
        """The lines of the next batch by act, their calls, and the calls whose pictures have vanished meanwhile."""
        lines: dict[str, bytes] = {}
        lost: list[tuple[Planned, Failure]] = []
        room, calls = self.limits.size, self.waiting[: self.limits.requests]
        for number, call in enumerate(calls):
            try:
                body = self.calls.body(call.request, call.pictures)
            except OSError as error:
                lost.append((call, Failure(kind="unreadable_picture", detail=str(error))))
                continue
            line = self.batches.line(call.act, body)
            room -= len(line) + 1
            if room < 0 and lines:
                del calls[number:]
                break
            lines[call.act] = line
        del self.waiting[: len(calls)]
        self.size -= sum(map(_size, calls))
        return lines, [call for call in calls if call.act in lines], lost


async def judge_in_batches(
    work: JudgingRun,
    asks: Sequence[Ask],
    *,
    poll_seconds: float = 30.0,
    wait: bool = True,
    limits: BatchLimits | None = None,
) -> BatchReport:
    """Collect what has ended, hand in what is missing, and with `wait` stay until everything is recorded.

    Running it again is resuming. `limits` is for servers that take less in a batch than OpenAI and Anthropic do.
    """
    again, never = work.transport.policy, RetryPolicy(attempts=1)
    most = work.transport.reply_megabytes
    async with (
        Transport(timeout=_TIMEOUT, policy=again, reply_megabytes=most) as patient,
        Transport(timeout=_TIMEOUT, policy=never) as once,
    ):
        work.progress.waits = patient.waits
        windows = [_window(judge, limits, patient, once) for judge in work.setup.judges]
        batching = _Batching(work, windows, BatchJournal(work.recorder.writer.path))
        try:
            await batching.judge(asks, poll_seconds, wait)
        except CallFailedError as error:
            raise RefBenchError(f"{error}: the batches are kept, run the same command again later") from None
        return BatchReport(
            submitted=batching.submitted,
            recorded=batching.recorded,
            outstanding=batching.journal.outstanding,
            batches=len(batching.journal.open),
            run=str(work.run.path),
        )


def _window(judge: VLM, limits: BatchLimits | None, patient: Transport, once: Transport) -> _Window:
    calls = judge.batches()
    if calls is None:
        raise RefBenchError(f"--batch works with OpenAI and Anthropic; {judge.name} is neither: leave --batch out")
    endpoint = BatchEndpoint(calls.base_url, calls.headers, calls.secrets, patient, once)
    batches = batches_of(calls.kind, judge.name, endpoint)
    return _Window(judge, calls, batches, limits or batches.limits)


@dataclass
class _Batching:
    """One command's work on the batches of a run."""

    work: JudgingRun
    windows: Sequence[_Window]
    journal: BatchJournal
    submitted: int = 0
    recorded: int = 0
    _next: list[Planned] = field(default_factory=list)
    """The calls of the next case, planned but not covered by the budget yet."""
    _handed_in: set[str] = field(default_factory=set)
    """The batches of this command. What earlier ones left failing stops nobody: a new command is a new try."""

    async def judge(self, asks: Sequence[Ask], poll_seconds: float, wait: bool) -> None:
        work, rest = self.work, iter(asks)
        work.budget.reserved += sum(batch.worst_usd for batch in self.journal.open.values())
        await self._find_lost()
        await self._collect()
        while True:
            short = await self._hand_in(rest)
            if not wait or work.stopped or not self._mine():
                break
            await self._until_ended(poll_seconds, one=short)
        work.stopped = work.stopped or ("failures" if work.given_up() else "budget" if short else "")

    def _mine(self) -> list[tuple[OpenBatch, _Window]]:
        """The open batches that a judge of this command can collect; others wait for a command that names theirs."""
        windows = {place_of(window.calls): window for window in self.windows}
        return [(b, windows[b.place]) for b in self.journal.open.values() if b.place in windows]

    async def _find_lost(self) -> None:
        """Batches that were about to be handed in when a command was killed: the provider knows whether they were."""
        for batch, window in [(batch, window) for batch, window in self._mine() if not batch.ids]:
            ids = await window.batches.find(batch.tag, len(batch.acts), batch.time, self.journal.known)
            if ids:
                self.journal.submitted(batch, ids)
            else:
                await self._close(batch, "never handed in")

    async def _hand_in(self, asks: Iterator[Ask]) -> bool:
        """Plan case by case and hand in what is missing, each whole; True when the budget does not cover the next."""
        windows = {window.judge.name: window for window in self.windows}
        budget, short = self.work.budget, False
        while not self.work.stopped:
            if not self._next:
                ask = None if self.work.given_up() else next(asks, None)
                if ask is None:
                    break
                self._next = await self._missing(ask)
            self._next = [call for call in self._next if call.judge.name not in self.work.breaker.stopped]
            worst = sum(map(_worst, self._next))
            # Not `reserve`: that waits for others to give back, and here nobody else would.
            short = not budget.covers(worst)
            if short:
                budget.short = worst
                break
            budget.reserved += worst
            for call in self._next:
                windows[call.judge.name].add(call)
            self._next = []
            for window in self.windows:
                while window.full:
                    await self._submit(window)
        for window in self.windows:
            while window.waiting and not self.work.stopped:
                await self._submit(window)
        return short

    async def _missing(self, ask: Ask) -> list[Planned]:
        """The calls that a case needs and that are in no open batch."""
        planned = await self.work.plan(ask)
        coming = {call.act: call.purpose for call in planned if self.journal.holds(call.act)}
        for act, purpose in coming.items():
            self.work.sharing[act].append(purpose)
        return [call for call in planned if call.act not in coming]

    async def _submit(self, window: _Window) -> None:
        work = self.work
        lines, taken, lost = await asyncio.to_thread(window.fill)
        for call, failure in lost:
            request = call.judge.canonical(call.request, call.number)
            await self._settle(Evidence(kind="chat", request=request, failure=failure), (call.purpose,))
            await work.budget.release(_worst(call))
        if not taken:
            return
        calls = [(call, (call.purpose, *work.sharing[call.act])) for call in taken]
        batch = self.journal.intend(window.judge, place_of(window.calls), calls, sum(map(_worst, taken)))
        ids = await hand_in(window.batches, batch.tag, list(lines.values()), self.journal.known)
        self.journal.submitted(batch, ids)
        self._handed_in.add(batch.tag)
        self.submitted += len(taken)
        work.progress.in_flight = self.journal.outstanding

    async def _until_ended(self, poll_seconds: float, *, one: bool) -> None:
        """Poll until all batches have ended, or one of them, which may free what the budget holds for it."""
        failed = 0
        while self._mine() and not self.work.stopped:
            until = time.monotonic() + poll_seconds
            while not self.work.stopped and (left := until - time.monotonic()) > 0:
                await asyncio.sleep(min(left, 0.5))  # an interrupt is not kept waiting
            try:
                ended, failed = await self._collect(), 0
            except CallFailedError:
                failed, ended = failed + 1, 0
                if failed == _PATIENCE:
                    raise
            if one and ended:
                return

    async def _collect(self) -> int:
        """Record the results of the batches that have ended; how many had. One that cannot be asked for now holds up no
        other."""
        ended, failed = 0, None
        for batch, window in self._mine():
            try:
                ending = await outcome(window.batches, batch.ids, time.time() - batch.time)
            except CallFailedError as error:
                failed = error
                continue
            if ending is not None:
                await self._take(batch, window, ending)
                ended += 1
        if failed is not None and not ended:
            raise failed
        return ended

    async def _take(self, batch: OpenBatch, window: _Window, ending: Outcome) -> None:
        nothing = BatchResult("", unanswered=f"no result in the batch, which is {ending.word}")
        asked, again = list(self.journal.asked(batch).items()), self.journal.again(batch)
        worst = batch.worst_usd / max(1, len(batch.acts))  # of each: the journal has it of all
        for start in range(0, len(asked), _TOGETHER):
            acts = []
            for act, (request, purposes) in asked[start : start + _TOGETHER]:
                lost = act not in ending.results and ending.charged
                evidence = _evidence(window.calls, request, ending.results.get(act, nothing), worst, lost)
                acts.append((evidence, purposes))
                if batch.tag in self._handed_in:
                    self.work.breaker.note(window.judge.name, evidence.failure)
            await asyncio.gather(*[self._settle(*act, instead=act[0].id in again) for act in acts])
        await self._close(batch, ending.word)

    async def _close(self, batch: OpenBatch, word: str) -> None:
        self.journal.ended(batch, word)
        self.work.progress.in_flight = self.journal.outstanding
        await self.work.budget.release(batch.worst_usd)

    async def _settle(self, evidence: Evidence, purposes: tuple[Purpose, ...], *, instead: bool = False) -> None:
        work = self.work
        if evidence.id in work.sharing:  # planned by this command
            purposes = (*purposes, *work.sharing.pop(evidence.id))
            work.progress.done += 1
        self.recorded += 1
        writer = work.recorder.writer
        # A kill came between recording and ending the batch.
        if writer.says(evidence) if instead else writer.succeeded(evidence.id):
            for purpose in purposes:
                work.recorder.link(evidence.id, purpose)
        else:
            await work.settle(evidence, purposes, instead=evidence.id if instead else "")


def _evidence(
    calls: BatchCalls, request: dict[str, Any], result: BatchResult, worst_usd: float, lost: bool
) -> Evidence:
    """The evidence that a live call would have given, at half the price; of a lost result the most that it can be."""
    if result.unanswered:
        reply = Reply(None, Failure(kind="api_error", detail=f"not answered: {result.unanswered}"))
    else:
        try:
            reply = calls.read(result.status, result.body)
        except RefBenchError as error:  # what would end a live run at once; here all results are in already
            reply = Reply(None, Failure(kind="api_error", detail=str(error)))
    attempt = Attempt(status=str(result.status or "unanswered"))
    return accounted(calls.evidence(request, reply, attempt, HALF_PRICE), worst_usd, int(lost))


def _worst(call: Planned) -> float:
    return HALF_PRICE * (call.judge.worst_cost(call.request, call.pictures) or 0.0)


def _size(call: Planned) -> int:
    return call.request.text_length + sum(call.pictures[p.sha256].size * 4 // 3 for p in call.request.pictures)
