"""EmbeddedExecutor: tasks on this machine, in threads, or in processes where a native crash must not end the run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from refbench.engine.executor import conduct
from refbench.engine.task import Outcome, Row, Rows, Task
from refbench.engine.workers import Worker, worker_of
from refbench.failure import Failure
from refbench.machine import cores
from refbench.record import RefBenchError


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
