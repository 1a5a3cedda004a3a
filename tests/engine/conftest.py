"""Fixtures of the engine: rows whose files are pictures, or are none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from refbench.pictures import encode
from support.engine_workers import Item


@pytest.fixture
def pictures(tmp_path: Path) -> Sequence[Item]:
    """A picture of mean 7 and three files that are none."""
    good = encode(np.full((8, 8, 3), 7, np.uint8))
    files = {"good": good, "empty": b"", "cut": good[: len(good) // 2], "text": b"not a picture at all"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    return [Item(name, do="picture", path=str(tmp_path / name)) for name in files]


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process computes: where a test is not about many, loading the libraries twice proves nothing."""
    monkeypatch.setattr("refbench.engine.workers.executor.cores", lambda: 1)
