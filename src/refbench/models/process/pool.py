"""Lanes: threads that each serve one place (a worker process, or this one) and take requests from one queue."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from refbench.failure import Failure
from refbench.models.model import Commission, Painted

P = TypeVar("P")

_LINGER_S = 0.05  # how long a batch waits for its next request
_END_S = 15.0  # for lanes to end what they hold


@dataclass(eq=False)
class Asked:
    """A request on its way. The futures are of no event loop, so a model may serve several after another."""

    commission: Commission
    seed: int
    started: Future[_Lane] = field(default_factory=Future)
    done: Future[Painted] = field(default_factory=Future)
    gone: threading.Event = field(default_factory=threading.Event)
    """Nobody waits for it any more."""


@dataclass(eq=False)
class _Lane:
    thread: threading.Thread | None = None
    left: bool = False
    """Its call did not come back in time: another thread has its place now."""
    busy: list[Asked] = field(default_factory=list)


class Lanes(Generic[P]):
    """Runs `work(place, requests)` in one thread a place, up to `batch` requests at a time; starts on first use."""

    def __init__(
        self,
        places: Sequence[P],
        work: Callable[[P, list[Asked]], list[Painted]],
        *,
        end: Callable[[P], None] = lambda place: None,
        batch: int = 1,
        patience: float = _END_S,
    ) -> None:
        self._places = list(places)
        self._work = work
        self._end = end
        self._batch = batch
        self._patience = patience
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._lanes: dict[int, _Lane] = {}

    async def ask(self, commission: Commission, seed: int, timeout: float | None = None) -> Painted:
        """What comes of a request. `timeout` is for work that cannot stop itself: its thread is left to its fate."""
        asked = Asked(commission, seed)
        with self._lock:
            for number in range(len(self._places)):
                if number not in self._lanes:
                    self._open(number)
            self._queue.put(asked)
        try:
            if timeout is None:
                return await asyncio.wrap_future(asked.done)
            lane = await asyncio.wrap_future(asked.started)
            try:
                return await asyncio.wait_for(asyncio.wrap_future(asked.done), timeout)
            except TimeoutError:
                self._leave(lane)
                return Painted(failure=Failure(kind="timeout", detail=f"no picture within {timeout:g} s"))
        finally:
            if not asked.done.done():
                asked.gone.set()

    async def close(self) -> None:
        """End every lane and what it holds; a later request opens them again."""
        with self._lock:
            lanes, self._lanes = list(self._lanes.values()), {}
            waiting, self._queue = self._queue, queue.SimpleQueue()
        for lane in lanes:
            for asked in lane.busy:
                asked.gone.set()
            waiting.put(None)
        threads = [lane.thread for lane in lanes if lane.thread is not None]
        await asyncio.to_thread(_join, threads, self._patience)

    def _open(self, number: int) -> None:
        lane = self._lanes[number] = _Lane()
        # A daemon, since a call that hangs must not keep the interpreter from ending.
        lane.thread = threading.Thread(target=self._serve, args=(number, lane, self._queue), daemon=True)
        lane.thread.start()

    def _leave(self, lane: _Lane) -> None:
        with self._lock:
            for number, current in list(self._lanes.items()):
                if current is lane:
                    lane.left = True
                    self._open(number)

    def _serve(self, number: int, lane: _Lane, waiting: queue.SimpleQueue[Asked | None]) -> None:
        place = self._places[number]
        while (first := waiting.get()) is not None:
            lane.busy = self._gather(first, waiting, lane)
            if lane.busy:
                self._answer(place, lane)
            if lane.left:
                return
        self._end(place)

    def _gather(self, first: Asked, waiting: queue.SimpleQueue[Asked | None], lane: _Lane) -> list[Asked]:
        found, until = [first], time.monotonic() + _LINGER_S
        while len(found) < self._batch:
            try:
                more = waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if more is None:  # meant for a lane that has nothing to do
                waiting.put(None)
                break
            found.append(more)
        return [
            asked
            for asked in found
            if not asked.gone.is_set() and asked.done.set_running_or_notify_cancel() and _begin(asked, lane)
        ]

    def _answer(self, place: P, lane: _Lane) -> None:
        try:
            for asked, painted in zip(lane.busy, self._work(place, lane.busy), strict=True):
                asked.done.set_result(painted)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits, above all RefBenchError
            for asked in lane.busy:
                if not asked.done.done():
                    asked.done.set_exception(error)
        lane.busy = []


def _begin(asked: Asked, lane: _Lane) -> bool:
    if asked.started.set_running_or_notify_cancel():
        asked.started.set_result(lane)
        return True
    asked.done.set_exception(asyncio.CancelledError())
    return False


def _join(threads: Sequence[threading.Thread], patience: float) -> None:
    until = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
