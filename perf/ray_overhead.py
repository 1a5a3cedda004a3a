"""What Ray costs on one machine: canny edges of N pictures, embedded and on a fresh Ray, the fixed cost apart from
the cost a picture. CPU seconds of the whole process tree, so that a busy machine changes little; one run, ratios.

    python perf/ray_overhead.py [--pictures 150] [--times 4]
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve()
_TICK_S = 0.05


@dataclass(frozen=True)
class Row:
    key: str
    out: str


class Edges:
    """Decode, find edges, encode, write: what RefBlend does with every picture."""

    def __call__(self, rows: Sequence[Row]) -> list[int]:
        import cv2

        from refbench.extractors.canny import canny
        from refbench.failure import Failure
        from refbench.pictures import decode

        sizes = []
        for row in rows:
            pixels = decode(Path(row.key).read_bytes())
            assert not isinstance(pixels, Failure)
            data = cv2.imencode(".png", canny(pixels))[1].tobytes()
            Path(row.out).write_bytes(data)
            sizes.append(len(data))
        return sizes


def write_pictures(folder: Path, total: int) -> None:
    """JPEGs of 1024 px with edges of all lengths, a few contents under many names."""
    import cv2
    import numpy as np

    for kind in range(min(total, 10)):
        rng = np.random.default_rng(kind)
        pixels = cv2.resize(
            rng.integers(0, 255, (64, 64, 3), dtype=np.uint8), (1024, 1024), interpolation=cv2.INTER_CUBIC
        )
        for _ in range(40):
            corner = rng.integers(0, 1024, 2).tolist()
            cv2.circle(
                pixels, corner, int(rng.integers(10, 200)), rng.integers(0, 255, 3).tolist(), int(rng.integers(1, 6))
            )
        data = cv2.imencode(".jpg", pixels)[1].tobytes()
        for number in range(kind, total, 10):
            (folder / f"{number:06}.jpg").write_bytes(data)


async def extract(engine: str, folder: Path, total: int) -> None:
    from ray_overhead import Row  # not __main__'s, which workers cannot import
    from refbench.engine.workers.engines import make_executor
    from refbench.engine.workers.task import Task

    out = folder / f"{engine}-{total}"
    out.mkdir()
    task = Task(name="edges", factory="ray_overhead:Edges", chunk=8)
    rows = [Row(str(path), str(out / path.stem)) for path in sorted(folder.glob("*.jpg"))[:total]]
    executor = make_executor(engine, None, out)
    async for outcome in executor.run(task, rows):
        assert outcome.failure is None, outcome
    executor.close()
    assert len(list(out.iterdir())) == total


def measured(engine: str, folder: Path, total: int) -> float:
    """CPU seconds of a process of its own and of all that it starts, also of those that others inherit."""
    command = [sys.executable, str(HERE), "--one", engine, "--folder", str(folder), "--pictures", str(total)]
    with subprocess.Popen(command, cwd=HERE.parent) as child:
        spent: dict[int, float] = {}
        while child.poll() is None:
            spent |= usage(child.pid, set(spent))
            time.sleep(_TICK_S)
        if child.returncode:
            raise SystemExit(child.returncode)
    return sum(spent.values())


def usage(root: int, known: set[int]) -> dict[int, float]:
    """CPU seconds by process: of the root, its descendants, and those that were descendants before."""
    parents, seconds = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(entry.name)
            parents[pid] = int(fields[1])
            seconds[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    ours = {root} | known
    grown = True
    while grown:
        new = {pid for pid, parent in parents.items() if parent in ours} - ours
        ours |= new
        grown = bool(new)
    return {pid: seconds[pid] for pid in ours if pid in seconds}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=int, default=150)
    parser.add_argument("--times", type=int, default=4, help="the larger run has so many times the pictures")
    parser.add_argument("--one", choices=("embedded", "ray"))
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.one:
        asyncio.run(extract(given.one, given.folder, given.pictures))
        return
    if sys.platform != "linux" or importlib.util.find_spec("ray") is None:
        print("Ray is not installed here: pip install 'refbench[ray]'")
        return
    few, many = given.pictures, given.pictures * given.times
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_pictures(folder, many)
        print(f"canny edges, 1024 px, chunks of 8, {os.cpu_count()} cores; CPU seconds of the whole process tree")
        each, fixed = {}, {}
        for engine in ("embedded", "ray"):
            low, high = measured(engine, folder, few), measured(engine, folder, many)
            each[engine] = (high - low) / (many - few)
            fixed[engine] = low - each[engine] * few
            print(
                f"  {engine:8}  {few} pictures {low:6.2f}   {many} pictures {high:6.2f}   "
                f"fixed {fixed[engine]:5.2f}   a picture {each[engine] * 1000:6.2f} ms"
            )
    print(f"  Ray / embedded, a picture: {each['ray'] / each['embedded']:.2f}")
    print(f"  Ray's fixed cost beyond embedded's: {fixed['ray'] - fixed['embedded']:.1f} CPU s, as much as "
          f"{(fixed['ray'] - fixed['embedded']) / each['embedded']:.0f} pictures")  # fmt: skip


if __name__ == "__main__":
    main()
