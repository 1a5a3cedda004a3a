"""The worker's side of a task, the same in a thread, a process or on a cluster: make the object, compute a chunk; and
what a worker process runs."""

from __future__ import annotations

import base64
import importlib
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, BinaryIO, TypeAlias

from refbench.engine.workers.task import Task
from refbench.failure import Failure, redact
from refbench.machine import compute_with
from refbench.record import RefBenchError

Call: TypeAlias = Callable[[list[Any]], Sequence[Any]]

_LONGEST = 500  # characters of an error's message in a Failure


def make(task: Task) -> Call:
    """The object that is called with rows; RefBenchError when it cannot be made, which no other row would change."""
    compute_with(task.threads)  # before libraries are loaded that look at it once
    module, _, name = task.factory.partition(":")
    try:
        factory = attrgetter(name)(importlib.import_module(module))
        made: Call = factory(**task.args)
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RefBenchError(f"task {task.name}: {task.factory} cannot be made: {in_one_line(error)}") from error
    return made


def measure(call: Call, rows: list[Any]) -> list[Any]:
    """One value or Failure for each row, in order; a chunk that raises is halved until those that raise stand alone.

    RefBenchError is the user's to mend and ends the run. So does what takes the device along end the worker.
    """
    try:
        values = call(list(rows))
        if not isinstance(values, list | tuple):
            raise TypeError(f"a {type(values).__name__} came back, not a list")
        if len(values) != len(rows):
            raise ValueError(f"{len(values)} values came back for {len(rows)} rows")
        return list(values)
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a library's sys.exit and a panic in Rust are no Exception
        if _takes_the_device_along(error):
            raise
        failure = Failure(kind="worker_died" if _out_of_memory(error) else "undefined", detail=in_one_line(error))
    # Out of the except clause, whose error would keep the chunk's arrays alive: halves may have to fit in memory.
    if len(rows) == 1:
        return [failure]
    half = len(rows) // 2
    return measure(call, rows[:half]) + measure(call, rows[half:])


def in_one_line(error: BaseException) -> str:
    """Type and message of an error in one line, without what looks like a key."""
    message = redact(" ".join(str(error).split()))
    return f"{type(error).__name__}: {message}"[:_LONGEST] if message else type(error).__name__


def _out_of_memory(error: BaseException) -> bool:
    """Whether the exception or the kernel comes first is chance, so both are one kind, and another run may succeed."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's, on a GPU


def _takes_the_device_along(error: BaseException) -> bool:
    """After such an error every call on the GPU fails in this process: innocent rows would be blamed one by one."""
    return "CUDA error" in str(error) or "HIP error" in str(error)


def main() -> None:
    """What a worker process runs, until its input ends: a line in, a line out, both pickles in base64.

    The first message is the Task, all others are lists of rows. An answer is (True, values) or (False, the sentence of
    a RefBenchError).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    requests, replies = _own_pipes()
    call: Call | None = None
    try:
        while (line := requests.readline()).endswith(b"\n"):
            answer: tuple[bool, Any]
            try:
                content = unpacked(base64.b64decode(line))
                if call is None:
                    call = make(content)
                    answer = (True, [])
                else:
                    answer = (True, measure(call, content))
            except RefBenchError as error:
                answer = (False, str(error))
            replies.write(base64.b64encode(packed(answer)) + b"\n")
            replies.flush()
    except BrokenPipeError:
        return
    except BaseException:  # noqa: BLE001 - a device that is gone: no exit handlers, which would hang on it
        traceback.print_exc()
        os._exit(1)


def _own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The protocol's pipes, out of everyone's way: what a task prints goes to stderr, what it reads is empty."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests, replies


def unpacked(message: bytes) -> Any:
    """What a message holds; rows whose class is not here are the user's to mend."""
    try:
        return pickle.loads(message)
    except Exception as error:
        raise RefBenchError(
            f"rows cannot be read in a worker process ({in_one_line(error)}): define their class in a module"
        ) from error


def packed(answer: tuple[bool, Any]) -> bytes:
    """The answer's bytes; a value that cannot be sent is its row's Failure, not its chunk's."""
    try:
        return pickle.dumps(answer)
    except Exception:  # noqa: BLE001 - whatever a value's __reduce__ raises
        return pickle.dumps((answer[0], [_sendable(value) for value in answer[1]]))


def _sendable(value: Any) -> Any:
    try:
        pickle.dumps(value)
    except Exception as error:  # noqa: BLE001
        return Failure(kind="undefined", detail=f"the value cannot be sent to the parent: {in_one_line(error)}")
    return value
