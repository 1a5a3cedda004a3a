"""A run goes on only with what it was made of: what changed is refused before anything is paid for, or replaces by
record what it was."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refbench.engine import Evaluation, evaluate
from refbench.judges.rubric import rubric_source
from refbench.machine import unfinished
from refbench.pictures import decode, encode
from refbench.record import RefBenchError
from refbench.runs import Run, Shard, merge
from refbench.runs.run import RunInfo
from refbench.tables.scoring import score_run
from support.five_criteria import FIVE
from support.judge_server import JudgeServer

CASES = 5


def picture(number: int) -> bytes:
    """A picture whose mean says which it is."""
    return encode(np.full((8, 8, 3), number, np.uint8))


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer() as server:
        server.reply = marks(7)
        yield server


def marks(value: int) -> Any:
    return lambda text: json.dumps(dict.fromkeys(FIVE, value))


def lay_out(root: Path) -> Path:
    """Five cases with a source and a reference each, and the outputs of one model."""
    (root / "pics").mkdir(parents=True)
    (root / "out").mkdir()
    with (root / "cases.jsonl").open("w") as file:
        for n in range(CASES):
            (root / f"pics/{n}.png").write_bytes(picture(n))
            for name in (f"case{n}", f"case{n}_s1", f"case{n}_s2"):
                (root / f"out/{name}.png").write_bytes(picture(101 + n))
            file.write(
                json.dumps({"id": f"case{n}", "instruction": f"Do {n}.", "references": [f"pics/{n}.png"]}) + "\n"
            )
    return root


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return lay_out(tmp_path)


def run(work: Path, server: JudgeServer, **changes: Any) -> Evaluation:
    arguments: dict[str, Any] = {
        "models": [f"A=folder:{work / 'out'}"],
        "judges": [f"j=openai:gpt-4o?base_url={server.url}/v1&price=1,10"],
        "out": work / "run",
        "rubric": "five_criteria",
    }
    return evaluate(str(work / "cases.jsonl"), **{**arguments, **changes})


def total(evaluation: Evaluation) -> float | None:
    return evaluation.result.value(model="A", metric="total", protocol="corrected", level="overall")


def values(path: Path) -> dict[str, float | None]:
    return {s.case: s.value for s in score_run(path, draws=0).scores if s.metric == "visual_quality"}


# --- refused before anything is paid ------------------------------------------------------------------------------


def test_a_changed_output_is_refused_before_anything_is_paid(work: Path, judge: JudgeServer) -> None:
    run(work, judge)
    (work / "out/case3.png").write_bytes(picture(200))
    judge.requests.clear()
    with pytest.raises(RefBenchError, match=r"1 outputs changed.*case3.*--replace"):
        run(work, judge)
    assert not judge.requests


def test_an_output_that_is_gone_is_refused(work: Path, judge: JudgeServer) -> None:
    run(work, judge)
    (work / "out/case3.png").unlink()
    with pytest.raises(RefBenchError, match=r"case3, which is gone"):
        run(work, judge)


def test_another_folder_under_the_same_name_is_refused_after_a_few_cases(work: Path, judge: JudgeServer) -> None:
    run(work, judge, limit=3)
    other = work / "other"
    other.mkdir()
    for n in range(CASES):
        (other / f"case{n}.png").write_bytes(picture(50 + n))
    judge.requests.clear()
    with pytest.raises(RefBenchError, match="3 outputs changed"):
        run(work, judge, models=[f"A=folder:{other}"])
    assert not judge.requests
    run(work, judge, models=[f"B=folder:{other}"])


def test_a_model_of_another_kind_under_the_same_name_is_refused(work: Path, judge: JudgeServer) -> None:
    run(work, judge, limit=3)
    judge.requests.clear()
    with pytest.raises(RefBenchError, match="other settings"):
        run(work, judge, models=["A=baseline:copy"])
    assert not judge.requests


@pytest.mark.parametrize("change", ["other", "gone"])
def test_a_changed_reference_is_refused_and_cannot_be_replaced(work: Path, judge: JudgeServer, change: str) -> None:
    run(work, judge)
    if change == "other":
        (work / "pics/2.png").write_bytes(picture(222))
    else:
        (work / "pics/2.png").unlink()
    judge.requests.clear()
    with pytest.raises(RefBenchError, match=r"1 picture of the cases changed.*2\.png.*another --out"):
        run(work, judge, replace=True)
    assert not judge.requests


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("j=openai:gpt-4o?base_url={url}/v1&price=1,10&temperature=0", "parameters: {} then, {'temperature': 0} now"),
        ("j=openai:gpt-4o?base_url={url}/v1&price=1,10&max_tokens=50", "max_tokens"),
        ("j=openai:gpt-5?base_url={url}/v1&price=1,10", "model: gpt-4o then, gpt-5 now"),
        ("j=gemini:gpt-4o?base_url={url}/v1&price=1,10", "endpoint"),
    ],
)
def test_a_judge_that_is_asked_otherwise_is_refused(work: Path, judge: JudgeServer, spec: str, says: str) -> None:
    run(work, judge, limit=3)
    judge.requests.clear()
    with pytest.raises(RefBenchError) as refused:
        run(work, judge, judges=[spec.format(url=judge.url)])
    assert says in str(refused.value)
    assert not judge.requests
    run(
        work, judge, judges=[spec.format(url=judge.url).replace("j=openai", "k=openai").replace("j=gemini", "k=openai")]
    )


def test_a_rubric_that_changed_is_refused(work: Path, judge: JudgeServer) -> None:
    text, _ = rubric_source("five_criteria")
    (work / "mine.md").write_text(text)
    run(work, judge, rubric=str(work / "mine.md"))
    (work / "mine.md").write_text(text + "\nBe strict.\n")
    judge.requests.clear()
    with pytest.raises(RefBenchError, match="wording"):
        run(work, judge, rubric=str(work / "mine.md"))
    assert not judge.requests


def test_what_was_never_answered_may_be_asked_otherwise(work: Path, judge: JudgeServer) -> None:
    judge.status, judge.error = 404, {"error": {"message": "no such model"}}
    with pytest.raises(RefBenchError, match="does not know the model"):
        run(work, judge, judges=[f"j=openai:gpt4o?base_url={judge.url}/v1"])
    judge.status = None
    assert total(run(work, judge)) == 7


def test_a_judge_that_moved_is_the_same_judge_and_is_not_asked_again(work: Path, judge: JudgeServer) -> None:
    run(work, judge, limit=3)
    with JudgeServer(reply=marks(7)) as elsewhere:
        run(work, elsewhere)
        assert len(elsewhere.requests) == CASES - 3
    assert len(judge.requests) == 3
    run(work, judge)
    assert len(judge.requests) == 3


# --- what has not changed -----------------------------------------------------------------------------------------


def test_files_that_were_touched_copied_or_moved_are_the_same(work: Path, judge: JudgeServer) -> None:
    run(work, judge)
    asked = len(judge.requests)
    for file in (work / "out").iterdir():
        os.utime(file)
    shutil.copytree(work / "out", work / "copy")
    shutil.move(work / "pics", work / "pics-old")
    shutil.copytree(work / "pics-old", work / "pics")
    before = score_run(work / "run").table
    run(work, judge, models=[f"A=folder:{work / 'copy'}"])
    run(work, judge)
    assert len(judge.requests) == asked
    assert score_run(work / "run").table == before


def test_the_run_is_the_same_from_another_directory(
    work: Path, judge: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(work)
    run(Path(), judge)
    monkeypatch.chdir(work.parent)
    run(Path(work.name), judge)
    assert len(judge.requests) == CASES


def test_outputs_that_were_missing_may_come(work: Path, judge: JudgeServer) -> None:
    late = (work / "out/case1.png").read_bytes()
    (work / "out/case1.png").unlink()
    run(work, judge)
    (work / "out/case1.png").write_bytes(late)
    assert total(run(work, judge)) == 7
    assert len(judge.requests) == CASES


# --- replacing by record ------------------------------------------------------------------------------------------


def test_replaced_outputs_are_judged_anew_and_what_was_paid_stays_paid(work: Path, judge: JudgeServer) -> None:
    run(work, judge)
    paid = Run.open(work / "run").spent_usd()
    (work / "out/case3.png").write_bytes(picture(200))
    judge.reply = marks(2)
    done = run(work, judge, replace=True)
    assert values(work / "run") == {f"case{n}": 2.0 if n == 3 else 7.0 for n in range(CASES)}
    assert Run.open(work / "run").spent_usd() == pytest.approx(paid * (CASES + 1) / CASES)
    assert "1 results are about outputs that were replaced" in " ".join(done.result.notes)
    run(work, judge)
    assert len(judge.requests) == CASES + 1, "and that is what stands now"


def test_a_picture_that_comes_back_costs_nothing(work: Path, judge: JudgeServer) -> None:
    run(work, judge)
    before, old = values(work / "run"), (work / "out/case3.png").read_bytes()
    (work / "out/case3.png").write_bytes(picture(200))
    judge.reply = marks(2)
    run(work, judge, replace=True)
    (work / "out/case3.png").write_bytes(old)
    run(work, judge, replace=True)
    assert len(judge.requests) == CASES + 1
    assert values(work / "run") == before


@pytest.mark.parametrize("way", ["gone", "broken"])
def test_an_output_replaced_by_nothing_is_a_failure(work: Path, judge: JudgeServer, way: str) -> None:
    run(work, judge)
    if way == "gone":
        (work / "out/case3.png").unlink()
    else:
        (work / "out/case3.png").write_bytes(b"no picture")
    done = run(work, judge, replace=True)
    (score,) = [s for s in done.result.scores if s.case == "case3" and s.metric == "visual_quality"]
    assert score.failure is not None
    assert score.failure.kind == ("missing_output" if way == "gone" else "unreadable_picture")
    assert len(judge.requests) == CASES


def test_killed_between_the_record_and_the_reply_nothing_old_stands(work: Path, judge: JudgeServer) -> None:
    run(work, judge)
    (work / "out/case3.png").write_bytes(picture(200))
    (work / "out/case4.png").write_bytes(picture(201))
    judge.status, judge.error = 401, {"error": {"message": "no"}}
    with pytest.raises(RefBenchError, match="refuses the key"):
        run(work, judge, replace=True)
    scores = {s.case: s for s in score_run(work / "run", draws=0).scores if s.metric == "visual_quality"}
    assert {case for case, score in scores.items() if score.value is None} == {"case3", "case4"}
    assert scores["case3"].not_asked
    judge.status, judge.reply = None, marks(2)
    run(work, judge)
    assert values(work / "run")["case3"] == values(work / "run")["case4"] == 2.0


def test_shards_replace_all_of_a_model_or_nothing(work: Path, judge: JudgeServer) -> None:
    for index in (1, 2):
        run(work, judge, shard=Shard(index=index, count=2))
    for n in range(CASES):
        (work / f"out/case{n}.png").write_bytes(picture(200 + n))
    judge.reply = marks(2)
    judge.requests.clear()
    run(work, judge, shard=Shard(index=1, count=2), replace=True)
    assert set(values(work / "run").values()) <= {2.0, None}, "no old mark beside a new one"
    run(work, judge, shard=Shard(index=2, count=2), replace=True)
    assert set(values(work / "run").values()) == {2.0}
    run(work, judge)
    assert len(judge.requests) == CASES, "and nothing is asked again under another sharding"


def test_a_merge_honours_what_one_of_the_runs_has_replaced(work: Path, judge: JudgeServer) -> None:
    run(work, judge)
    shutil.copytree(work / "run", work / "old")
    merge([work / "old"], work / "both")
    (work / "out/case3.png").write_bytes(picture(200))
    judge.reply = marks(2)
    run(work, judge, replace=True)
    paid = Run.open(work / "run").spent_usd()
    for sources in ([work / "old", work / "run"], [work / "run", work / "old"]):
        for out in (work / "both", work / f"new-{sources[0].name}"):
            merge(sources, out)
            merge([work / "old"], out)
            assert values(out) == values(work / "run")
            assert Run.open(out).spent_usd() == pytest.approx(paid)


def test_runs_whose_judges_or_pictures_differ_do_not_merge(work: Path, judge: JudgeServer) -> None:
    run(work, judge)
    run(work, judge, out=work / "warm", judges=[f"j=openai:gpt-4o?base_url={judge.url}/v1&temperature=1"])
    with pytest.raises(RefBenchError, match="would mix two judges"):
        merge([work / "run", work / "warm"], work / "both")
    (work / "pics/2.png").write_bytes(picture(222))
    run(work, judge, out=work / "redrawn")
    with pytest.raises(RefBenchError, match=r"other pictures under the name .*2\.png"):
        merge([work / "run", work / "redrawn"], work / "third")


def test_runs_whose_models_of_one_name_differ_do_not_merge(work: Path, judge: JudgeServer) -> None:
    """Three cases of one folder and the others of another would be a number of no model."""
    other = work / "other"
    other.mkdir()
    for n in range(CASES):
        (other / f"case{n}.png").write_bytes(picture(50 + n))
    run(work, judge, limit=3)
    run(work, judge, out=work / "second", models=[f"A=folder:{other}"])
    run(work, judge, out=work / "copied", models=["A=baseline:copy"])
    for sources in (["run", "second"], ["second", "run"], ["run", "copied"]):
        with pytest.raises(RefBenchError, match="would mix two models"):
            merge([work / name for name in sources], work / "both")
    merge([work / "run"], work / "both")
    with pytest.raises(RefBenchError, match=r"other pictures of case .* would mix two models"):
        merge([work / "second"], work / "both")


def test_a_folder_that_is_rewritten_while_the_run_goes_on_is_judged_as_it_was(work: Path, judge: JudgeServer) -> None:
    def rewrite(text: str) -> str:
        for n in range(CASES):
            (work / f"out/case{n}.png").write_bytes(picture(200 + n))
        return str(marks(7)(text))

    judge.reply = rewrite
    done = run(work, judge, repeats=2, concurrency=1)
    sent = {output.pictures[0].sha256 for output in done.run.outputs()}
    parts = [p for seen in judge.requests for p in seen.body["messages"][0]["content"] if p["type"] == "image_url"]
    seen = {hashlib.sha256(base64.b64decode(p["image_url"]["url"].split(",")[1])).hexdigest() for p in parts}
    assert sent <= seen and len(seen) == 2 * CASES, "one state of each output for all its questions"
    judge.requests.clear()
    with pytest.raises(RefBenchError, match="outputs changed"):
        run(work, judge, repeats=2)
    assert not judge.requests


# --- the fingerprint ----------------------------------------------------------------------------------------------


def test_the_fingerprint_has_what_was_asked_and_what_was_shown(work: Path, judge: JudgeServer) -> None:
    plain = run(work, judge, out=work / "1").result.table
    same = run(work, judge, out=work / "2").result.table
    warm = [f"j=openai:gpt-4o?base_url={judge.url}/v1&temperature=1"]
    short = [f"j=openai:gpt-4o?base_url={judge.url}/v1&max_tokens=99"]
    warmer = run(work, judge, out=work / "3", judges=warm).result.table
    shorter = run(work, judge, out=work / "4", judges=short).result.table
    (work / "pics/2.png").write_bytes(picture(222))
    redrawn = run(work, judge, out=work / "5").result.table
    assert plain.fingerprint == same.fingerprint
    assert warmer.parts["asked"]["j"]["parameters"] == {"temperature": 1}
    assert len({t.fingerprint for t in (plain, warmer, shorter, redrawn)}) == 4


# --- asking again -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["refused", "unparsable", "out_of_range"])
def test_a_failure_that_is_a_reply_is_tried_again_when_asked_for(work: Path, judge: JudgeServer, kind: str) -> None:
    said = {"refused": "I cannot help with that.", "unparsable": "Nice weather.", "out_of_range": marks(77)("")}[kind]
    judge.reply = lambda text: said if "Do 1." in text else marks(7)(text)
    first = run(work, judge)
    assert {s.failure.kind for s in first.result.scores if s.failure} == {kind}
    judge.reply, asked, paid = marks(5), len(judge.requests), first.run.spent_usd()
    run(work, judge)
    assert len(judge.requests) == asked, "final failures are not tried again by themselves"
    again = run(work, judge, retry=[kind])
    assert len(judge.requests) == asked + 1
    assert {s.case: s.value for s in again.result.scores if s.metric == "visual_quality"}["case1"] == 5
    assert again.run.spent_usd() > paid
    assert values(work / "run")["case0"] == 7
    run(work, judge, retry=[kind])
    assert len(judge.requests) == asked + 1
    merge([work / "run"], work / "merged")
    assert values(work / "merged") == values(work / "run")
    assert Run.open(work / "merged").spent_usd() == pytest.approx(Run.open(work / "run").spent_usd())


def test_a_retry_that_is_not_answered_leaves_what_was_said(work: Path, judge: JudgeServer) -> None:
    judge.reply = lambda text: "I cannot help with that." if "Do 1." in text else marks(7)(text)
    run(work, judge)
    judge.status, judge.error = 400, {"error": {"message": "out of order"}}
    again = run(work, judge, retry=["refused"])
    assert {s.failure.kind for s in again.result.scores if s.failure} == {"refused"}
    judge.status, judge.reply = None, marks(5)
    assert run(work, judge, retry=["refused"]).result.failures() == []


# --- any history --------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("paint"), st.integers(0, CASES - 1), st.integers(101, 110)),
        st.tuples(st.just("run"), st.sampled_from([None, 1, 2]), st.booleans()),
        st.tuples(st.just("merge"), st.just(0), st.just(0)),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, seeds=st.integers(1, 2))
def test_whatever_happened_before_a_mark_is_of_the_picture_that_stands(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any, Any]], seeds: int
) -> None:
    """The judge gives each picture its own mark, so a mark of another picture would show."""
    work = lay_out(tmp_path_factory.mktemp("history"))
    with JudgeServer() as server:

        def mark(text: str) -> str:
            parts = [p for p in server.requests[-1].body["messages"][0]["content"] if p["type"] == "image_url"]
            pixels = decode(base64.b64decode(parts[-1]["image_url"]["url"].split(",")[1]))
            return str(marks(int(np.asarray(pixels).mean()) - 100)(text))

        server.reply = mark
        out = work / "run"
        for what, first, second in steps:
            if what == "paint":
                for name in (f"case{first}", f"case{first}_s1"):
                    (work / f"out/{name}.png").write_bytes(picture(second))
            elif what == "merge" and out.exists():
                merge([out], work / f"merged-{out.name}")
                out = work / f"merged-{out.name}"
            elif what == "run":
                shard = Shard(index=first, count=2) if first else None
                asked = len(server.requests)
                try:
                    run(work, server, out=out, seeds=seeds, shard=shard, replace=second, concurrency=1)
                except RefBenchError as error:
                    assert "--replace" in str(error)
                    assert len(server.requests) == asked
        run(work, server, out=out, seeds=seeds, replace=True, concurrency=1)
        asked = len(server.requests)
        run(work, server, out=out, seeds=seeds)
        assert len(server.requests) == asked, "running again costs nothing"
        for score in score_run(out, draws=0).scores:
            if score.metric == "visual_quality":
                there = (work / f"out/{score.case}.png").read_bytes()
                (number,) = [n for n in range(101, 111) if picture(n) == there]
                assert score.value == number - 100


# --- the code that reads -------------------------------------------------------------------------------------------

MYBENCH = '''"""Marks of a judge, read by code of the user's own."""
import json
from pathlib import Path
from refbench.benchmarks.kit import Call, Measured, benchmark
from refbench.case import Case, Picture, Request

