"""`refbench new benchmark`: what it writes works as written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from refbench.benchmarks import benchmark
from refbench.cli.new import new_command
from refbench.record import RefBenchError


def test_the_written_test_passes_as_written(tmp_path: Path) -> None:
    new_command("benchmark", "mybench", out=tmp_path / "new")
    assert benchmark(str(tmp_path / "new/mybench.py")).name == "mybench"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mybench.py"]
    done = subprocess.run(words, cwd=tmp_path / "new", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("precious")
    with pytest.raises(RefBenchError, match="is there already"):
        new_command("benchmark", "mine", out=tmp_path)
    assert (tmp_path / "test_mine.py").read_text() == "precious"
    assert not (tmp_path / "mine.py").exists()


@pytest.mark.parametrize("name", ["my-bench", "class", "3d", "MyBench", "creval", "../x"])
def test_names_that_cannot_be_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RefBenchError):
        new_command("benchmark", name, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_written_files_are_tidy(tmp_path: Path) -> None:
    new_command("benchmark", "mybench", out=tmp_path)
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "120", str(tmp_path)]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 0
    assert (tmp_path / "mybench.py").read_text().count("\n") < 60
