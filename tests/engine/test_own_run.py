"""Own cases and benchmarks in files, judged live, resumed and tabled from the run alone."""

from __future__ import annotations

import asyncio
import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refbench
from refbench.engine import evaluate
from refbench.engine.evaluation import generate_async
from refbench.engine.options import RunOptions
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.report import to_json
from refbench.runs import Run, merge
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from support.campaigns import slow_but
from support.checkout import plain_items, write_outputs
from support.five_criteria import FIVE
from support.judge_server import JudgeServer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

WRAPPED = "suffix({}; text=Please.)"


def marks(text: str) -> str:
    """Marks for whatever criteria the request asks for, in JSON."""
    names = FIVE
    if "Done: " in text:
        return json.dumps({"reasoning": "fine", "score": [4, 5]})
    if "instruction_success" in text:
        names = ["instruction_success", "preservation"]
    return json.dumps({name: 4 + i for i, name in enumerate(names)})


@pytest.fixture
def work(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "pics").mkdir()
    (tmp_path / "out").mkdir()
    with (tmp_path / "cases.jsonl").open("w") as file:
        for n in range(6):
            for name in (f"pics/{n}_a.png", f"pics/{n}_b.png", f"out/case{n}.png"):
                (tmp_path / name).write_bytes(encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)))
            references = [{"path": f"pics/{n}_a.png", "role": "subject"}, {"path": f"pics/{n}_b.png", "role": "style"}]
            row = {
                "id": f"case{n}",
                "instruction": f"Paint the subject {n} in that style.",
                "references": references,
                "tags": ["hard"] if n % 2 else [],
            }
            file.write(json.dumps(row) + "\n")
    return tmp_path


def judge_spec(server: JudgeServer) -> list[str]:
    return [f"j=openai:gpt-4o?base_url={server.url}/v1"]


def test_own_cases_under_a_shipped_rubric(work: Path) -> None:
    with JudgeServer(reply=marks) as server:
        arguments = {
            "models": [f"A=folder:{work / 'out'}"],
            "judges": judge_spec(server),
            "out": work / "run",
            "rubric": "five_criteria",
        }
        done = evaluate(str(work / "cases.jsonl"), **arguments)
        assert len(server.requests) == 6
        content = server.requests[0].body["messages"][0]["content"]
        assert [part["type"] for part in content].count("image_url") == 3
        assert "response_format" in server.requests[0].body
        values = {row.metric: row.value for row in done.result.rows(level="overall")}
        assert values["instruction_alignment"] == 4
        assert values["total"] == pytest.approx((3 * 4 + 3 * 5 + 6 + 7 + 8) / 9)
        assert {row.slice.get("tag") for row in done.result.rows(level="tag")} == {"hard"}
        expected = to_json(score_run(work / "run", draws=50))
        (work / "cases.jsonl").rename(work / "moved.jsonl")
        assert to_json(score_run(work / "run", draws=50)) == expected, "the run keeps its cases and its rubric"
        evaluate(str(work / "moved.jsonl"), **arguments)
        assert len(server.requests) == 6


def test_own_cases_need_a_rubric_and_it_is_part_of_the_run(work: Path) -> None:
    with JudgeServer(reply=marks) as server:
        arguments = {"models": [f"A=folder:{work / 'out'}"], "judges": judge_spec(server), "out": work / "run"}
        with pytest.raises(RefBenchError, match="--rubric"):
            evaluate(str(work / "cases.jsonl"), **arguments)
        with pytest.raises(RefBenchError, match="did you mean five_criteria"):
            evaluate(str(work / "cases.jsonl"), **arguments, rubric="five_criterias")
        evaluate(str(work / "cases.jsonl"), **arguments, rubric="five_criteria", limit=1)
        with pytest.raises(RefBenchError, match="other settings"):
            evaluate(str(work / "cases.jsonl"), **arguments, rubric="viescore_pair")


