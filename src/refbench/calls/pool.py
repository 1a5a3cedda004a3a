"""Worker threads that serve one place each (a worker process, loaded weights, a user's function) from one queue.

A batch is taken as soon as it is full, or 50 ms after its first request.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

_BATCH_WAIT_S = 0.05
_END_S = 15.0  # for threads to end what they hold


class LateError(Exception):
    """No result in time. The thread that works on it has been left behind."""


class WithdrawnError(Exception):
    """The request was taken back before anybody had begun with it: nothing is begun any more."""


stopping: ContextVar[asyncio.Event | None] = ContextVar("stopping", default=None)
"""Set when a run begins nothing more; what waits in a queue is then taken back."""


@dataclass(eq=False)
class Job(Generic[R, T]):
    """A request on its way. The futures belong to no event loop, so a pool may serve several, one after another."""

    request: R
    started: Future[_Thread[R, T]] = field(default_factory=Future)
    result: Future[T] = field(default_factory=Future)
    abandoned: threading.Event = field(default_factory=threading.Event)
    """Nobody waits for it any more."""
    stop: asyncio.Event | None = None
    """Set when nothing more is to be begun."""
    withdrawn: bool = False


class _Opening(Job[Any, Any]):
    """No request: a place is only to be opened."""


@dataclass(eq=False)
class _Thread(Generic[R, T]):
    thread: threading.Thread | None = None
    left: bool = False
    """Its call did not come back in time: another thread has its place now."""
    busy: list[Job[R, T]] = field(default_factory=list)


class Pool(Generic[P, R, T]):
    """Runs `work(place, jobs)` in one thread a place, up to `batch` jobs at a time; starts on first use."""

    def __init__(
        self,
        places: Sequence[P],
        work: Callable[[P, list[Job[R, T]]], list[T]],
        *,
        begin: Callable[[P, Callable[[], bool]], Any] = lambda place, gone: None,
        end: Callable[[P], Any] = lambda place: None,
        batch: int = 1,
        patience: float | None = _END_S,
    ) -> None:
        self._places = list(places)
        self._work = work
        self._begin = begin
        self._end = end
        self._batch = batch
        self._patience = patience
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Job[R, T] | None] = queue.SimpleQueue()
        self._threads: dict[int, _Thread[R, T]] = {}

    async def open(self) -> None:
        """Open one place before there is a request, in its thread: `begin(place, gone)`, whose error is raised here."""
        await self._ask(_Opening(None), None)

    async def ask(self, request: R, timeout: float | None = None) -> T:
        """What comes of a request. `timeout` is for work that cannot stop itself: its thread is left to its fate."""
        stop = stopping.get()
        if stop is None:
            return await self._ask(Job(request), timeout)
        job = Job[R, T](request, stop=stop)
        try:
            return await self._ask(job, timeout)
        except asyncio.CancelledError:
            if job.withdrawn:
                raise WithdrawnError from None
            raise

    async def _ask(self, job: Job[R, T], timeout: float | None) -> T:
        with self._lock:
            for number in range(len(self._places)):
                if number not in self._threads:
                    self._start(number)
            self._queue.put(job)
        try:
            if timeout is None:
                return await asyncio.wrap_future(job.result)
            thread = await asyncio.wrap_future(job.started)
            done, _ = await asyncio.wait([waiting := asyncio.wrap_future(job.result)], timeout=timeout)
            if not done:
                self._leave(thread)
                raise LateError(f"nothing came within {timeout:g} s")
            return waiting.result()
        finally:
            if not job.result.done():
                job.abandoned.set()

    async def close(self) -> None:
        """End every thread and what it holds; a later request starts them again."""
        with self._lock:
            ending, self._threads = list(self._threads.values()), {}
            waiting, self._queue = self._queue, queue.SimpleQueue()
        for thread in ending:
            for job in thread.busy:
                job.abandoned.set()
            waiting.put(None)
        await asyncio.to_thread(_join, [one.thread for one in ending if one.thread is not None], self._patience)

    def _start(self, number: int) -> None:
        started = self._threads[number] = _Thread[R, T]()
        # A daemon, since a call that hangs must not keep the interpreter from ending.
        started.thread = threading.Thread(target=self._serve, args=(number, started, self._queue), daemon=True)
        started.thread.start()

    def _leave(self, thread: _Thread[R, T]) -> None:
        with self._lock:
            for number, current in list(self._threads.items()):
                if current is thread:
                    thread.left = True
                    self._start(number)

    def _serve(self, number: int, thread: _Thread[R, T], waiting: queue.SimpleQueue[Job[R, T] | None]) -> None:
        place = self._places[number]
        while (first := waiting.get()) is not None:
            thread.busy = self._batch_from(first, waiting, thread)
            if thread.busy:
                self._answer(place, thread)
            if thread.left:
                return
        self._end(place)

    def _batch_from(
        self, first: Job[R, T], waiting: queue.SimpleQueue[Job[R, T] | None], thread: _Thread[R, T]
    ) -> list[Job[R, T]]:
        jobs, until = [first], time.monotonic() + _BATCH_WAIT_S
        while len(jobs) < self._batch and not isinstance(first, _Opening):
            try:
                more = waiting.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if more is None:  # meant for a thread that has nothing to do
                waiting.put(None)
                break
            jobs.append(more)
        return [
            job
            for job in jobs
            if not job.abandoned.is_set() and job.result.set_running_or_notify_cancel() and _begin(job, thread)
        ]

    def _answer(self, place: P, thread: _Thread[R, T]) -> None:
        try:
            if isinstance(opening := thread.busy[0], _Opening):
                opening.result.set_result(self._begin(place, opening.abandoned.is_set))
                thread.busy = []
                return
            for job, result in zip(thread.busy, self._work(place, thread.busy), strict=True):
                job.result.set_result(result)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits, above all RefBenchError
            for job in thread.busy:
                if not job.result.done():
                    job.result.set_exception(error)
        thread.busy = []


def _begin(job: Job[R, T], thread: _Thread[R, T]) -> bool:
    if job.stop is not None and job.stop.is_set():
        job.withdrawn = job.started.cancel()
    if job.started.set_running_or_notify_cancel():
        job.started.set_result(thread)
        return True
    job.result.set_exception(asyncio.CancelledError())
    return False


def _join(threads: Sequence[threading.Thread], patience: float | None) -> None:
    until = None if patience is None else time.monotonic() + patience
    for thread in threads:
        thread.join(None if until is None else max(0.0, until - time.monotonic()))
