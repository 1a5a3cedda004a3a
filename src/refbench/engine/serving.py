"""A task that is asked row by row, by anybody on the loop: what models and judges on an executor are called through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from refbench.engine.task import Executor, Outcome, Row, Task


class Service:
    """One run of a task that lasts until it is closed. Starts with the first row; rows have keys of their own."""

    def __init__(self, executor: Executor, task: Task) -> None:
        self._executor = executor
        self._task = task
        self._rows: asyncio.Queue[Row] = asyncio.Queue()
        self._asked: dict[str, asyncio.Future[Outcome]] = {}
        self._serving: asyncio.Task[None] | None = None

    async def ask(self, row: Row) -> Outcome:
        """What came of the row; raises what ended the run (a task that cannot be made)."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._asked[row.key] = answer
        self._rows.put_nowait(row)
        try:
            if self._serving.done():
                await self._serving
            return await answer
        finally:
            self._asked.pop(row.key, None)

    async def close(self) -> None:
        """End the workers; rows that are asked for are given up."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            async with aclosing(self._executor.run(self._task, self._coming())) as outcomes:
                async for outcome in outcomes:
                    answer = self._asked.get(outcome.key)
                    if answer is not None and not answer.done():
                        answer.set_result(outcome)
        except Exception as error:
            for answer in self._asked.values():
                if not answer.done():
                    answer.set_exception(error)
            raise

    async def _coming(self) -> AsyncGenerator[Row, None]:
        while True:
            yield await self._rows.get()
