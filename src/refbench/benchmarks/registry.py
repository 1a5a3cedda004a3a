"""The benchmarks there are, found by name; loaded when asked for."""

from __future__ import annotations

import difflib
import importlib
import os
from pathlib import Path

from refbench.benchmarks.benchmark import Benchmark
from refbench.record import RefBenchError

_MODULES = {"creval": "refbench.benchmarks.creval.benchmark"}

# Files that give another benchmark's checkout away, to name it when a wrong directory was given.
_MARKS = {
    "creval": "bench/instruction.json",
    "multibanana": "from_where.csv",
    "ideabench": "task_split.json",
    "icebench": "data.jsonl",
}


def names() -> tuple[str, ...]:
    return tuple(_MODULES)


def benchmark(name: str) -> Benchmark:
    """The benchmark of that name."""
    if name not in _MODULES:
        near = difflib.get_close_matches(name, _MODULES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(_MODULES)}"
        raise RefBenchError(f"no benchmark is called {name!r}: {hint}")
    found: Benchmark = importlib.import_module(_MODULES[name]).BENCHMARK
    return found


def resolve_data(bench: Benchmark, data: Path | None) -> Path:
    """The directory of the official data: `--data`, else `$REFBENCH_DATA/<benchmark>`."""
    if data is None:
        base = os.environ.get("REFBENCH_DATA")
        if not base:
            raise RefBenchError(
                f"where is {bench.title}? give --data DIR, or set REFBENCH_DATA to the folder of all data"
            )
        data = Path(base) / bench.name
    if not data.exists():
        raise RefBenchError(f"{data} is not there: give --data the directory of a {bench.title} checkout")
    if not data.is_dir():
        raise RefBenchError(f"{data} is a file: give --data the directory of a {bench.title} checkout")
    if not bench.is_checkout(data):
        for parent in (data.parent, *(child for child in sorted(data.iterdir()) if child.is_dir())):
            if bench.is_checkout(parent):
                raise RefBenchError(
                    f"{data} is not the root of a {bench.title} checkout: did you mean --data {parent}?"
                )
        for other, mark in _MARKS.items():
            if other != bench.name and (data / mark).exists():
                raise RefBenchError(
                    f"{data} looks like {other}, not {bench.name}: give --data a {bench.title} checkout"
                )
        raise RefBenchError(f"{data} is no {bench.title} checkout: {bench.layout}")
    return data
