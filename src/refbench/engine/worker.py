"""The worker's side of a task, the same in a thread, a process or on a cluster: make the object, measure a chunk."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from refbench.engine.task import Task
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
        raise RefBenchError(f"task {task.name}: {task.factory} cannot be made: {said(error)}") from error
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
        failure = Failure(kind="worker_died" if _out_of_memory(error) else "undefined", detail=said(error))
    # Out of the except clause, whose error would keep the chunk's arrays alive: halves may have to fit in memory.
    if len(rows) == 1:
        return [failure]
    half = len(rows) // 2
    return measure(call, rows[:half]) + measure(call, rows[half:])


def said(error: BaseException) -> str:
    """Type and message of an error in one line, without what looks like a key."""
    message = redact(" ".join(str(error).split()))
    return f"{type(error).__name__}: {message}"[:_LONGEST] if message else type(error).__name__


def _out_of_memory(error: BaseException) -> bool:
    """Whether the exception or the kernel comes first is chance, so both are one kind, and another run may succeed."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's, on a GPU


def _takes_the_device_along(error: BaseException) -> bool:
    """After such an error every call on the GPU fails in this process: innocent rows would be blamed one by one."""
    return "CUDA error" in str(error) or "HIP error" in str(error)
