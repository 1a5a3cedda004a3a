"""Fixtures: a complete small MultiBanana, and its judge files by one judge."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.multibanana import every_task, reply, write_dataset, write_replies


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two sets of each of the 36 tasks."""
    return write_dataset(tmp_path / "multibanana", every_task())


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Well-formed judge files of one judge for all sets, in a folder of their own."""
    marks = {s.id: reply([1 + (i + j) % 10 for j in range(5)]) for i, s in enumerate(every_task())}
    return write_replies(tmp_path / "painter", marks)