def load(root):
    for n in range(4):
        pictures = (Picture(name=f"pics/{n}.png", role="source"),)
        yield Case[dict](id=f"case{n}", request=Request(instruction=f"Do {n}.", pictures=pictures), cluster=f"c{n}", details={})

def ask(case, material):
    return ["Result:", material.output, "Mark it from 0 to 10 as JSON."]

def read(case, reply):
    return {"good": float(json.loads(reply)["visual_quality"]) * FACTOR}

def measure(case):
    return [Measured("l1", "l1", {"source": case.request.pictures[0]})]

FACTOR = 0.5
BENCHMARK = benchmark(
    name="mine", load=load, judge=[Call("marks", {"good": (0, 10)}, ask, read)],
    measure=measure, measured={"l1": (0, 1)},
)
'''


@pytest.fixture
def mybench(work: Path) -> Path:
    (work / "mybench.py").write_text(MYBENCH)
    return work / "mybench.py"


def run_mine(mybench: Path, server: JudgeServer, **changes: Any) -> Evaluation:
    work = mybench.parent
    arguments: dict[str, Any] = {
        "data": work,
        "models": [f"A=folder:{work / 'out'}"],
        "judges": [f"j=openai:gpt-4o?base_url={server.url}/v1"],
        "out": work / "run",
    }
    return evaluate(str(mybench), **{**arguments, **changes})


def test_the_source_of_a_reader_belongs_to_its_version(mybench: Path, judge: JudgeServer) -> None:
    first = run_mine(mybench, judge).result
    # Of the same size, and within the second that bytecode is dated by.
    mybench.write_text(MYBENCH.replace("FACTOR = 0.5", "FACTOR = 0.9"))
    judge.requests.clear()
    with pytest.raises(RefBenchError, match=r"the code of the benchmark mine changed.*refbench table .* --benchmark"):
        run_mine(mybench, judge)
    assert not judge.requests
    kept = score_run(mybench.parent / "run")
    newer = score_run(mybench.parent / "run", reader=str(mybench))
    assert kept.table == first.table
    place = {"model": "A", "metric": "good", "level": "overall"}
    assert (kept.value(**place), newer.value(**place)) == (3.5, pytest.approx(6.3))
    assert newer.table.fingerprint != kept.table.fingerprint
    assert any("read with other code" in note for note in newer.notes)
    other = run_mine(mybench, judge, out=mybench.parent / "other").result
    assert other.table.fingerprint == newer.table.fingerprint


def test_a_copy_that_was_edited_by_hand_is_refused_and_has_another_fingerprint_where_it_is_named(
    mybench: Path, judge: JudgeServer
) -> None:
    first = run_mine(mybench, judge).result
    copy = mybench.parent / "run/benchmark/benchmark.py"
    copy.write_text(MYBENCH.replace("FACTOR = 0.5", "FACTOR = 0.9"))
    with pytest.raises(RefBenchError, match=r"is not the file that was written with the run.*--benchmark FILE"):
        score_run(mybench.parent / "run")
    now = score_run(mybench.parent / "run", reader=copy)
    assert now.table.fingerprint != first.table.fingerprint
    assert any("read with other code" in note for note in now.notes)


def test_a_reader_of_another_benchmark_is_refused(mybench: Path, judge: JudgeServer) -> None:
    run_mine(mybench, judge)
    with pytest.raises(RefBenchError, match="--benchmark creval: it holds creval"):
        score_run(mybench.parent / "run", reader="creval")


def test_a_run_of_own_cases_can_be_read_with_another_rubric(work: Path, judge: JudgeServer) -> None:
    first = run(work, judge)
    text, _ = rubric_source("five_criteria")
    (work / "mine.md").write_text(text.replace("visual_quality", "visual_quality", 1) + "\n")
    newer = score_run(work / "run", reader=str(work / "mine.md"))
    assert newer.table.fingerprint != first.result.table.fingerprint


def test_measurements_of_a_replaced_picture_do_not_stand(mybench: Path, judge: JudgeServer) -> None:
    def l1(result: Any) -> dict[str, float | None]:
        return {s.case: s.value for s in result.scores if s.metric == "l1"}

    before = l1(run_mine(mybench, judge, judges=[]).result)
    (mybench.parent / "out/case3.png").write_bytes(picture(250))
    with pytest.raises(RefBenchError, match="1 outputs changed"):
        run_mine(mybench, judge, judges=[])
    after = l1(run_mine(mybench, judge, judges=[], replace=True).result)
    assert {case for case in before if before[case] != after[case]} == {"case3"}
    assert after == l1(score_run(mybench.parent / "run"))


SPOILING = """
import numpy as np
from refbench.metrics import metric

@metric(better="lower", range=(0, 255))
def spoiling(output: np.ndarray, source: np.ndarray) -> float:
    for path in Path({pics!r}).glob("*.png"):
        path.write_bytes(Path({other!r}).read_bytes())
    return float(np.abs(output.astype(float) - source).mean())
"""


def test_references_that_change_while_they_are_measured_are_no_numbers(mybench: Path, judge: JudgeServer) -> None:
    (mybench.parent / "other.png").write_bytes(picture(200))
    spoiling = SPOILING.format(pics=str(mybench.parent / "pics"), other=str(mybench.parent / "other.png"))
    begin, end = MYBENCH.split("def measure")
    mybench.write_text(begin + spoiling + "def measure" + end.replace("l1", "spoiling").replace("(0, 1)", "(0, 255)"))
    result = run_mine(mybench, judge, judges=[]).result
    values = [s.value for s in result.scores if s.metric == "spoiling" and s.protocol == "corrected"]
    assert {value for value in values if value is not None} == {101.0}, "before anything had changed"
    assert None in values
    failed = [one for one in result.failures() if one["protocol"] == "corrected"]
    assert all("source has changed since it was recorded" in one["detail"] for one in failed), failed


def test_what_is_measured_otherwise_is_refused(mybench: Path, judge: JudgeServer) -> None:
    """The picture that a metric compares with is part of what it measures; the case itself has not changed."""
    run_mine(mybench, judge, judges=[])
    run_file = mybench.parent / "run/run.json"
    mybench.write_text(
        MYBENCH.replace('{"source": case.request.pictures[0]}', '{"source": Picture(name="pics/4.png", role="source")}')
    )
    info = json.loads(run_file.read_text())
    from refbench.benchmarks import benchmark

    # As if its author had not told the code apart.
    told = RunInfo.model_validate({**info, "code": benchmark(str(mybench)).code})
    run_file.write_text(told.model_copy(update={"digest": told.sum}).model_dump_json())
    with pytest.raises(RefBenchError, match=r"l1 is measured otherwise.*pictures: .* then"):
        run_mine(mybench, judge)
    assert not judge.requests


def test_a_refused_command_leaves_no_trace(work: Path, judge: JudgeServer) -> None:
    run(work, judge, limit=2)
    before = score_run(work / "run").table
    with pytest.raises(RefBenchError):
        run(work, judge, seeds=3, judges=[f"j=openai:gpt-5?base_url={judge.url}/v1"])
    assert score_run(work / "run").table == before


# --- scratch, and what a run was asked for -------------------------------------------------------------------------

CLEANER = '''
import shutil, tempfile
from pathlib import Path

