"""Objects that workers on a Ray cluster make in tests: some wait at a gate until the test opens it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refbench.machine import threads
from support.engine_workers import Item, Worker


class Gated(Worker):
    """As `Worker`; a row to `wait` leaves a mark beside the gate when it starts, and ends when the gate is there."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        self.gate = Path(gate)

    def one(self, row: Item, together: int) -> Any:
        if row.do == "wait":
            (self.gate.parent / f"started-{row.key}-{os.getpid()}").touch()
            while not self.gate.exists():
                threading.Event().wait(0.02)
        return super().one(row, together)


class Seen:
    """Says what a worker sees: its process, its raylet, its GPUs, its folder, its threads, a variable."""

    def __call__(self, rows: Sequence[Item]) -> list[Any]:
        names = ("RAY_RAYLET_PID", "CUDA_VISIBLE_DEVICES", "REFBENCH_TEST", "HF_TOKEN")
        seen = {name: os.environ.get(name) for name in names}
        return [
            {"pid": os.getpid(), "folder": str(Path.cwd()), "nice": os.nice(0), "threads": threads(), **seen}
            for _ in rows
        ]
