"""Benchmarks from elsewhere: a file, an installed package; and one sentence when they cannot be had."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

from refbench.benchmarks import benchmark, names, registry
from refbench.record import RefBenchError

FILES = Path(__file__).resolve().parents[1] / "support/one_file"


def test_a_file_is_run_once_while_it_is_unchanged() -> None:
    assert benchmark(str(FILES / "rise.py")) is benchmark(str(FILES / "rise.py"))
    assert benchmark(str(FILES / "rise.py")).name == "rise"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "is not there: give a Python file"),
        ("x = 1", "it defines no BENCHMARK"),
        ("BENCHMARK = 7", "its BENCHMARK is of type int"),
        ("\n\n1 / 0", "line 3: it raised ZeroDivisionError"),
        ("def f(:", "it raised SyntaxError"),
        ("import nothing_of_that_name", "it raised ModuleNotFoundError"),
    ],
)
def test_a_file_that_is_none_says_so_in_one_sentence(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "mybench.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RefBenchError, match=says) as caught:
        benchmark(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_installed_packages_add_benchmarks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "plugin_pairs.py").write_text((FILES / "pairs.py").read_text())
    monkeypatch.syspath_prepend(tmp_path)
    group = registry.ENTRY_POINTS
    points = [
        importlib.metadata.EntryPoint("pairs", "plugin_pairs:BENCHMARK", group),
        importlib.metadata.EntryPoint("creval", "plugin_pairs:BENCHMARK", group),
        importlib.metadata.EntryPoint("broken", "plugin_pairs:NOTHING", group),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert benchmark("pairs").name == "pairs"
    assert benchmark("pairs").code, "an editable install keeps its version while its code changes"
    assert not benchmark("creval").code
    assert benchmark("creval").name == "creval", "what is shipped cannot be replaced"
    assert names().count("creval") == 1
    assert "pairs" in names()
    with pytest.raises(RefBenchError, match="the benchmark broken of the package plugin_pairs cannot be loaded"):
        benchmark("broken")
    with pytest.raises(RefBenchError, match="did you mean pairs"):
        benchmark("pairz")


def test_an_edited_file_is_another_benchmark_also_within_the_tick_of_a_clock(tmp_path: Path) -> None:
    path, text = tmp_path / "mybench.py", (FILES / "pairs.py").read_text()
    path.write_text(text)
    first, times = benchmark(str(path)), path.stat()
    path.write_text(text.replace("pairs", "sriap"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = benchmark(str(path))
    assert path.stat().st_size == times.st_size
    assert (first.name, second.name) == ("pairs", "sriap")
    assert first.code != second.code
    assert first.source["benchmark.py"] == text
