"""Workers of one machine: an object in a thread of ours, or one in a process of its own behind pipes.

Both block and are called from a thread, one call at a time; `stop` alone may come from anywhere.
"""

from __future__ import annotations

import base64
import math
import pickle
import threading
from typing import Any, Protocol

from refbench.calls.functions import error_text
from refbench.calls.process import Exit, Process, interpreter
from refbench.engine.workers.child import Call, make, measure
from refbench.engine.workers.task import Row, Task
from refbench.failure import Failure
from refbench.machine import THREADS
from refbench.record import RefBenchError

_GRACE_S = 5.0  # for exit handlers, when all is done


class Worker(Protocol):
    def run(self, rows: list[Row]) -> list[Any] | Failure:
        """One value or Failure for each row, or the one Failure of a worker that is gone. Loads on the first call."""
        ...

    def stop(self) -> None:
        """Make a running call come back as soon as it can be made to; what it returns is of no use."""
        ...

    def close(self) -> None:
        """Free what the worker holds; no call is running."""
        ...


def worker_of(task: Task) -> Worker:
    """A worker of the kind that the task asks for."""
    return ProcessWorker(task) if task.isolated else ThreadWorker(task)


def message_of(task: Task, content: Any) -> bytes:
    """What is sent to another process; rows that cannot be are the user's to mend."""
    try:
        return pickle.dumps(content)
    except Exception as error:
        raise RefBenchError(f"task {task.name}: a row cannot be sent to a process: {error_text(error)}") from error


def answer_in(reply: bytes) -> Any:
    """What another process answered; raises the RefBenchError that it met."""
    good, answer = pickle.loads(reply)
    if not good:
        raise RefBenchError(answer)
    return answer


class ThreadWorker:
    """The task's object here, in whatever thread calls."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._made: Call | None = None
        self._stopped = False

    def run(self, rows: list[Row]) -> list[Any] | Failure:
        made = self._made = self._made or make(self._task)

        def call(rows: list[Any]) -> Any:
            if self._stopped:
                raise InterruptedError("stopped")  # so that halving ends too; nobody reads it
            return made(rows)

        try:
            return measure(call, rows)
        except (RefBenchError, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - what would end a process; a thread cannot be started afresh
            return Failure(kind="worker_died", detail=error_text(error))

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._made = None


class ProcessWorker:
    """The task's object in a child process, started again after every death."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._process: Process | None = None
        self._stopped = threading.Event()

    def run(self, rows: list[Row]) -> list[Any] | Failure:
        if self._process is not None and not self._process.answers:  # while it was idle: no row is to blame
            self._end()
        if self._process is None:
            self._load()
        return self._ask(rows, self._task.timeout)

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self._end(_GRACE_S)

    def _load(self) -> None:
        how = ""
        argv = interpreter("from refbench.engine.workers.child import main; main()")
        for _ in range(2):  # a death while loading may be another's fault too, but only once
            if self._stopped.is_set():
                raise RefBenchError(f"task {self._task.name} was stopped")
            try:
                self._process = Process(argv, {THREADS: str(self._task.threads)}, asked=True)
            except OSError as error:
                raise RefBenchError(f"task {self._task.name}: no worker process can be started: {error}") from error
            answer = self._ask(self._task, None)
            if not isinstance(answer, Failure):
                return
            how = answer.detail
        raise RefBenchError(f"task {self._task.name}: {self._task.factory} cannot be made: {how}")

    def _ask(self, content: Any, timeout: float | None) -> list[Any] | Failure:
        """The answer to one line with one line; or what became of the process instead."""
        process = self._process
        assert process is not None
        replies: list[bytes] = []

        def take(line: bytes) -> bool:
            replies.append(line)
            return True

        message = base64.b64encode(message_of(self._task, content)) + b"\n"
        ended = process.exchange(message, take, math.inf if timeout is None else timeout, self._stopped.is_set)
        if ended == "answered":
            values: list[Any] = answer_in(base64.b64decode(replies[0]))
            return values
        how = self._end()
        if ended == "timeout":
            return Failure(kind="timeout", detail=f"no answer within {timeout:g} s{process.told()}")
        return Failure(kind="worker_died", detail=f"the worker {how}{process.told()}")

    def _end(self, grace: float = 0.0) -> Exit | None:
        process, self._process = self._process, None
        return process.end(grace) if process is not None else None
