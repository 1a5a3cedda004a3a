"""`refbench run` over several benchmarks: one budget, one page, equal requests painted once, and what cannot be run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from refbench.pictures import encode
from refbench.runs import Run
from support.judge_server import JudgeServer, dice

Refbench = Callable[..., tuple[int, str, str]]

BENCH = """
from refbench.benchmarks.kit import asks, benchmark, case, last_mark, rows

def load(root):
    for row in rows(root / "cases.jsonl"):
        yield case(row["id"], row["prompt"], {"source": row["image"]})

@asks("mark", reads=last_mark("Mark", 0, 10))
def mark(case, shown):
    return ["Picture:", shown.output, "NAME asks: " + case.request.instruction]

BENCHMARK = benchmark(name="NAME", load=load, judge=[mark])
"""
PAINT = """
from pathlib import Path

import numpy as np
from refbench.pictures import decode, encode

def paint(request, seed=0):
    with Path("PAINTED").open("a") as file:
        file.write(request.instruction + chr(10))
    return encode(np.full((8, 8, 3), len(request.instruction), dtype=np.uint8))
"""
PROMPTS = {"one": ("shared", "one only"), "two": ("shared", "two only"), "three": ("three a", "three b")}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Three benchmarks, two of which have a request in common, and a painter that writes down what it paints."""
    for name, prompts in PROMPTS.items():
        (tmp_path / f"{name}.py").write_text(BENCH.replace("NAME", name))
        data = tmp_path / "data" / name
        data.mkdir(parents=True)
        (data / "a.png").write_bytes(encode(np.full((6, 6, 3), 90, dtype=np.uint8)))
        rows = [{"id": f"{name}{n}", "prompt": prompt, "image": "a.png"} for n, prompt in enumerate(prompts)]
        (data / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "paint.py").write_text(PAINT.replace("PAINTED", str(tmp_path / "painted.txt")))
    return tmp_path


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer(reply=lambda text: f"Looked.\nMark: {int(dice(text, 'mark') * 11)}") as server:
        yield server


def words(work: Path, judge: JudgeServer, names: str = "one,two,three", *more: str) -> list[str]:
    chosen = ",".join(f"{work}/{name}.py" for name in names.split(","))
    models = ["--model", f"A=python:{work}/paint.py:paint?price=0", "--model", "B=baseline:copy"]
    asked = f"j=openai:gpt-5?base_url={judge.url}/v1"
    return ["run", chosen, *models, "--judge", asked, "--data", f"{work}/data", "--out", f"{work}/out", *more]


def test_one_command_runs_three_benchmarks_and_prints_one_page(
    work: Path, judge: JudgeServer, run_cli: Refbench
) -> None:
    code, out, said = run_cli(*words(work, judge))
    assert code == 0, said
    for name in PROMPTS:
        assert Run.open(work / "out" / name).info.benchmark == name
        assert sum(line.split()[:1] == [name] for line in out.splitlines()) >= 2, "a line for each of two models"
    assert "Side by side" in out
    assert all(len(line) <= 80 for line in out.splitlines()[:7])
    asked = len(judge.requests)
    assert asked == 12
    assert run_cli(*words(work, judge))[0] == 0
    assert len(judge.requests) == asked, "the same command resumes, and nothing is paid for twice"


def test_equal_requests_are_painted_once_and_judged_in_each(work: Path, judge: JudgeServer, run_cli: Refbench) -> None:
    assert run_cli(*words(work, judge))[0] == 0
    painted = (work / "painted.txt").read_text().split("\n")[:-1]
    assert sorted(painted) == ["one only", "shared", "three a", "three b", "two only"]
    first, second = (
        {o.case: o for o in Run.open(work / "out" / name).outputs() if o.model == "A"}
        for name in PROMPTS
        if name != "three"
    )
    assert first["one0"].content == second["two0"].content
    assert second["two0"].provenance["shared"] == "one" and second["two0"].charged_usd == 0
    assert "shared" not in first["one0"].provenance and "shared" not in second["two1"].provenance


def test_other_pictures_another_seed_and_other_settings_are_no_equal_requests(
    work: Path, judge: JudgeServer, run_cli: Refbench
) -> None:
    (work / "data/two/a.png").write_bytes(encode(np.full((6, 6, 3), 91, dtype=np.uint8)))
    assert run_cli(*words(work, judge))[0] == 0
    assert (work / "painted.txt").read_text().count("shared\n") == 2, "the same words about another picture"


