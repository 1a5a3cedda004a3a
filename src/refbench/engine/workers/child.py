"""The worker's side of a task, the same in a thread, a process or on a cluster: make the object, compute a chunk; and
what a worker process runs."""

from __future__ import annotations

import base64
import importlib
import pickle
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, BinaryIO, TypeAlias

from refbench.calls.functions import error_text, failure_of, in_halves, told_as
from refbench.calls.process import as_worker
from refbench.engine.workers.task import Task
from refbench.failure import Failure
from refbench.machine import compute_with
from refbench.record import RefBenchError

Call: TypeAlias = Callable[[list[Any]], Sequence[Any]]


def make(task: Task) -> Call:
    """The object that is called with rows; RefBenchError when it cannot be made, which no other row would change."""
    compute_with(task.threads)  # before libraries are loaded that look at it once
    module, _, name = task.factory.partition(":")
    with told_as(f"task {task.name}: {task.factory} cannot be made"):
        factory = attrgetter(name)(importlib.import_module(module))
        made: Call = factory(**task.args)
    return made


def measure(call: Call, rows: Sequence[Any]) -> list[Any]:
    """One value or Failure for each row, in order; a chunk that raises is halved until those that raise stand alone."""

    def together(rows: Sequence[Any]) -> list[Any]:
        values = call(list(rows))
        if not isinstance(values, list | tuple):
            raise TypeError(f"a {type(values).__name__} came back, not a list")
        if len(values) != len(rows):
            raise ValueError(f"{len(values)} values came back for {len(rows)} rows")
        return list(values)

    return in_halves(rows, together, lambda error: failure_of(error, "undefined"))


def main() -> None:
    """What a worker process runs, until its input ends: a line in, a line out, both pickles in base64.

    The first message is the Task, all others are lists of rows. An answer is (True, values) or (False, the sentence of
    a RefBenchError).
    """
    as_worker(_serve)


def _serve(requests: BinaryIO, replies: BinaryIO) -> None:
    call: Call | None = None
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


def unpacked(message: bytes) -> Any:
    """What a message holds; rows whose class is not here are the user's to mend."""
    try:
        return pickle.loads(message)
    except Exception as error:
        raise RefBenchError(
            f"rows cannot be read in a worker process ({error_text(error)}): define their class in a module"
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
        return Failure(kind="undefined", detail=f"the value cannot be sent to the parent: {error_text(error)}")
    return value