def test_a_csv_of_cases_and_a_list_of_outputs(work: Path) -> None:
    with (work / "cases.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "instruction", "references"])
        writer.writerows([f"case{n}", "Combine them.", f"pics/{n}_a.png;pics/{n}_b.png"] for n in range(6))
    with (work / "outputs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "path"])
        writer.writerows([f"case{n}", f"out/case{n}.png"] for n in range(5))
    with JudgeServer(reply=marks) as server:
        done = evaluate(
            str(work / "cases.csv"),
            models=[f"A=folder:{work / 'outputs.csv'}"],
            judges=judge_spec(server),
            out=work / "run",
            rubric="five_criteria",
        )
    assert next(iter(done.result.rows(level="overall", metric="total"))).failures == {"missing_output": 1}


def test_outputs_by_pattern(work: Path) -> None:
    for n in range(6):
        (work / f"out/case{n}.png").rename(work / f"out/x_case{n}_s0.png")
    with JudgeServer(reply=marks) as server:
        spec = f"A=folder:{work}/out/x_{{id}}_s{{seed}}.png"
        done = evaluate(
            str(work / "cases.jsonl"),
            models=[spec],
            judges=judge_spec(server),
            out=work / "run",
            rubric="five_criteria",
        )
        assert next(iter(done.result.rows(level="overall", metric="total"))).n_scored == 6
        with pytest.raises(RefBenchError, match=r"has \{task\}: there are id"):
            evaluate(
                str(work / "cases.jsonl"),
                models=[f"A=folder:{work}/out/{{task}}/{{id}}.png"],
                judges=judge_spec(server),
                out=work / "other",
                rubric="five_criteria",
            )


def test_a_benchmark_in_a_file_is_judged_and_its_run_tabled_without_it(work: Path) -> None:
    (data := work / "edits").mkdir()
    rows = []
    for n in range(4):
        shutil.copy(work / f"pics/{n}_a.png", data / f"{n}.png")
        rows.append({"id": f"case{n}", "instruction": "Make it red.", "source": f"{n}.png", "task": "recolour"})
    (data / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shutil.copy(EXAMPLES / "edits.py", work / "mybench.py")
    with JudgeServer(reply=marks) as server:
        done = evaluate(
            str(work / "mybench.py"),
            data=data,
            models=[f"A=folder:{work / 'out'}"],
            judges=judge_spec(server),
            out=work / "run",
        )
    assert len(server.requests) == 4
    value = {"level": "overall", "metric": "total", "model": "A", "protocol": "corrected"}
    assert done.result.value(**value) == pytest.approx(20**0.5)
    (work / "mybench.py").unlink()
    assert score_run(work / "run", draws=0).value(**value) == pytest.approx(20**0.5)


def test_shrunken_pictures_are_part_of_the_record(work: Path) -> None:
    with JudgeServer(reply=marks) as server:
        arguments = {
            "models": [f"A=folder:{work / 'out'}"],
            "judges": judge_spec(server),
            "out": work / "run",
            "rubric": "five_criteria",
            "limit": 1,
        }
        done = evaluate(str(work / "cases.jsonl"), **arguments, settings={"max_side": "4"})
        assert done.result.table.parts["settings"]["max_side"] == "4"
        content = server.requests[0].body["messages"][0]["content"]
        assert all(p["image_url"]["url"].startswith("data:image/jpeg") for p in content if p["type"] == "image_url")
        with pytest.raises(RefBenchError, match="max_side: 4 then, None now"):
            evaluate(str(work / "cases.jsonl"), **arguments)


def test_a_judge_that_moved_and_then_answered_is_not_held_to_its_first_failure(work: Path) -> None:
    arguments = {"models": [f"A=folder:{work / 'out'}"], "out": work / "run", "rubric": "five_criteria"}
    with JudgeServer(reply=marks, status=400, error={"error": {"message": "no such model"}}) as server:
        failed = evaluate(str(work / "cases.jsonl"), **arguments, judges=judge_spec(server))
    with JudgeServer(reply=marks) as server:
        done = evaluate(str(work / "cases.jsonl"), **arguments, judges=judge_spec(server))
    before, after = (next(iter(e.result.rows(level="overall", metric="total"))) for e in (failed, done))
    assert (before.n_scored, before.failures) == (0, {"api_error": 6})
    assert (after.n_scored, after.failures) == (6, {})


def test_merged_runs_of_own_cases_keep_rubric_settings_and_notes(work: Path) -> None:
    with JudgeServer(reply=marks) as server:
        for name, limit in (("one", 2), ("two", 4)):
            evaluate(
                str(work / "cases.jsonl"),
                models=[f"{name}=folder:{work / 'out'}"],
                judges=judge_spec(server),
                out=work / name,
                rubric="five_criteria",
                limit=limit,
            )
        merge([work / "one", work / "two"], work / "both")
        result = score_run(work / "both", draws=0)
        assert {row.model for row in result.table.rows} == {"one", "two"}
        assert len(result.cases) == 4
        merged, first = Run.open(work / "both"), Run.open(work / "one")
        assert merged.info.settings == first.info.settings
        assert merged.notes("family of ") == first.notes("family of ") != {}
        evaluate(
            str(work / "cases.jsonl"),
            models=[f"other=folder:{work / 'out'}"],
            judges=judge_spec(server),
            out=work / "other",
            rubric="viescore_pair",
            limit=1,
        )
    with pytest.raises(RefBenchError, match="other settings"):
        merge([work / "one", work / "other"], work / "third")


@pytest.fixture
def edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Edits of a source after one or two references; model `same` gives the source back, `far` noise."""
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(3)
    rows = []
    for n in range(5):
        for name in (f"s {n}.png", f"a{n}.png", f"b{n}.png", f"far/e {n}.png"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(encode(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)))
        (tmp_path / "same").mkdir(exist_ok=True)
        shutil.copy(tmp_path / f"s {n}.png", tmp_path / f"same/e {n}.png")
        references = [f"a{n}.png", f"b{n}.png"][: 1 + n % 2]
        rows.append({"id": f"e {n}", "instruction": "Edit it.", "source": f"s {n}.png", "references": references})
    del rows[4]["source"]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def measured(work: Path, **more: Any) -> Result:
    models = [f"far=folder:{work / 'far'}", f"same=folder:{work / 'same'}"]
    return evaluate(str(work / "cases.jsonl"), **{"models": models, "out": work / "run", **more}).result


def test_own_cases_are_measured_by_the_metrics_that_are_named(edits: Path) -> None:
    found = measured(edits, metrics="l1,ssim", out=str(edits / "run"))
    assert found.bench.scoring.lower == {"l1"}
    assert found.value(model="same", metric="l1", level="overall") == 0.0
    (row,) = found.rows(model="far", metric="ssim", level="overall")
    assert (row.n_expected, row.n_scored) == (4, 4), "one case has no source: it lowers what is expected"
    (away,) = {s.not_applicable for s in found.scores if s.case == "e 4" and s.metric == "l1"}
    assert away == "it has no source"
    assert to_json(score_run(edits / "run")) == to_json(found)


def test_a_metric_of_references_is_the_mean_over_them(edits: Path) -> None:
    found = measured(edits, metrics=["mse"])
    by_hand = {
        f"e {n}": np.mean(
            [
                refbench.measure("mse", output=edits / f"far/e {n}.png", reference=edits / f"{name}{n}.png").value
                for name in ("a", "b")[: 1 + n % 2]
            ]
        )
        for n in range(5)
    }
    ours = {s.case: s.value for s in found.scores if s.model == "far" and s.metric == "mse"}
    assert ours == pytest.approx(by_hand)
    assert {row.metric for row in found.table.rows} == {"mse"}


def test_metrics_and_a_judge_may_come_one_after_the_other(edits: Path) -> None:
    with JudgeServer(reply=marks) as server:
        more = {"judges": judge_spec(server), "rubric": "viescore_pair"}
        judged = measured(edits, **more)
        asked = len(server.requests)
        both = measured(edits, metrics=["l1"], **more)
        again = measured(edits, **more)
        assert len(server.requests) == asked
    assert "l1" not in {row.metric for row in judged.table.rows}
    assert both.value(model="same", metric="l1", level="overall") == 0.0
    assert to_json(again) == to_json(both), "columns that were asked for once stay"
    (total,) = both.rows(model="same", metric="total", level="overall")
    assert total.value == judged.value(model="same", metric="total", level="overall")


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (["ssimm"], "no metric is called 'ssimm': did you mean ssim?"),
        (["l1_masked"], "l1_masked needs mask and source, and no case has that"),
        (["text_match"], "needs caption, and no case has that"),
        ([], "give --rubric"),
    ],
)
def test_metrics_that_own_cases_cannot_have_are_refused(edits: Path, metrics: list[str], said: str) -> None:
    with pytest.raises(RefBenchError, match=re.escape(said)):
        measured(edits, metrics=metrics)
    assert not (edits / "run").exists()


def test_metrics_that_compare_with_something_are_refused_where_a_benchmark_measures_nothing(
    checkout: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    write_outputs(folder, plain_items(27))
    with pytest.raises(
        RefBenchError, match="--metrics ssim: CREval measures nothing, and beside it only what reads the output"
    ):
        evaluate(
            "creval",
            data=checkout,
            models=[f"A=folder:{folder}"],
            judges=["j=openai:gpt-4o?base_url=http://127.0.0.1:9/v1"],
            metrics=["ssim"],
            out=tmp_path / "run",
        )


def test_a_path_is_taken_wherever_its_text_is(work: Path) -> None:
    shipped = Path(refbench.__file__).parent / "judges/rubrics/five_criteria.md"
    (work / "mine.md").write_text(shipped.read_text("utf-8"), "utf-8")
    with JudgeServer(reply=marks) as server:
        done = evaluate(
            work / "cases.jsonl",
            models=[f"A=folder:{work / 'out'}"],
            judges=judge_spec(server),
            out=work / "run",
            rubric=work / "mine.md",
        )
    assert done.stopped == ""
    with pytest.raises(RefBenchError, match="defines BENCHMARK"):
        refbench.load(work / "none.py")


@pytest.mark.parametrize(
    ("second", "wrapped"),
    slow_but(
        [("mak", "{}"), ("broken", WRAPPED)],
        [(second, wrapped) for second in ("make?stepz=3", "mak", "broken") for wrapped in ("{}", WRAPPED)],
    ),
)
def test_a_model_that_cannot_be_made_is_found_before_another_paints(work: Path, second: str, wrapped: str) -> None:
    (work / "painter.py").write_text(
        f"def paint(request, seed):\n    open({str(work / 'painted')!r}, 'a').write('x')\n"
        "    return request.pictures[0].path\n"
        "def make(steps: int = 1): return paint\n"
        "def broken(): raise RuntimeError('no weights')\n",
        "utf-8",
    )
    models = [f"a=python:{work}/painter.py:paint", "b=" + wrapped.format(f"python:{work}/painter.py:{second}")]
    arguments = {"out": work / "run", "metrics": ["mse"]}
    given = {"benchmark": str(work / "cases.jsonl"), **arguments}
    for attempt in (
        lambda: evaluate(work / "cases.jsonl", models=models, **arguments),
        lambda: asyncio.run(generate_async(RunOptions.of({**given, "rubric": "five_criteria", "models": models}))),
    ):
        shutil.rmtree(work / "run", ignore_errors=True)
        with pytest.raises(RefBenchError, match=r"stepz|has no mak |no weights"):
            attempt()
        assert not (work / "painted").exists()
    evaluate(
        work / "cases.jsonl", models=[models[0], f"b=python:{work}/painter.py:make"], out=work / "new", metrics="mse"
    )
    assert (work / "painted").read_text() == 12 * "x"


@pytest.mark.parametrize("scoring", [{"rubric": "five_criteria"}, {"metrics": "mse"}])
def test_pictures_are_made_without_a_rubric_and_scored_later_by_any(work: Path, scoring: dict[str, str]) -> None:
    cases, models = str(work / "cases.jsonl"), ["a=baseline:copy"]
    given = {"benchmark": cases, "models": models, "out": work / "run"}
    assert asyncio.run(generate_async(RunOptions.of({**given, "limit": 3}))).there == 3
    with pytest.raises(RefBenchError, match="nothing to score yet"):
        score_run(work / "run")
    with JudgeServer(reply=marks) as server:
        judges = judge_spec(server) if "rubric" in scoring else ()
        evaluate(cases, models=models, out=work / "run", judges=judges, limit=3, **scoring)
        assert asyncio.run(generate_async(RunOptions.of(given))).there == 6, "more pictures need no rubric either"
        done = evaluate(cases, models=models, out=work / "run", judges=judges, **scoring)
        assert len(server.requests) == (6 if judges else 0)
        if judges:
            with pytest.raises(RefBenchError, match="other settings"):
                evaluate(cases, models=models, out=work / "run", judges=judges, rubric="viescore_pair")
    metric = "total" if judges else "mse"
    assert [row.n_scored for row in done.result.rows(level="overall", metric=metric)][:1] == [6]
    assert next(iter(score_run(work / "run", draws=50).rows(level="overall", metric=metric))).n_scored == 6


def test_one_error_of_a_judge_that_always_raises_is_printed(work: Path, run_cli: Any) -> None:
    (work / "judge.py").write_text("def ask(prompt): raise RuntimeError('the key has expired')\n", "utf-8")
    words = ("--model", f"A=folder:{work}/out", "--judge", f"j=python:{work}/judge.py:ask", "--out", work / "run")
    code, _, err = run_cli("run", work / "cases.jsonl", "--rubric", "five_criteria", *words)
    assert code == 1
    assert re.search(r"one of them case\d by A, judged by j: .*RuntimeError: the key has expired", err)
