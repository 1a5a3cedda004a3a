"""A process of somebody else's making: its own group, its lines read, its end seen, and nothing of it left behind; and
workers of our own making, on both sides of the pipes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from refbench.failure import redact

_TICK_S = 0.2  # how soon it is noticed that nobody waits any more
_GRACE_S = 2.0  # for the end of a process that has closed its output
_TAIL = 8192  # bytes kept of what is printed
_TOLD = 400  # characters of them in a Failure
_LONGEST_LINE = 1 << 28  # bytes; a picture in base64 is far below

_GUARD = Path(__file__).with_name("guard.py")
_GUARD_S = 15.0  # for a guard to end the command and all of its children, which it takes 10 s for at most

Outcome = Literal["answered", "ended", "timeout", "gone"]


@dataclass(frozen=True)
class Exit:
    """How a process ended: its status, below 0 for a signal, None when it lives but cannot be talked to."""

    code: int | None

    @property
    def by_signal(self) -> bool:
        return self.code is not None and self.code < 0

    def __str__(self) -> str:
        if self.code is None:
            return "closed its output"
        if self.code >= 0:
            return f"ended with exit status {self.code}"
        named = "Killed, perhaps for want of memory" if self.code == -signal.SIGKILL else signal.strsignal(-self.code)
        return f"ended with signal {-self.code} ({named})"


class Process:
    """A started command behind its guard, which ends all that comes of it, even when this process is killed. One thread
    starts it, talks to it and ends it: on Linux it dies with that thread."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], *, asked: bool, log: Path | None = None) -> None:
        pipe = subprocess.PIPE
        ended, self._alive = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_GUARD), str(ended), str(os.getpid()), *argv],
                bufsize=0,
                stdin=pipe if asked else subprocess.DEVNULL,
                stdout=pipe,
                stderr=pipe,
                # An answer that is printed must not wait in a buffer.
                env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
                pass_fds=(ended,),
                start_new_session=True,  # Ctrl-C is ours to handle
            )
        except BaseException:
            os.close(self._alive)
            raise
        finally:
            os.close(ended)
        assert self._popen.stdout
        assert self._popen.stderr
        self._asked = asked
        self._open = {self._popen.stdout.fileno(): True, self._popen.stderr.fileno(): False}
        for pipe_end in self._open:
            os.set_blocking(pipe_end, False)
        self._watch = _watch(self._popen.pid)
        self._partial = bytearray()
        self._lines: deque[bytes] = deque()
        self._tail = bytearray()
        self._log = log

    def exchange(
        self, message: bytes, take: Callable[[bytes], bool], timeout: float, gone: Callable[[], bool]
    ) -> Outcome:
        """Send the message and give every line to `take` until it says that this was the answer."""
        self._tail.clear()  # of earlier requests
        unsent = memoryview(message)
        until, closed, drained = time.monotonic() + timeout, False, False
        with selectors.DefaultSelector() as ready:
            for pipe_end in (*self._open, *self._watch):
                ready.register(pipe_end, selectors.EVENT_READ)
            requests = self._popen.stdin.fileno() if self._popen.stdin and unsent else None
            if requests is not None:
                ready.register(requests, selectors.EVENT_WRITE)
            while True:
                while self._lines:
                    line = self._lines.popleft()
                    if take(line):
                        return "answered"
                    self._print(line + b"\n")
                left = until - time.monotonic()
                if left <= 0:
                    return "ended" if closed else "timeout"
                if gone():
                    return "gone"
                if drained:
                    return "ended"
                if self.dead:
                    for pipe_end in self._open:
                        self._read(pipe_end)  # once: a child that it has left behind may print for ever
                    self._flush()
                    drained = True
                    continue
                for key, _ in ready.select(min(left, _TICK_S)):
                    if key.fd in self._open:
                        if self._read(key.fd) is None:
                            ready.unregister(key.fd)
                            if self._open.pop(key.fd):
                                self._flush()
                                closed = self._asked  # then nobody will ever answer
                                until = min(until, time.monotonic() + _GRACE_S) if closed else until
                    elif key.fd == requests:
                        try:  # no more than a pipe surely takes, or the write would block
                            unsent = unsent[os.write(requests, unsent[: select.PIPE_BUF]) :]
                        except BrokenPipeError:
                            unsent = unsent[:0]
                        if not unsent:
                            ready.unregister(requests)

    def end(self, grace: float = 0.0) -> Exit:
        """End the process, by itself within `grace` seconds or else killed, and all that it has started."""
        if self._popen.stdin:
            self._popen.stdin.close()
        until = time.monotonic() + grace
        while not self.dead and time.monotonic() < until:
            time.sleep(0.01)
        by_itself = self.dead
        os.close(self._alive)  # which tells the guard
        try:
            code = self._popen.wait(_GUARD_S)
        except subprocess.TimeoutExpired:  # somebody has stopped the guard: the command dies with it
            self._popen.kill()
            code = self._popen.wait()
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream:
                stream.close()
        for pipe_end in self._watch:
            os.close(pipe_end)
        self._watch = ()
        return Exit(code if by_itself else None)

    def told(self) -> str:
        """The last words, cut after keys are taken out of them: half a key would not look like one."""
        text = " ".join(redact(self._tail.decode("utf-8", "replace")).split())
        return f"; its last words: {text[-_TOLD:]}" if text else ""

    @property
    def dead(self) -> bool:
        if sys.platform == "darwin":
            return self._popen.poll() is not None
        if self._popen.returncode is not None:
            return True
        return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    @property
    def answers(self) -> bool:
        """Whether it may answer a request. One that has died has closed its output before its guard can know."""
        assert self._popen.stdout
        hung_up = select.poll()
        hung_up.register(self._popen.stdout, 0)
        return not (self.dead or hung_up.poll(0))

    def _read(self, pipe_end: int) -> bool | None:
        """Whether there was something to read; None at the end."""
        try:
            data = os.read(pipe_end, 1 << 20)
        except BlockingIOError:
            return False
        if not data:
            return None
        if not self._open.get(pipe_end):
            self._print(data)
            return True
        *whole, rest = data.split(b"\n")
        if whole:
            whole[0] = bytes(self._partial) + whole[0]
            self._lines.extend(whole)
            self._partial = bytearray()
        self._partial += rest
        if len(self._partial) > _LONGEST_LINE:
            self._partial.clear()
        return True

    def _flush(self) -> None:
        """A last line may have no end."""
        if self._partial:
            self._lines.append(bytes(self._partial))
            self._partial.clear()

    def _print(self, data: bytes) -> None:
        self._tail += data
        del self._tail[:-_TAIL]
        if self._log is not None:
            with contextlib.suppress(OSError), self._log.open("ab") as file:  # on a full disk pictures come first
                file.write(data)


def _watch(pid: int) -> tuple[int, ...]:
    """A file descriptor that becomes readable when the process ends; without one it is seen a tick later."""
    if sys.platform == "linux":
        try:
            return (os.pidfd_open(pid),)
        except OSError:
            pass
    return ()


def interpreter(code: str, *arguments: str) -> list[str]:
    """The command that runs code in a fresh interpreter, its arguments from `sys.argv[2]` on. It finds what this one
    finds, also in notebooks and in scripts without an `if __name__` guard."""
    path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
    same = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    return [sys.executable, "-u", "-c", same + code, path, *arguments]


def as_worker(serve: Callable[[BinaryIO, BinaryIO], None]) -> None:
    """What a worker process runs: `serve` with the pipes of requests and replies, out of everyone's way. What else is
    printed goes to stderr, what else is read is empty."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        serve(requests, replies)
    except BrokenPipeError:
        return
    except BaseException:  # noqa: BLE001 - a device that is gone: no exit handlers, which would hang on it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
