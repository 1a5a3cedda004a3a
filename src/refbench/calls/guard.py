"""A small process between RefBench and each command that it starts: when the command ends, when RefBench says so, and
when RefBench is gone, however it went, everything that the command has started is ended too.

Run as a file by an interpreter that loads nothing else: `guard.py FD PARENT COMMAND...`. FD is the end of a pipe that
RefBench holds open for as long as the command may live.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing and pathlib would take longer to load than all the rest
    from collections.abc import Callable
    from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_LINUX = sys.platform == "linux"
_PATIENCE_S = 10.0  # for the killed to go: who waits in the kernel for a device goes later
_TICK_S = 0.01


def main(alive: int, parent: int, argv: list[str]) -> NoReturn:
    """Start the command and end as it does."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    os.set_inheritable(alive, False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # orphans of the command become ours, in whatever session they are
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # beside the pipe, which a fork of RefBench may hold open
    if os.getppid() != parent:
        os._exit(1)
    command = os.fork()
    if command == 0:
        _become(argv)
    _prctl(_PR_SET_NAME, b"guard")  # so that `killall -9 python` leaves those who clean up after it
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # the command's alone: their end is seen when it closes them
        os.dup2(nothing, stream)
    status = _wait(command, alive, woken)
    _end_all(command, reaped=status is not None)
    _end_as(signal.SIGTERM if status is None else status)


def _become(argv: list[str]) -> NoReturn:
    """The command, in a session of its own: what it does to its group does not reach the guard."""
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the command would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, os.fsencode(f"{argv[0]} cannot be started: {error.strerror}\n"))
    os._exit(127)


def _wait(command: int, alive: int, woken: int) -> int | None:
    """The status of the command; None when it is to be ended."""
    events = select.poll()  # select takes no number above 1,023
    for pipe_end in (alive, woken):
        events.register(pipe_end, select.POLLIN)
    while True:
        ready = [pipe_end for pipe_end, _ in events.poll()]
        if alive in ready or signal.SIGTERM in os.read(woken, 1 << 10):
            return None
        ended, _ = _reap()
        if command in ended:
            return ended[command]


def _reap() -> tuple[dict[int, int], bool]:
    """The children that have ended, with their statuses, and whether there are others."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def _end_all(command: int, *, reaped: bool) -> None:
    """Kill the command's group, then one's own children until there are none: those of the killed become one's own. A
    child that was not waited for keeps its number, so that no stranger is hit."""
    if not (reaped and _LINUX):
        _kill(os.killpg, command)
    until = time.monotonic() + _PATIENCE_S
    while _reap()[1] and time.monotonic() < until:
        for child in _children() if _LINUX else [command]:  # the only child, where no orphan is adopted
            _kill(os.kill, child)
        time.sleep(_TICK_S)


def _kill(how: Callable[[int, int], None], whom: int) -> None:
    with contextlib.suppress(OSError):  # gone, or a program that runs as another user
        how(whom, signal.SIGKILL)


def _children() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _parent(name) == os.getpid()]


def _parent(pid: str) -> int:
    """It stands behind the process's name, in which anything may stand."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - no pathlib
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):  # gone meanwhile
        return 0


def _end_as(status: int) -> NoReturn:
    """With the status of the command, by its signal too, but without a second core."""
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


def _prctl(what: int, value: object) -> None:
    if _LINUX:
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
