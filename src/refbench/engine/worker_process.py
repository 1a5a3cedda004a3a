"""What a worker process runs: rows in on one pipe, values out on another, until the pipe ends or the parent does."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import sys
import traceback
from typing import Any, BinaryIO

from refbench.engine.worker import Call, make, measure, said
from refbench.failure import Failure
from refbench.record import RefBenchError

LENGTH = struct.Struct("!Q")
"""In front of every message, both ways."""

_PR_SET_PDEATHSIG = 1


def main(parent: int) -> None:
    """Serve the process that started this one. The first message is the Task, all others are lists of rows.

    An answer is (True, values) or (False, the sentence of a RefBenchError).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    _die_with(parent)
    requests, replies = _own_pipes()
    call: Call | None = None
    try:
        while (message := _read(requests)) is not None:
            answer: tuple[bool, Any]
            try:
                content = unpacked(message)
                if call is None:
                    call = make(content)
                    answer = (True, [])
                else:
                    answer = (True, measure(call, content))
            except RefBenchError as error:
                answer = (False, str(error))
            reply = packed(answer)
            replies.write(LENGTH.pack(len(reply)) + reply)
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


def _die_with(parent: int) -> None:
    """No orphan survives a killed parent: at once on Linux, elsewhere after the chunk, when the pipe ends."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before it could be asked for
        os._exit(1)


def _read(requests: BinaryIO) -> bytes | None:
    head = requests.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    message = requests.read(length)
    return message if len(message) == length else None


def unpacked(message: bytes) -> Any:
    """What a message holds; rows whose class is not here are the user's to mend."""
    try:
        return pickle.loads(message)
    except Exception as error:
        raise RefBenchError(
            f"rows cannot be read in a worker process ({said(error)}): define their class in a module"
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
        return Failure(kind="undefined", detail=f"the value cannot be sent to the parent: {said(error)}")
    return value