def make():
    def paint(request, seed):
        """Paints while another program cleans the system's temporary folder."""
        for left in Path(tempfile.gettempdir()).iterdir():
            shutil.rmtree(left, ignore_errors=True)
        return request.pictures[0].path.read_bytes()
    return paint
'''


def test_a_run_needs_nothing_of_the_systems_temporary_folder(
    work: Path, judge: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(work / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (work / "paint.py").write_text(CLEANER)
    (work / "run").mkdir()
    (work / "run" / unfinished("scratch").replace(f"-{os.getpid()}-", "-999999999-")).mkdir()
    copy = f"import shutil,sys;shutil.rmtree('{work / 'tmp'}',True);shutil.copy(*sys.argv[2:])"
    (work / "copy.py").write_text(copy)
    models = [
        f"P=python:{work / 'paint.py'}:make",
        f"C=command:python {work / 'copy.py'} {{instruction}} {{picture1}} {{output}}",
    ]
    done = run(work, judge, models=models)
    assert {output.failure for output in done.run.outputs()} == {None}
    assert not list((work / "run").glob(".part-*")), "nothing is left, not even of a command that was killed"


def test_scratch_that_is_removed_all_the_same_is_said(work: Path, judge: JudgeServer) -> None:
    removing = CLEANER.replace("Path(tempfile.gettempdir()).iterdir()", f'Path("{work}/run").glob(".part-*-scratch")')
    (work / "paint.py").write_text(removing)
    done = run(work, judge, models=[f"P=python:{work / 'paint.py'}:make"], limit=1)
    (output,) = done.run.outputs()
    assert output.failure is not None
    assert output.failure.kind == "worker_died" and "somebody removed" in output.failure.detail


def test_the_run_knows_how_many_seeds_each_model_was_asked_for(work: Path, judge: JudgeServer) -> None:
    run(work, judge, limit=1, seeds=3)
    run(work, judge, limit=1, seeds=1)
    assert Run.open(work / "run").notes("seeds of ") == {"A": "3"}
    run(work, judge, limit=1, seeds=2, models=[f"B=folder:{work / 'out'}"], out=work / "other")
    run(work, judge, limit=1, seeds=1, out=work / "other")
    merge([work / "run", work / "other"], work / "both")
    assert Run.open(work / "both").notes("seeds of ") == {"A": "3", "B": "2"}
