"""What a worker process of `python:` runs: makes the user's callable once, then paints what it is told to.

Requests and answers are pickles in a folder that the lines name: both ends are this very package.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

from refbench.models.process.function import called, made, paint
from refbench.record import RefBenchError

REQUESTS, ANSWERS = "requests.pickle", "answers.pickle"


def main(what: str, options: dict[str, str], *, batch: bool) -> None:
    """Serve until the requests end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    requests, replies = _own_pipes()
    try:
        try:
            call, _ = called(made(what, options), what)
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
