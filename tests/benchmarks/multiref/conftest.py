"""Fixtures: both splits in the official layout, made on the spot."""

from __future__ import annotations

from pathlib import Path

import pytest

from refbench.benchmarks.kit.definition import Dataset
from refbench.benchmarks.multiref.cases import load
from support.multiref import blends, requests, write_checkout


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Seven synthetic cases, all types among them, and ten real-world ones, two of each category."""
    return write_checkout(tmp_path / "data", blends(), requests())


@pytest.fixture
def dataset(data: Path) -> Dataset:
    return load(data)
