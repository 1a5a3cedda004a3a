"""Painting with a user's function, and what a worker process of `python:` runs: makes the function once, then paints
what it is told to.

Requests and answers are pickles in a folder that the lines name: both ends are this very package.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from refbench.calls.functions import Call, failure_of, finished, how_to_call, in_halves, make_object
from refbench.calls.process import as_worker
from refbench.failure import Failure
from refbench.models.model import Commission, Painted
from refbench.models.returned import painted
from refbench.record import RefBenchError

REQUESTS, ANSWERS = "requests.pickle", "answers.pickle"


def main(what: str, options: dict[str, str], *, batch: bool) -> None:
    """Serve until the requests end."""
    as_worker(lambda requests, replies: _serve(requests, replies, what, options, batch=batch))


def _serve(requests: BinaryIO, replies: BinaryIO, what: str, options: dict[str, str], *, batch: bool) -> None:
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


def _say(replies: BinaryIO, message: dict[str, Any]) -> None:
    replies.write(json.dumps(message).encode() + b"\n")
    replies.flush()


def paint(call: Call, rows: Sequence[tuple[Commission, int]], *, batch: bool) -> list[Painted]:
    """One answer for each row; a batch that raises is halved until those that raise stand alone."""
    start = 0.0

    def together(rows: Sequence[tuple[Commission, int]]) -> list[Painted]:
        nonlocal start
        start = time.perf_counter()
        if not batch:
            ((commission, seed),) = rows
            value = finished(call(commission, seed))
            return [painted(value, commission.n_pictures, seconds=time.perf_counter() - start)]
        values = finished(call([row[0] for row in rows], [row[1] for row in rows]))
        if not hasattr(values, "__len__") or isinstance(values, str | bytes | Mapping):
            raise TypeError(f"a {type(values).__name__} came back for {len(rows)} requests, not a list")
        if len(values) != len(rows):
            raise ValueError(f"{len(values)} results came back for {len(rows)} requests")
        seconds = (time.perf_counter() - start) / len(rows)
        return [painted(v, row[0].n_pictures, seconds=seconds) for v, row in zip(values, rows, strict=True)]

    def alone(error: BaseException) -> Painted:
        return Painted(failure=failed(error), seconds=time.perf_counter() - start)

    chunks = [rows] if batch else [[row] for row in rows]
    return [one for chunk in chunks for one in in_halves(chunk, together, alone)]


def failed(error: BaseException) -> Failure:
    """What an error in the user's function means."""
    return failure_of(error, "missing_output", "the function raised ")
