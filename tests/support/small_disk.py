"""A disk that is really full, or really read-only."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own that is really full after so many megabytes."""
    path.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(path)], capture_output=True)
    if made.returncode != 0:
        pytest.skip("a file system can only be mounted as root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
