"""Ctrl-C, a notebook's stop button: the first ends a run once what is in flight is in, the second at once. A
scheduler's signals end it as the first does, however often they come."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from refbench.machine import MAKE_ROOM

ResultT = TypeVar("ResultT")


@dataclass
class _Stops:
    """How another thread stops a run: nothing is to be finished before the run has said what."""

    loop: asyncio.AbstractEventLoop | None = None
    stop: Callable[[], None] = lambda: None

    def __call__(self) -> None:
        if self.loop is not None:
            self.loop.call_soon_threadsafe(self.stop)


_stops: ContextVar[_Stops | None] = ContextVar("stops", default=None)


@dataclass
class Interrupts:
    """How often a run was interrupted, and whether a scheduler did it first."""

    count: int = 0
    by_scheduler: bool = False

    def why(self, stopped: str) -> str:
        """Why the run ended, for those who are told `stopped`."""
        return "terminated" if self.by_scheduler and stopped == "interrupt" else stopped


@contextlib.asynccontextmanager
async def interruptible(first: Callable[[], str]) -> AsyncIterator[Interrupts]:
    """The first interrupt calls `first`, which begins nothing new from then on and says what is in flight; the second
    ends at once. Inside `in_own_thread` interrupts come from the thread that waits, elsewhere from the system.

    Schedulers send their signals more than once, and at last one that nobody withstands: theirs never end at once,
    which would throw away what is in flight and paid for.
    """
    loop, task, other = asyncio.get_running_loop(), asyncio.current_task(), _stops.get()
    assert task is not None
    interrupts = Interrupts()

    def begin_nothing_more(to_stop_now: str) -> None:
        said = f"stopping, {first()} in flight; {to_stop_now}"
        print(f"\nrefbench: {said}", file=sys.stderr, flush=True)

    def stop() -> None:
        interrupts.count += 1
        if interrupts.count == 1:
            begin_nothing_more("press Ctrl-C again to stop now")
        elif interrupts.count == 2:
            task.cancel()

    def make_room(name: str) -> None:
        if not interrupts.count:
            interrupts.count, interrupts.by_scheduler = 1, True
            begin_nothing_more(f"asked to end by {name}")

    with contextlib.ExitStack() as handled:
        if threading.current_thread() is threading.main_thread():
            handled.enter_context(_handling(loop, signal.SIGINT, stop))
            for number in MAKE_ROOM:
                handled.enter_context(_handling(loop, number, partial(make_room, number.name)))
        if other is not None:
            other.stop = stop
        try:
            yield interrupts
        except asyncio.CancelledError:
            if interrupts.count > 1:
                raise KeyboardInterrupt from None
            raise


@contextlib.contextmanager
def _handling(loop: asyncio.AbstractEventLoop, number: signal.Signals, call: Callable[[], None]) -> Iterator[None]:
    before = signal.getsignal(number)
    loop.add_signal_handler(number, call)
    try:
        yield
    finally:
        loop.remove_signal_handler(number)
        signal.signal(number, before)


def in_own_thread(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine that runs on a loop of its own, also where there is one already.

    An interrupt reaches the thread that waits here. It ends the work as it ends a command, and then raises
    KeyboardInterrupt as anywhere in Python: what was recorded is safe, and the same call goes on.
    """
    stops = _Stops()

    async def worked() -> ResultT:
        stops.loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stops.stop = lambda: (task.cancel(), None)[1]  # until there is something to finish
        _stops.set(stops)
        return await work

    own = ThreadPoolExecutor(1, thread_name_prefix="refbench-evaluate")
    try:
        future = own.submit(asyncio.run, worked())
        try:
            return future.result()
        except KeyboardInterrupt:
            _ended(future, stops)
            raise
    finally:
        own.shutdown(wait=False)


def _ended(future: Future[Any], stops: _Stops) -> None:
    """Wait until the work has ended; each further interrupt is handed on to it."""
    while not future.done():
        stops()
        with contextlib.suppress(KeyboardInterrupt):
            future.exception()
