"""What building a dataset costs: references against bare OpenCV, memory by the number of pictures, Ray's fixed cost.

    python perf/refblend.py [--pictures 200] [--side 1024] [--small 1000] [--large 4000] [--rounds 3]

Speed is a ratio within one run, bare OpenCV and the build's own stage in turn, so that other load on the machine
hits both. Targets: 0.85 of the bound; less than 20 % more memory for four times the pictures. Planning alone is
measured by perf/refblend_plan.py.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np

from refbench.builders.refblend.layouts import SourceLayout
from refbench.builders.refblend.references import Extractors, References
from refbench.builders.refblend.sources import LabelledPicture, gather
from refbench.engine.workers.engines import make_executor
from refbench.machine import cores

PLAIN = Extractors({"canny": "canny", "sketch": "sketch_dodge"}, {})


def write_pictures(folder: Path, count: int, side: int, different: int = 64) -> Path:
    """JPEGs with shapes and grain; beyond `different`, the same pixels with a comment, so that no two files are equal."""
    folder.mkdir(parents=True)
    base = []
    for number in range(min(count, different)):
        rng = np.random.default_rng(number)
        pixels = cv2.resize(
            rng.integers(0, 256, (9, 9, 3), dtype=np.uint8), (side, side), interpolation=cv2.INTER_CUBIC
        )
        for _ in range(40):
            x, y, radius = (int(v) for v in rng.integers(4, side, 3))
            cv2.circle(pixels, (x, y), radius // 6, [int(v) for v in rng.integers(0, 256, 3)], -1)
        grain = rng.normal(0, 5, pixels.shape)
        noisy = np.clip(pixels + grain, 0, 255).astype(np.uint8)
        base.append(cv2.imencode(".jpg", noisy, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes())
    for number in range(count):
        data = base[number % len(base)]
        comment = b"\xff\xfe\x00\x06" + number.to_bytes(4, "big")
        (folder / f"{number:06d}.jpg").write_bytes(data[:2] + comment + data[2:])
        (folder / f"{number:06d}.txt").write_text(f"Discs, number {number}")
    return folder


def bare(pictures: list[LabelledPicture], out: Path) -> None:
    """The OpenCV calls and nothing else: decode, edges, sketch, two PNGs, two files."""
    out.mkdir()

    def one(picture: LabelledPicture) -> None:
        pixels = cv2.imdecode(np.frombuffer(Path(picture.path).read_bytes(), np.uint8), cv2.IMREAD_COLOR)
        edges = cv2.Canny(cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY), 100, 200)
        height, width = pixels.shape[:2]
        scale = 256 / min(height, width)
        small = cv2.resize(pixels, (int(width * scale), int(height * scale)), interpolation=cv2.INTER_CUBIC)
        grey = cv2.cvtColor(small, cv2.COLOR_BGR2GRAY)
        ground = cv2.GaussianBlur(255 - grey, (0, 0), 5.12)
        sketch = cv2.divide(cv2.add(grey, 16), 255 - ground + 16, scale=255)
        for name, drawn in (("canny", edges), ("sketch", sketch)):
            (out / f"{picture.sha256}-{name}.png").write_bytes(cv2.imencode(".png", drawn)[1].tobytes())

    with ThreadPoolExecutor(cores()) as threads:
        list(threads.map(one, pictures))


def ours(pictures: list[LabelledPicture], work: Path, engine: str = "embedded") -> None:
    """The build's own stage: checks, executor, record and all."""
    work.mkdir(exist_ok=True)
    references = References(work, PLAIN, ("canny", "sketch"))
    executor = make_executor(engine, None, work)
    try:
        failed = asyncio.run(references.make(pictures, executor))
    finally:
        executor.close()
    assert not failed, failed


def speed(root: Path, pictures: list[LabelledPicture], rounds: int) -> None:
    best: dict[str, float] = {}
    for number in range(rounds):
        for name, run in (("bare OpenCV", bare), ("references", ours)):
            place = root / f"{name}-{number}"
            wall, cpu = time.perf_counter(), time.process_time()
            run(pictures, place)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            shutil.rmtree(place)
            print(f"{name}: {len(pictures) / wall:.1f} pictures/s, {1000 * cpu / len(pictures):.1f} ms CPU each")
            best[name] = min(best.get(name, np.inf), wall)
            best[f"{name} CPU"] = min(best.get(f"{name} CPU", np.inf), cpu)
    share = best["bare OpenCV"] / best["references"]
    print(f"canny, sketch and writing: {share:.2f} of the OpenCV bound on {cores()} cores (target 0.85), "
          f"{best['bare OpenCV CPU'] / best['references CPU']:.2f} of it in CPU")  # fmt: skip


BUILD = "import sys; from refbench.cli.app import main; sys.argv[0] = 'refbench'; main()"


def built(folder: Path, out: Path, *more: str) -> tuple[float, float, float]:
    """A whole build in a process of its own: seconds, CPU seconds of it and its children, megabytes at the most."""
    words = ["blend", "build", str(folder), "--out", str(out), "--types", "canny,sketch_dodge,caption", "--json", *more]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", BUILD, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    told = child.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(child.pid, 0)
    assert status == 0, told
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, used.ru_maxrss / 1024


def memory(root: Path, small: int, large: int) -> None:
    peaks = {}
    for count in (small, large):
        folder = write_pictures(root / f"virtual-{count}", count, 192)
        wall, cpu, peaks[count] = built(folder, root / f"dataset-{count}")
        print(
            f"{count} pictures: {peaks[count]:.0f} MB at most, {wall:.0f} s, {1000 * cpu / count:.1f} ms CPU each, whole build"
        )
        shutil.rmtree(folder)
        shutil.rmtree(root / f"dataset-{count}")
    print(
        f"memory for {large // small} times the pictures: {peaks[large] / peaks[small] - 1:+.1%} (target below +20 %)"
    )


def on_ray(root: Path) -> None:
    """Two sizes give the line: what a build on a fresh Ray costs before the first picture, and for each one."""
    if importlib.util.find_spec("ray") is None:
        print("Ray is not installed: pip install 'refbench[ray]' for its fixed cost and its cost for each picture")
        return
    os.environ.setdefault("RAY_worker_niceness", "0")
    few, many = 50, 450
    folder = write_pictures(root / "for-ray", many, 512)
    walls: dict[tuple[str, int], float] = {}
    for engine in ("embedded", "ray"):
        for count in (few, many):
            walls[engine, count], _, _ = built(
                folder, root / f"{engine}-{count}", "--engine", engine, "--limit", str(count)
            )
    for engine in ("embedded", "ray"):
        each = (walls[engine, many] - walls[engine, few]) / (many - few)
        print(
            f"{engine}: {walls[engine, few] - few * each:.1f} s fixed, {1000 * each:.1f} ms a picture ({few} and {many} pictures)"
        )


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, default in (("pictures", 200), ("side", 1024), ("small", 1000), ("large", 4000), ("rounds", 3)):
        asked.add_argument(f"--{name}", type=int, default=default)
    wanted = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="refbench-") as place:
        root = Path(place)
        folder = write_pictures(root / "in", wanted.pictures, wanted.side)
        pictures = list(gather(folder, SourceLayout(), root / "work").pictures)
        speed(root, pictures, wanted.rounds)
        memory(root, wanted.small, wanted.large)
        on_ray(root)


if __name__ == "__main__":
    main()
