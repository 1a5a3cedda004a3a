"""Whose Python is run when a run directory is opened: a file that this user has run or named before, by its hash.

A run keeps the file of a benchmark that is not shipped, and runs travel between people: opening one must not run the
code of whoever made it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from refbench.machine import user_folder
from refbench.runs.disk import write_whole

_said = False
"""Whether the user has said that the code of the runs of this command may be run."""


def own_copy(source: bytes) -> Path:
    """Where this user's copy of a file lies that may be run: under its hash, so that two processes never write the same
    one over each other. It is run as if from there, and nothing that lies beside it in a run is found by its imports.
    """
    return user_folder() / "trusted" / f"{hashlib.sha256(source).hexdigest()}.py"


def remember(source: bytes) -> None:
    """Note that the user has run this file. Where that cannot be written, the user is asked again."""
    with contextlib.suppress(OSError):  # a full disk, no home
        if not own_copy(source).exists():
            write_whole(own_copy(source), source, flush=False)


def may_run(source: bytes) -> bool:
    """Whether the user has run this very file before, or says now that it may be run, which is remembered."""
    if _said:
        remember(source)
        return True
    with contextlib.suppress(OSError):
        return own_copy(source).is_file()
    return False


@contextlib.contextmanager
def trusting_runs() -> Iterator[None]:
    """What `--trust-run` says."""
    global _said
    _said = True
    try:
        yield
    finally:
        _said = False
