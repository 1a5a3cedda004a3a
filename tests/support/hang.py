"""A guard against readers that hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_hang(seconds: int) -> Iterator[None]:
    """A reader that hangs must fail here, not stop the whole run. Seconds of its own time: a busy machine is no hang."""

    def give_up(signum: int, frame: object) -> None:
        raise AssertionError(f"a reader did not come back within {seconds} s of CPU time")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