def test_a_benchmark_without_data_is_said_and_the_others_run(work: Path, judge: JudgeServer, run_cli: Refbench) -> None:
    (work / "data/two").rename(work / "elsewhere")
    code, out, said = run_cli(*words(work, judge))
    assert code == 1 and "1 benchmark of 3 not run: two" in said
    assert "two was not run: no data" in " ".join(out.split())
    assert not (work / "out/two").exists() and Run.open(work / "out/three").outputs()
    (work / "elsewhere").rename(work / "data/two")
    code, out, said = run_cli(*words(work, judge))
    assert code == 0 and "not run" not in out + said


def test_when_nothing_can_be_run_it_is_bad_input(work: Path, judge: JudgeServer, run_cli: Refbench) -> None:
    code, _, said = run_cli(*words(work, judge)[:-3], f"{work}/nowhere", "--out", f"{work}/out")
    assert code == 2 and "none of 3 benchmarks can be run" in said
    code, _, said = run_cli(*words(work, judge, "one,two,one"))
    assert code == 2 and "one is named twice" in said
    code, _, said = run_cli(*words(work, judge, "one,two", "--subset", "x"))
    assert code == 2 and "--subset is about one benchmark" in said
    code, _, said = run_cli(*words(work, judge, "one,two", "--set", "nothing=1"))
    assert code == 2 and "none of these benchmarks has that setting" in said
    code, _, said = run_cli(*[word for word in words(work, judge, "one,two") if not word.startswith(("--judge", "j="))])
    assert code == 2 and said.count("it is scored by a judge, and no --judge is given") == 1
    code, _, said = run_cli(*words(work, judge, "one,two", "--by", "task"))
    assert code == 2 and "--by and --items are about one benchmark" in said
    assert not judge.requests


def test_the_budget_is_one_over_all_and_over_commands(work: Path, judge: JudgeServer, run_cli: Refbench) -> None:
    """A call costs 0.0011 usd here; what it may cost at most is set aside before it is made."""
    chosen = words(work, judge)
    chosen[chosen.index("--judge") + 1] += "&price=1,1"
    code, out, said = run_cli(*chosen, "--budget", "0.04usd")
    assert code == 3 and "stopped by budget" in out
    spent = sum(Run.open(work / "out" / name).spent_usd() for name in PROMPTS)
    assert 0 < spent <= 0.04
    done = len(judge.requests)
    assert done < 12
    assert run_cli(*chosen, "--budget", "0.04usd")[0] == 3
    assert sum(Run.open(work / "out" / name).spent_usd() for name in PROMPTS) <= 0.04
    code, out, said = run_cli(*chosen, "--budget", "1usd")
    assert code == 0, said
    assert len(judge.requests) == 12


def test_outputs_in_folders_are_found_by_the_name_of_the_benchmark(
    work: Path, judge: JudgeServer, run_cli: Refbench
) -> None:
    for name in ("one", "two"):
        (work / "made" / name).mkdir(parents=True)
        for n in range(2):
            (work / "made" / name / f"{name}{n}.png").write_bytes(encode(np.full((8, 8, 3), n, dtype=np.uint8)))
    chosen = words(work, judge, "one,two")
    chosen[chosen.index("--model") + 1] = f"A=folder:{work}/made/{{benchmark}}"
    code, out, said = run_cli(*chosen, "--json")
    assert code == 0, said
    told = json.loads(out)
    assert [one["benchmark"] for one in told["benchmarks"]] == ["one", "two"]
    for one in told["benchmarks"]:
        rows = [row for row in one["result"]["rows"] if row["model"] == "A" and row["slice"] == {"level": "overall"}]
        assert rows and all(row["n_scored"] == 2 for row in rows) and one["not_run"] is None


def test_all_passes_over_what_is_not_there(
    work: Path, judge: JudgeServer, run_cli: Refbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refbench.engine.several.names", lambda: tuple(f"{work}/{name}.py" for name in PROMPTS))
    chosen = words(work, judge)
    chosen[1] = "all"
    code, out, said = run_cli(*chosen)
    assert code == 0 and all(name in out for name in PROMPTS), said
