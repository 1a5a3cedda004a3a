"""Painting with a user's function, and what a worker process of `python:` runs: makes the function once, then paints
what it is told to.

Requests and answers are pickles in a folder that the lines name: both ends are this very package.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from refbench.calls.functions import Call, error_text, finished, how_to_call, make_object
from refbench.failure import Failure
from refbench.models.model import Commission, Painted
from refbench.models.returned import painted
from refbench.record import RefBenchError

REQUESTS, ANSWERS = "requests.pickle", "answers.pickle"


def main(what: str, options: dict[str, str], *, batch: bool) -> None:
    """Serve until the requests end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    requests, replies = _own_pipes()
    try:
        try:
            call, _ = how_to_call(make_object(what, options), what)
        except RefBenchError as error:
            _say(replies, {"stop": str(error)})
            return
        _say(replies, {"ready": True})
        for line in requests:
            message = json.loads(line)
            folder = Path(message["folder"])
            try:
                answers = paint(call, pickle.loads((folder / REQUESTS).read_bytes()), batch=batch)
                (folder / ANSWERS).write_bytes(pickle.dumps(answers))
                _say(replies, {"id": message["id"], "done": True})
            except RefBenchError as error:
                _say(replies, {"id": message["id"], "stop": str(error)})
    except BrokenPipeError:
        return
    except BaseException:  # noqa: BLE001 - a device that is gone: no exit handlers, which would hang on it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _own_pipes() -> tuple[TextIO, TextIO]:
    """The protocol's pipes, out of everyone's way: what a function prints goes to stderr, what it reads is empty."""
    requests, replies = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests, replies


def _say(replies: TextIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


def paint(call: Call, rows: Sequence[tuple[Commission, int]], *, batch: bool) -> list[Painted]:
    """One answer for each row; a batch that raises is halved until those that raise stand alone."""
    if not batch:
        return [_one(call, *row) for row in rows]
    start = time.perf_counter()
    try:
        values = finished(call([row[0] for row in rows], [row[1] for row in rows]))
        if not hasattr(values, "__len__") or isinstance(values, str | bytes | Mapping):
            raise TypeError(f"a {type(values).__name__} came back for {len(rows)} requests, not a list")
        if len(values) != len(rows):
            raise ValueError(f"{len(values)} results came back for {len(rows)} requests")
        seconds = (time.perf_counter() - start) / len(rows)
        return [painted(v, row[0].n_pictures, seconds=seconds) for v, row in zip(values, rows, strict=True)]
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - a library's sys.exit and a panic in Rust are no Exception
        failure = failed(error)
    # Out of the except clause, whose error would keep the batch's tensors alive: halves may have to fit in memory.
    if len(rows) == 1:
        return [Painted(failure=failure, seconds=time.perf_counter() - start)]
    half = len(rows) // 2
    return paint(call, rows[:half], batch=True) + paint(call, rows[half:], batch=True)


def failed(error: BaseException) -> Failure:
    """What an error in the user's function means; one after which no GPU call succeeds is raised again."""
    if "CUDA error" in str(error) or "HIP error" in str(error):
        raise error
    # Whether the exception or the kernel comes first is chance, so both are one kind.
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return Failure(kind="worker_died" if full else "missing_output", detail=f"the function raised {error_text(error)}")


def _one(call: Call, commission: Commission, seed: int) -> Painted:
    start = time.perf_counter()
    try:
        value = finished(call(commission, seed))
        return painted(value, commission.n_pictures, seconds=time.perf_counter() - start)
    except (RefBenchError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001
        return Painted(failure=failed(error), seconds=time.perf_counter() - start)
