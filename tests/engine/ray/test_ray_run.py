"""`refbench run --engine ray`: metrics and local models on a Ray of this machine give the run that embedded gives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.engine import evaluate
from refbench.pictures import encode
from refbench.runs import Run
from refbench.tables.result import Result

pytest.importorskip("ray.cluster_utils")

BENCH = '''
from refbench.benchmarks.kit import Measured, benchmark
from refbench.case import Case, Picture, Request
from refbench.metrics import metric
from refbench.pictures import Pixels

@metric(better="higher", range=(0, 1))
def deadly(output: Pixels) -> float:
    """Ends its process on a white picture."""
    import os, signal
    if output.min() == 255:
        os.kill(os.getpid(), signal.SIGSEGV)
    return float(output.mean()) / 255

def load(root):
    for path in sorted((root / "src").iterdir()):
        source = Picture(name=f"src/{path.name}", role="source")
        yield Case(id=path.stem, request=Request(instruction=path.stem, pictures=(source,)), cluster=path.stem, details={})

def measure(case):
    (source,) = case.request.pictures
    return [Measured("l1", "l1", {"source": source}), Measured("deadly", "deadly")]

BENCHMARK = benchmark(name="mine", load=load, measure=measure, measured={"l1": (0, 1), "deadly": (0, 1)})
'''
PAINTER = """
import os
import numpy as np
from pathlib import Path

def painter(shade: int = 0):
    def paint(request, seed):
        if request.instruction == "c2":
            os._exit(4)
        if request.instruction == "c3":
            raise ValueError("no brush")
        if request.instruction == "c4":
            return b"no picture at all"
        assert Path(request.pictures[0].path).stat().st_size
        return np.full((12, 16, 3), shade + seed, np.uint8)
    return paint
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six cases; of folder A the second picture is white, the fourth is none, the fifth is missing."""
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    for folder in ("src", "a"):
        (tmp_path / folder).mkdir()
        for i in range(6):
            noise = encode(rng.integers(0, 200, (12, 16, 3), dtype=np.uint8))
            (tmp_path / folder / f"c{i}.png").write_bytes(noise)
    (tmp_path / "a/c1.png").write_bytes(encode(np.full((12, 16, 3), 255, np.uint8)))
    (tmp_path / "a/c3.png").write_bytes(b"not a picture")
    (tmp_path / "a/c4.png").unlink()
    (tmp_path / "mine.py").write_text(BENCH)
    (tmp_path / "paint.py").write_text(PAINTER)
    return tmp_path


MODELS = ["A=folder:a", "P=python:./paint.py:painter?shade=9&workers=2"]


def found(result: Result) -> dict[Any, Any]:
    return {
        (s.case, s.model, s.metric, s.protocol): s.value if s.failure is None else (s.failure.kind, s.failure.detail)
        for s in result.scores
    }


def test_a_run_on_ray_has_the_scores_of_one_machine_and_prints_nothing_of_rays(work: Path) -> None:
    options = [word for model in MODELS for word in ("--model", model)]
    command = [sys.executable, "-m", "refbench", "run", "mine.py", *options, "--data", ".", "--out", "on_ray"]
    done = subprocess.run(
        [*command, "--engine", "ray", "--json"], capture_output=True, text=True, cwd=work, check=False
    )
    assert done.returncode == 1, done.stderr  # more failed than is allowed
    assert json.loads(done.stdout)
    why = re.compile(r"Exit code 1: |  \d+ \w+, one of them ")
    assert [line for line in done.stderr.splitlines() if not why.match(line)] == [], "but why some failed"

    here = evaluate("mine.py", models=MODELS, data=Path(), out=work / "here").result
    before = len(list(Run.open(work / "on_ray").evidence()))
    again = evaluate("mine.py", models=MODELS, data=Path(), out=work / "on_ray", metrics=("none",)).result
    assert found(again) == found(here)
    kinds = {key[:2]: value[0] for key, value in found(here).items() if isinstance(value, tuple) and key[2] == "deadly"}
    assert kinds == {
        ("c1", "A"): "worker_died",
        ("c3", "A"): "unreadable_picture",
        ("c4", "A"): "missing_output",
        ("c2", "P"): "worker_died",
        ("c3", "P"): "missing_output",
        ("c4", "P"): "unreadable_picture",
    }
    assert before == len(list(Run.open(work / "here").evidence()))
    assert not list((work / "on_ray").glob(".part-*"))
