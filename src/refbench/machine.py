"""What this process may use of the machine, and with how many threads it computes."""

from __future__ import annotations

import os
import sys
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


def _allowed() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
