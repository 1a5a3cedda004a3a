"""What this process may use of the machine: cores, threads, and folders for a moment's files."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

THREADS = "OMP_NUM_THREADS"
"""The variable that libraries look at when they are loaded, and that Ray sets to 1 for its workers."""
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


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


@contextlib.contextmanager
def scratch_of(run: Path) -> Iterator[Path]:
    """Where a command keeps what lasts a moment: in its run directory, because others clean the system's folder while
    a run goes on. Gone at the end, or, after a kill, when the next command begins. Made by whoever needs it."""
    mine = f".part-scratch-{socket.gethostname()}-"
    for left in run.glob(f"{mine}*"):
        if not _alive(left.name.removeprefix(mine)):
            shutil.rmtree(left, ignore_errors=True)
    folder = run / f"{mine}{os.getpid()}"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder(inside: Path | None) -> Iterator[Path]:
    """A folder for one request, in a run's scratch or, without a run, where the system has its own."""
    if inside is not None:
        inside.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="refbench-", dir=inside)).absolute()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
