"""Workers of one machine: an object in a thread of ours, or one in a process of its own behind pipes.

Both block and are called from a thread, one call at a time; `stop` alone may come from anywhere.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Protocol

from refbench.engine.workers.child import LENGTH, Call, make, measure, said
from refbench.engine.workers.task import Row, Task
from refbench.failure import Failure, redact
from refbench.machine import THREADS
from refbench.record import RefBenchError

# A fresh interpreter finds what this one finds, also in notebooks and in scripts without an `if __name__` guard.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from refbench.engine.workers.child import main; main(int(sys.argv[2]))"
)
_TICK_S = 0.5  # how soon a death is seen when a grandchild keeps the pipes open
_GRACE_S = 5.0  # for exit handlers, when all is done
_TAIL = 4096  # bytes of stderr kept
_TOLD = 400  # characters of them in a Failure


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
        raise RefBenchError(f"task {task.name}: a row cannot be sent to a process: {said(error)}") from error


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
            return Failure(kind="worker_died", detail=said(error))

    def stop(self) -> None:
        self._stopped = True

    def close(self) -> None:
        self._made = None


class ProcessWorker:
    """The task's object in a child process, started again after every death."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._child: _Child | None = None
        self._stopped = False
        self._starting = threading.Lock()

    def run(self, rows: list[Row]) -> list[Any] | Failure:
        if self._child is not None and self._child.dead:  # while it was idle: no row is to blame
            self._end()
        if self._child is None:
            self._load()
        return self._ask(rows, self._task.timeout)

    def stop(self) -> None:
        with self._starting:
            self._stopped = True
            if self._child is not None:
                self._child.process.kill()

    def close(self) -> None:
        self._end(_GRACE_S)

    def _load(self) -> None:
        how = ""
        for _ in range(2):  # a death while loading may be another's fault too, but only once
            with self._starting:
                if self._stopped:
                    raise RefBenchError(f"task {self._task.name} was stopped")
                try:
                    self._child = _Child(self._task.threads)
                except OSError as error:
                    raise RefBenchError(f"task {self._task.name}: no worker process can be started: {error}") from error
            answer = self._ask(self._task, None)
            if not isinstance(answer, Failure):
                return
            how = answer.detail
        raise RefBenchError(f"task {self._task.name}: {self._task.factory} cannot be made: {how}")

    def _ask(self, content: Any, timeout: float | None) -> list[Any] | Failure:
        assert self._child is not None
        reply = self._child.exchange(message_of(self._task, content), timeout)
        if isinstance(reply, Failure):
            self._end()
            return reply
        values: list[Any] = answer_in(reply)
        return values

    def _end(self, grace: float = 0.0) -> None:
        with self._starting:
            child, self._child = self._child, None
        if child is not None:
            child.end(grace)


class _Child:
    """A started process and its three pipes, all served by the one thread that waits for an answer."""

    def __init__(self, threads: int) -> None:
        path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-c", _START, path, str(os.getpid())],
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, THREADS: str(threads)},
        )
        assert self.process.stdin
        assert self.process.stdout
        assert self.process.stderr
        self._pipes = (self.process.stdin, self.process.stdout, self.process.stderr)
        os.set_blocking(self.process.stderr.fileno(), False)
        self._tail = bytearray()

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    def exchange(self, message: bytes, timeout: float | None) -> bytes | Failure:
        """The reply to a message, or what became of the process instead."""
        requests, replies, errors = (pipe.fileno() for pipe in self._pipes)
        unsent, received = memoryview(LENGTH.pack(len(message)) + message), bytearray()
        self._tail.clear()  # of earlier rows
        deadline = None if timeout is None else time.monotonic() + timeout
        with selectors.DefaultSelector() as ready:
            ready.register(requests, selectors.EVENT_WRITE)
            ready.register(replies, selectors.EVENT_READ)
            ready.register(errors, selectors.EVENT_READ)
            while not _whole(received):
                left = _TICK_S if deadline is None else min(_TICK_S, deadline - time.monotonic())
                if left <= 0:
                    return Failure(kind="timeout", detail=f"no answer within {timeout:g} s{self._told()}")
                events = ready.select(left)
                if not events and self.dead:
                    return self._death()
                for key, _ in events:
                    if key.fd == replies:
                        data = os.read(replies, 1 << 20)
                        if not data:
                            return self._death()
                        received += data
                    elif key.fd == errors:
                        if not self._listen():
                            ready.unregister(errors)
                    else:
                        try:  # no more than a pipe surely takes, or the write would block
                            unsent = unsent[os.write(requests, unsent[: select.PIPE_BUF]) :]
                        except BrokenPipeError:
                            unsent = unsent[:0]
                        if not unsent:
                            ready.unregister(requests)
        return bytes(received[LENGTH.size :])

    def end(self, grace: float) -> None:
        """End the process: by itself within `grace` seconds, else killed."""
        for pipe in self._pipes:
            pipe.close()
        if not grace:
            self.process.kill()
        try:
            self.process.wait(grace or None)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _listen(self) -> bool:
        """Keep the end of what the process says on stderr; False when it cannot say more."""
        try:
            data = os.read(self._pipes[2].fileno(), 1 << 16)
        except BlockingIOError:
            return True
        self._tail += data
        del self._tail[:-_TAIL]
        return bool(data)

    def _death(self) -> Failure:
        try:
            code = self.process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:  # it lives, but nobody can talk to it; `end` follows
            how = "closed its pipes"
        else:
            how = f"ended with exit status {code}" if code >= 0 else f"ended with signal {-code} ({_named(-code)})"
        return Failure(kind="worker_died", detail=f"the worker {how}{self._told()}")

    def _told(self) -> str:
        """The last words on stderr, cut after keys are taken out of them: half a key would not look like one."""
        self._listen()
        text = " ".join(redact(self._tail.decode("utf-8", "replace")).split())
        return f"; its last words: {text[-_TOLD:]}" if text else ""


def _whole(received: bytearray) -> bool:
    if len(received) < LENGTH.size:
        return False
    return len(received) >= LENGTH.size + int(LENGTH.unpack_from(received)[0])


def _named(number: int) -> str:
    if number == signal.SIGKILL:
        return "Killed, perhaps for want of memory"
    return signal.strsignal(number) or "unknown"
