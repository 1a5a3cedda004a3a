"""From rows to chunks to outcomes, the same for all executors: chunks, how many are in flight, who is to blame when a
worker dies. And EmbeddedExecutor, which runs tasks in threads or processes of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from refbench.engine.workers.task import FLUSH, Outcome, Row, Rows, Task
from refbench.engine.workers.worker import Worker, worker_of
from refbench.failure import Failure
from refbench.machine import cores
from refbench.record import RefBenchError

Attempt: TypeAlias = Callable[[list[Row]], Awaitable[list[Any] | Failure]]
"""Rows given to one worker: their values and Failures, or the one Failure of a worker that died or was too late."""


async def conduct(task: Task, rows: Rows, attempt: Attempt, in_flight: int) -> AsyncGenerator[Outcome, None]:
    """The outcomes of all rows, with never more than `in_flight` chunks pulled and not yet handed on."""
    source = chunked(rows, task.chunk, task.flush)
    busy: set[asyncio.Task[list[Outcome]]] = set()
    pulling: asyncio.Task[list[Row] | None] | None = None
    more = True
    try:
        while True:
            if more and pulling is None and len(busy) < in_flight:
                pulling = asyncio.create_task(_next(source))
            waiting = [*busy, *([pulling] if pulling else [])]
            if not waiting:
                return
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if pulling is not None and pulling.done():
                chunk, pulling = pulling.result(), None
                if chunk is None:
                    more = False
                else:
                    busy.add(asyncio.create_task(_outcomes(task, chunk, attempt)))
            for job in [job for job in busy if job.done()]:
                for outcome in job.result():
                    yield outcome
                busy.discard(job)  # only now: a slow consumer slows the pulling down
    finally:
        left = [*busy, *([pulling] if pulling else [])]
        for waiter in left:
            waiter.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await source.aclose()


async def chunked(rows: Rows, size: int, flush: float = FLUSH) -> AsyncGenerator[list[Row], None]:
    """Lists of `size` rows; of rows that trickle in, smaller ones: nobody waits for the next row longer than `flush`.

    An async generator of rows is closed with this one. A plain iterable is pulled on the loop and should not block.
    """
    if not isinstance(rows, AsyncIterable):
        plain = iter(rows)
        while chunk := list(islice(plain, size)):
            yield chunk
        return
    loop, source = asyncio.get_running_loop(), aiter(rows)
    coming: asyncio.Task[Row | None] | None = None
    chunk, due = [], 0.0
    try:
        while True:
            coming = coming or asyncio.create_task(_next(source))
            # Waiting does not cancel what it waits for: the row that is late opens the next chunk.
            await asyncio.wait([coming], timeout=max(0.0, due - loop.time()) if chunk else None)
            if coming.done():
                row, coming = coming.result(), None
                if row is None:
                    break
                due = due if chunk else loop.time() + flush
                chunk.append(row)
                if len(chunk) < size:
                    continue
            yield chunk
            chunk = []
        if chunk:
            yield chunk
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        if isinstance(source, AsyncGenerator):
            await source.aclose()


async def settled(rows: list[Row], attempt: Attempt, retries: int) -> list[Any]:
    """One value or Failure for each row, whatever happens to the workers.

    Suspects of two chunks never share a worker: that is how innocent rows get blamed. The halves of a chunk
    whose worker died run again alone, and so on down to single rows, of which only the guilty ones fail.
    """
    result = await attempt(rows)
    if not isinstance(result, Failure):
        return result
    if len(rows) > 1:
        half = len(rows) // 2
        return await settled(rows[:half], attempt, retries) + await settled(rows[half:], attempt, retries)
    # A death may be another's fault (memory that a neighbour took). A row that took too long alone had its chance.
    if result.kind == "worker_died" and retries:
        return await settled(rows, attempt, retries - 1)
    return [result]


async def _outcomes(task: Task, rows: list[Row], attempt: Attempt) -> list[Outcome]:
    values = await settled(rows, attempt, task.retries)
    return [
        Outcome(row.key, failure=value) if isinstance(value, Failure) else Outcome(row.key, value)
        for row, value in zip(rows, values, strict=True)
    ]


async def _next(source: Any) -> Any:
    """The next element, or None at the end; a task may not end with StopAsyncIteration."""
    try:
        return await anext(source)
    except StopAsyncIteration:
        return None


@dataclass(frozen=True)
class EmbeddedExecutor:
    """At most `threads` workers for a task that shares this process, `processes` for an isolated one.

    None means as many as there are cores.
    """

    threads: int | None = None
    processes: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("threads", self.threads), ("processes", self.processes)):
            if value is not None and value < 1:
                raise RefBenchError(f"{name}={value}: write a whole number from 1")

    async def run(self, task: Task, rows: Rows) -> AsyncGenerator[Outcome, None]:
        size = self.workers(task)
        crew = _Crew(task, size)
        try:
            # One chunk more than workers, so that none waits for the loop.
            async with aclosing(conduct(task, rows, crew.attempt, size + 1)) as outcomes:
                async for outcome in outcomes:
                    yield outcome
        finally:
            await crew.dismiss()

    def close(self) -> None:
        """Nothing outlives a run here."""

    def workers(self, task: Task) -> int:
        """How many workers a task gets here."""
        most = (self.processes if task.isolated else self.threads) or cores()
        return min(most, task.resources.workers or (1 if task.resources.gpus else most))


class _Crew:
    """The workers of one run, each called from a thread, so that the loop is never blocked."""

    def __init__(self, task: Task, size: int) -> None:
        self._workers: list[Worker] = [worker_of(task) for _ in range(size)]
        # The one that worked last goes first: a trickle of rows does not load the weights of all.
        self._idle: asyncio.LifoQueue[Worker] = asyncio.LifoQueue()
        for worker in self._workers:
            self._idle.put_nowait(worker)
        self._busy: dict[asyncio.Future[list[Any] | Failure], Worker] = {}
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=f"refbench-{task.name}")

    async def attempt(self, rows: list[Row]) -> list[Any] | Failure:
        worker = await self._idle.get()
        job = asyncio.get_running_loop().run_in_executor(self._threads, worker.run, rows)
        self._busy[job] = worker
        # Shielded: who is cancelled here leaves the thread at work, and `dismiss` waits for it.
        result = await asyncio.shield(job)
        del self._busy[job]
        self._idle.put_nowait(worker)
        return result

    async def dismiss(self) -> None:
        """Stop those at work, end the others; afterwards neither a thread nor a process is left."""
        loop = asyncio.get_running_loop()
        for worker in self._busy.values():
            worker.stop()
        try:
            await asyncio.gather(*self._busy, return_exceptions=True)
            await asyncio.gather(*(loop.run_in_executor(self._threads, worker.close) for worker in self._workers))
            self._threads.shutdown()
        finally:
            self._threads.shutdown(wait=False)  # cancelled while it waited: the threads end by themselves
