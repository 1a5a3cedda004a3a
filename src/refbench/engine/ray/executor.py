"""RayExecutor: tasks on the nodes of a Ray cluster, with the outcomes that they have on one machine."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from refbench.engine.ray.cluster import (
    Node,
    RayCluster,
    aside,
    check_answer,
    clear_nonce,
    death,
    is_lost,
    leave_nonce,
    look,
)
from refbench.engine.ray.worker import RayWorker, Surroundings
from refbench.engine.workers.executor import conduct
from refbench.engine.workers.task import Outcome, Row, Rows, Task
from refbench.engine.workers.worker import answer_in, message_of
from refbench.failure import Failure
from refbench.record import RefBenchError

_T = TypeVar("_T")
_MOST_LOST = 5
"""How often the same rows may lose their node before they are given up for this run."""
_TICK_S = 5.0
_NO_NODE_S = 60.0
"""How long a worker waits for a node that could hold it, when there is none: clusters that scale need a while."""
_LOOK_S = 120.0
_PING_S = 8.0
_MOST_UNANSWERED = 3
"""So a cluster that is gone is noticed after half a minute; after a whole one Ray would end this very process."""
_CLOSE_S = 10.0


class RayExecutor:
    """Actors on all nodes, spread; each makes the task's object once and keeps it.

    `address` is None for a fresh Ray on this machine (or RAY_ADDRESS), "auto" for the cluster that this machine is
    part of, or HOST:PORT. All nodes must see `shared`, and write in it, and see `visible`.
    """

    def __init__(
        self, address: str | None = None, *, shared: Path, visible: Sequence[Path] = (), quiet: bool = True
    ) -> None:
        self._cluster = RayCluster(address, quiet=quiet)
        self._shared = shared
        self._visible = tuple(visible)
        self._checked: set[str] = set()
        self._checking = threading.Lock()
        self._taken: dict[_Crew, tuple[int, float]] = {}
        """CPUs and GPUs that our own runs hold."""

    async def run(self, task: Task, rows: Rows) -> AsyncGenerator[Outcome, None]:
        await self.connect()
        crew = _Crew(self, task)
        try:
            async with aclosing(conduct(task, rows, crew.attempt, crew.size + 1)) as outcomes:
                async for outcome in outcomes:
                    yield outcome
        finally:
            self._taken.pop(crew, None)
            await crew.dismiss()

    async def connect(self, visible: Sequence[Path] = ()) -> None:
        """Connect and check that all nodes see the shared directory, and `visible` too; later runs find it done."""
        new = tuple(path for path in visible if path not in self._visible)
        if new:
            self._visible += new
            self._checked.clear()
        await aside(self._check)

    def close(self) -> None:
        self._cluster.close()
        self._checked.clear()

    def nodes(self) -> list[Node]:
        return self._cluster.nodes()

    def workers(self, task: Task) -> int:
        """How many workers a task gets now, beside what our other runs hold."""
        return self._size(task)[0]

    def _size(self, task: Task) -> tuple[int, int]:
        """The number of workers, and the CPUs that each asks for."""
        each, nodes = task.resources.gpus, self.nodes()
        most = sum(node.fits(each) for node in nodes)
        if each:
            free = most - sum(gpus for _, gpus in self._taken.values()) / each
            if not most or free < 1 - 1e-6:
                held = f", beside {', '.join(sorted(crew.task.name for crew in self._taken))}" if most else ""
                raise RefBenchError(
                    f"task {task.name} asks for {each:g} GPU, which the Ray cluster does not have{held}"
                )
            return min(int(free + 1e-6), task.resources.workers or most), 0
        free = most - sum(cpus for cpus, _ in self._taken.values())
        size = min(most, task.resources.workers or max(1, free)) or 1
        # Where all are our own, nobody asks for one: to wait for them would be to wait for ourselves.
        return size, int(size <= free)

    def _check(self, only: str | None = None) -> None:
        """Ask the nodes that have not been asked: all, or the one that a worker was started on."""
        with self._checking:
            ray = self._cluster.connect()
            new = [node for node in self.nodes() if node.id not in self._checked and only in (None, node.id)]
            if not new:
                return
            nonce = leave_nonce(self._shared, self._visible)
            try:
                asked = [(node, _on(ray, node).remote(nonce, node.id)) for node in new]
                problems: list[tuple[Node, str]] = []
                for node, answer in asked:  # all of them, or one would still write when its file is cleared away
                    try:
                        problems.append((node, str(ray.get(answer, timeout=_LOOK_S))))
                    except ray.exceptions.RayError as error:
                        if node.id in {alive.id for alive in self.nodes()}:
                            problems.append((node, f"cannot run RefBench ({death(error)}): is it installed there?"))
                for node, problem in problems:
                    check_answer(nonce, node.id, node.name, problem)
                    self._checked.add(node.id)
            finally:
                clear_nonce(nonce)


def _on(ray: Any, node: Node) -> Any:
    there = importlib.import_module("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy(
        node.id, soft=False
    )
    return ray.remote(look).options(num_cpus=0, max_retries=0, scheduling_strategy=there)


@dataclass(frozen=True, eq=False)
class _Seat:
    actor: Any
    node: str


class _Crew:
    """The actors of one run. One is started when all others are busy: a trickle of rows does not load many weights."""

    def __init__(self, executor: RayExecutor, task: Task) -> None:
        self.task = task
        self._executor = executor
        self._ray = executor._cluster.connect()
        self.size, self._cpus = executor._size(task)
        executor._taken[self] = (self.size * self._cpus, self.size * task.resources.gpus)
        self._kind = self._ray.remote(RayWorker).options(
            num_cpus=self._cpus,
            num_gpus=task.resources.gpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        self._surroundings = Surroundings.here()
        self._idle: asyncio.LifoQueue[_Seat | BaseException] = asyncio.LifoQueue()
        self._hiring: set[asyncio.Task[None]] = set()
        self._seats: set[_Seat] = set()
        self._busy: set[_Seat] = set()
        self._waiting = 0
        self._watch = asyncio.create_task(self._watching())

    async def attempt(self, rows: list[Row]) -> list[Any] | Failure:
        """Rows given to one actor. Rows whose node was lost go to another, and that is nobody's fault."""
        message, reason = message_of(self.task, rows), ""
        for _ in range(_MOST_LOST):
            seat = await self._seat()
            self._busy.add(seat)
            try:
                reply = await self._answer(_of(seat.actor.run.remote(message)))
            except self._ray.exceptions.RayError as error:
                self._retire(seat)
                reason = death(error)
                if not (is_lost(error) or await self._is_gone(seat.node)):
                    return Failure(kind="worker_died", detail=f"the worker ended: {reason}")
                continue
            answer = answer_in(reply)
            if isinstance(answer, Failure) and not self.task.isolated:
                self._retire(seat)  # its process cannot be used any more, and here there is a fresh start
            else:
                self._busy.discard(seat)
                self._idle.put_nowait(seat)
            values: list[Any] | Failure = answer
            return values
        return Failure(kind="worker_died", detail=f"{_MOST_LOST} nodes were lost under it ({reason})")

    async def dismiss(self) -> None:
        """Kill those at work, end the others; afterwards no actor is left."""
        for other in (*self._hiring, self._watch):
            other.cancel()
        await asyncio.gather(*self._hiring, self._watch, return_exceptions=True)
        if not self._executor._cluster.connected:
            return
        closing = [_of(seat.actor.close.remote()) for seat in self._seats - self._busy]
        if closing:
            await asyncio.wait([asyncio.ensure_future(one) for one in closing], timeout=_CLOSE_S)
        for seat in list(self._seats):
            self._kill(seat.actor)

    async def _seat(self) -> _Seat:
        if self._idle.empty():
            self._hire()
        self._waiting += 1
        try:
            seat = await self._answer(self._idle.get())
        finally:
            self._waiting -= 1
        if isinstance(seat, BaseException):
            self._idle.put_nowait(seat)  # for all others who wait
            raise seat
        return seat

    def _hire(self) -> None:
        if len(self._seats) + len(self._hiring) < self.size:
            hiring = asyncio.create_task(self._engage())
            self._hiring.add(hiring)
            hiring.add_done_callback(self._hiring.discard)

    def _retire(self, seat: _Seat) -> None:
        self._kill(seat.actor)
        self._busy.discard(seat)
        self._seats.discard(seat)
        if self._waiting:  # somebody may wait for this very seat
            self._hire()

    def _kill(self, actor: Any) -> None:
        if self._executor._cluster.connected:  # else it is gone with the connection, and a call would start another Ray
            self._ray.kill(actor)

    async def _engage(self) -> None:
        """Start an actor and seat it; what goes wrong is told to those who wait."""
        try:
            reason = ""
            for _ in range(_MOST_LOST):
                actor = self._kind.remote(self.task, self._surroundings)
                try:
                    node = await self._started(actor)
                    await aside(partial(self._executor._check, node))
                except self._ray.exceptions.RayError as error:
                    self._kill(actor)
                    reason = death(error)
                    continue
                except BaseException:
                    self._kill(actor)
                    raise
                seat = _Seat(actor, node)
                self._seats.add(seat)
                self._idle.put_nowait(seat)
                return
            raise RefBenchError(f"task {self.task.name}: no worker can be started on the Ray cluster: {reason}")
        except Exception as error:  # noqa: BLE001 - carried to whoever waits for a seat
            self._idle.put_nowait(error)

    async def _started(self, actor: Any) -> str:
        """The node that the actor runs on. It may have to wait for other users' work, but not for ever for a node."""
        answer = asyncio.ensure_future(_of(actor.node.remote()))
        without = 0.0
        try:
            while not (await asyncio.wait([answer], timeout=_TICK_S))[0]:
                nodes = await aside(self._executor.nodes)
                room = any(node.fits(self.task.resources.gpus) for node in nodes) or not (
                    self._cpus or self.task.resources.gpus
                )
                without = 0.0 if room else without + _TICK_S
                if without >= _NO_NODE_S:
                    raise RefBenchError(
                        f"task {self.task.name}: no node of the Ray cluster is left that could run it; what was "
                        "recorded is safe, run the same command again when there is one"
                    )
            return str(answer.result())
        finally:
            answer.cancel()

    async def _answer(self, coming: Coroutine[Any, Any, _T]) -> _T:
        """What comes, unless the whole cluster is gone, of which Ray says nothing."""
        answer = asyncio.ensure_future(coming)
        try:
            await asyncio.wait([answer, self._watch], return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                self._watch.result()
            return await answer
        finally:
            answer.cancel()

    async def _watching(self) -> None:
        unanswered = 0
        while unanswered < _MOST_UNANSWERED:
            await asyncio.sleep(_PING_S)
            unanswered = 0 if await aside(self._executor._cluster.answers) else unanswered + 1
        self._executor._cluster.close(gone=True)
        raise RefBenchError(
            "the Ray cluster no longer answers; what was recorded is safe, run the same command again when it is back"
        )

    async def _is_gone(self, node: str) -> bool:
        return node not in {alive.id for alive in await aside(self._executor.nodes)}


async def _of(reference: Any) -> Any:
    return await asyncio.wrap_future(reference.future())
