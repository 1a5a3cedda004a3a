"""What this process may use of the machine: cores, threads, file handles, and folders for a moment's files; and how it
is asked to end."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import resource
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TypeVar

THREADS = "OMP_NUM_THREADS"
"""The variable that libraries look at when they are loaded, and that Ray sets to 1 for its workers."""
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


MAKE_ROOM = (signal.SIGTERM, signal.SIGUSR1)
"""The signals by which schedulers ask a process to end: the work is to go on elsewhere or later."""
REQUEUE = 75
"""The exit code of a command that made room (EX_TEMPFAIL of sysexits.h): the same command goes on."""


class MadeRoom(KeyboardInterrupt):
    """One of `MAKE_ROOM` has ended the work, as Ctrl-C ends it."""


@contextlib.contextmanager
def making_room() -> Iterator[None]:
    """Inside, these signals raise `MadeRoom` in the main thread; called from another one, all stays as it is."""

    def make_room(number: int, frame: FrameType | None) -> None:
        raise MadeRoom(signal.Signals(number).name)

    there = MAKE_ROOM if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, make_room) for number in there}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def cores() -> int:
    """Cores that this process may run on, which in a container or a job are fewer than the machine has."""
    return len(_allowed())


def threads() -> int:
    """Threads that one task computes with: $OMP_NUM_THREADS, else one for each physical core that we may run on.

    How sums are split over threads decides their rounding, so the number travels with a task and is recorded.
    """
    first = os.environ.get(THREADS, "").partition(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return int(first)
    try:
        return len({Path(_SIBLINGS.format(core)).read_text("ascii") for core in _allowed()})
    except OSError:
        return cores()


def compute_with(number: int) -> None:
    """Fix the number of threads for this process and those that it starts, whatever their surroundings have set."""
    if threads() != number:
        os.environ[THREADS] = str(number)
    use_threads()


def use_threads() -> None:
    """Have torch, where it is loaded, compute with `threads()` when called from this thread: each thread has its own
    setting."""
    torch = sys.modules.get("torch")
    number = threads()
    if torch is not None and torch.get_num_threads() != number:
        torch.set_num_threads(number)


def user_folder() -> Path:
    """Where what is this user's own is kept between commands: what may be run, and what signs derived numbers."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    with contextlib.suppress(RuntimeError):  # no home
        base = os.path.expanduser(base)  # noqa: PTH111
    return Path(base).absolute() / "refbench"


_MACHINE = "EMFILE ENFILE ENOMEM EIO ESTALE EAGAIN EINTR EBUSY ENOBUFS ENOLCK ETIMEDOUT ENOTCONN EREMOTEIO"
MACHINE_ERRORS = frozenset(getattr(errno, name) for name in _MACHINE.split() if hasattr(errno, name))
"""Errors that say nothing about a file, only about the machine that reads it just now."""
_NO_HANDLE = (errno.EMFILE, errno.ENFILE)
_HANDLE_PATIENCE_S = 60.0
_HANDLE_PAUSE_S = 0.05
_OWN_HANDLES = 96
"""Handles that are not connections: ledgers, pipes to workers, pictures that threads are reading."""
OpenedT = TypeVar("OpenedT")


def with_handle(opening: Callable[[], OpenedT]) -> OpenedT:
    """What `opening` gives, waiting for a file handle where all are taken: those in flight give theirs back."""
    until = time.monotonic() + _HANDLE_PATIENCE_S
    while True:
        try:
            return opening()
        except OSError as error:
            if error.errno not in _NO_HANDLE or time.monotonic() > until:
                raise
        time.sleep(_HANDLE_PAUSE_S)


def connections(wanted: int) -> int:
    """How many of the connections that are wanted this process may have open at once. Its limit of open files is
    raised for them as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OWN_HANDLES
    if resource.RLIM_INFINITY != soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with contextlib.suppress(OSError, ValueError):  # some systems state a limit that they do not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if soft == resource.RLIM_INFINITY else max(min(wanted, soft - _OWN_HANDLES), 1)


def unfinished(name: str) -> str:
    """The name of a file or folder while it is being made: readers pass over it, and it tells whose it is."""
    return f".part-{_here()}-{os.getpid()}-{name}"


def _here() -> str:
    """Numbers of processes are those of a machine and, in containers, of their namespace."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    except OSError:
        namespace = 0
    return f"{socket.gethostname()}-{namespace}"


@contextlib.contextmanager
def scratch_of(run: Path) -> Iterator[Path]:
    """Where a command keeps what lasts a moment: in its run directory, because others clean the system's folder while
    a run goes on. Gone at the end, or, after a kill, when the next command begins. Made by whoever needs it."""
    for place in (run, run / "shards", run / "benchmark", *run.glob("blobs/*"), *run.glob("sent/*")):
        sweep(place)
    folder = run / unfinished("scratch")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder(inside: Path | None = None) -> Iterator[Path]:
    """A folder for one request, in a run's scratch or, without a run, where the system has its own."""
    if inside is not None:
        inside.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=scratch_prefix(), dir=inside)).absolute()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def scratch_prefix() -> str:
    """How folders of this process in the system's own are called; those that killed ones have left there are removed
    before the first."""
    sweep(Path(tempfile.gettempdir()))
    return f"refbench-{_here()}-{os.getpid()}-"


_OWNED = re.compile(r"(?:\.part-|refbench-)(.+-\d+)-(\d+)-[^-]+")
_FORGOTTEN_S = 86_400.0


def sweep(folder: Path) -> None:
    """Remove what killed commands have left in a folder, never what belongs to one that is alive: where we can see its
    process, that tells; elsewhere (or where no process is named) nobody keeps such a file for a day."""
    here, now = _here(), time.time()
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # not there, or not ours to read
        for entry in entries:
            owner = _OWNED.fullmatch(entry.name)
            if owner is None and not entry.name.startswith(".part-"):
                continue
            with contextlib.suppress(OSError):
                found = entry.stat(follow_symlinks=False)
                seen = owner is not None and owner[1] == here
                gone = not _alive(owner[2]) if owner and seen else now - found.st_mtime > _FORGOTTEN_S
                if gone and found.st_uid == os.getuid():
                    _remove(Path(entry.path), folder=entry.is_dir(follow_symlinks=False))


def _remove(path: Path, *, folder: bool) -> None:
    if folder:
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:
        return True
    return True


def _allowed() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
