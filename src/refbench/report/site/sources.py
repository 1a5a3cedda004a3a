"""Where the pictures of a run's cases lie: what `--data` says, what the run noted, or `$REFBENCH_DATA`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.runs import Run

_LOOKED_AT = 20
"""Cases whose pictures are looked for before a directory is believed to be theirs."""


def picture_root(runs: Sequence[Run], bench: Benchmark, cases: Sequence[AnyCase], data: Path | None) -> Path | None:
    """The directory that holds the cases' pictures; None where none of the places has any."""
    for root in _places(runs, bench, data):
        if _holds(root, cases):
            return root
    return None


def _places(runs: Sequence[Run], bench: Benchmark, data: Path | None) -> Iterator[Path]:
    if data is not None:
        yield from _inside(data, bench)
        return
    for run in runs:
        noted = [run.notes("pictures").get(""), run.notes("data").get("")]
        yield from (Path(place) for place in noted if place)
    if base := os.environ.get("REFBENCH_DATA"):
        yield from _inside(Path(base), bench)


def _inside(data: Path, bench: Benchmark) -> Iterator[Path]:
    """The directory itself, a checkout in it or in its folder of the benchmark's name, or what a file of cases says."""
    if not data.exists():
        raise RefBenchError(f"{data} is not there: give --data the directory of the cases' pictures")
    for place in (data / bench.name, data):
        if place.is_file() or (place.is_dir() and bench.name != "own" and bench.is_checkout(place)):
            yield bench.load(place, None).picture_root
        if place.is_dir():
            yield place


def _holds(root: Path, cases: Sequence[AnyCase]) -> bool:
    """Whether any of the first pictures is there."""
    named = [picture.name for case in cases for picture in (*case.request.pictures, *case.targets)][:_LOOKED_AT]
    return any((root / name).is_file() for name in named)
