"""A guard against readers that hang."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_hang(seconds: int) -> Iterator[None]:
    """A reader that hangs must fail here, not stop the whole run."""

    def give_up(signum: int, frame: object) -> None:
        raise AssertionError(f"a reader did not come back within {seconds} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
