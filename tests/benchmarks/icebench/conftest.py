"""Fixtures: a complete small ICE-Bench."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.icebench import every_task, write_dataset


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two items of each of the 31 tasks."""
    return write_dataset(tmp_path / "icebench", every_task())
