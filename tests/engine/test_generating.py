"""Pictures made in a run: each once, whatever happens, and never with more than the Request in sight."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import orjson
import pytest
from PIL import Image

from refbench.benchmarks import Dataset
from refbench.calls.prices import Budget
from refbench.calls.transport import RetryPolicy, Transport
from refbench.case import Case, Picture, Request
from refbench.engine import evaluate
from refbench.engine.evaluation import generate_async
from refbench.engine.generating import GeneratingRun
from refbench.engine.options import RunOptions
from refbench.engine.progress import Progress
from refbench.failure import Failure
from refbench.models.api.http import http_model
from refbench.models.model import Commission, Painted, Traits
from refbench.output import painting
from refbench.pictures import encode, facts_of
from refbench.record import RefBenchError
from refbench.runs import LedgerWriter, Run
from refbench.runs.ledger import Recorder
from refbench.specs import Spec
from refbench.tables.scoring import score_run
from support.judge_server import JudgeServer
from support.painters import Painter, paint
from support.raw_server import RawServer, http


def dataset(root: Path, n: int = 6, n_pictures: int = 1) -> Dataset:
    (root / "data").mkdir(exist_ok=True)
    cases = []
    for i in range(n):
        for name in (f"in{i}.png", f"gold{i}.png"):
            (root / "data" / name).write_bytes(paint(name))
        request = Request(
            instruction=f"paint {i}", pictures=(Picture(name=f"in{i}.png", role="source"),), n_pictures=n_pictures
        )
        target = Picture(name=f"gold{i}.png", role="golden")
        cases.append(
            Case[dict[str, Any]](
                id=f"c{i}", request=request, cluster=f"c{i}", targets=(target,), details={"answer": "secret"}
            )
        )
    return Dataset("mine", root / "data", root / "data", tuple(cases))


def make(
    root: Path, painter: Painter, *, data: Dataset | None = None, budget: str | None = None, retry: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Everything that is not there yet; gives what `outputs` gave for each case."""
    cases = data or dataset(root)

    async def work() -> dict[str, Any]:
        run = Run.create(root / "run", "mine", cases.cases, settings={})
        with run.writer() as writer, Recorder(writer) as recorder:
            generating = GeneratingRun(
                run, cases, recorder, Budget.parse(budget, run.spent_usd()), Progress(), 3, frozenset(retry)
            )
            generating.open([painter])
            generating.note()
            found = await asyncio.gather(*(generating.outputs(case, painter) for case in cases.cases))
            return {case.id: what for case, what in zip(cases.cases, found, strict=True)}

    return asyncio.run(work())


def test_a_picture_that_exists_is_not_made_again(tmp_path: Path) -> None:
    first, again = Painter(), Painter()
    made = make(tmp_path, first)
    assert make(tmp_path, again) == made
    assert len(first.asked) == 6
    assert again.asked == []
    for case, (path,) in made.items():
        assert path.read_bytes() == paint(f"paint {case[1:]} 0 0")


def test_the_model_sees_the_request_and_nothing_else(tmp_path: Path) -> None:
    painter = Painter()
    make(tmp_path, painter)
    for commission, _ in painter.asked:
        shown = repr(commission)
        assert "gold" not in shown
        assert "secret" not in shown
        assert [picture.role for picture in commission.pictures] == ["source"]


def test_at_most_so_many_pictures_are_in_the_making(tmp_path: Path) -> None:
    painter = Painter(latency=0.01, together=3)
    make(tmp_path, painter)
    assert painter.most_in_flight == 3


def test_a_place_is_given_on_when_its_picture_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the disk is: what a killed run has paid for and lost is no more than it had places."""
    commit = LedgerWriter.commit

    def slowly(writer: LedgerWriter) -> None:
        time.sleep(0.05)
        commit(writer)

    @dataclass
    class Watching(Painter):
        unrecorded: int = 0

        async def generate(self, commission: Commission, seed: int) -> Painted:
            on_record = len(list(Run.open(tmp_path / "run").outputs()))
            self.unrecorded = max(self.unrecorded, len(self.asked) + 1 - on_record)
            return await super().generate(commission, seed)

    monkeypatch.setattr(LedgerWriter, "commit", slowly)
    painter = Watching()
    make(tmp_path, painter)
    assert painter.unrecorded == 3


def test_a_kill_while_painting_costs_only_what_was_in_flight(tmp_path: Path) -> None:
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            try:
                make(tmp_path, Painter(kill_at=3, latency=0.01))
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
    there = {o.case: o for o in Run.open(tmp_path / "run").outputs()}
    last = Painter()
    make(tmp_path, last)
    assert {commission.instruction for commission, _ in last.asked} == {
        f"paint {i}" for i in range(6) if f"c{i}" not in there
    }
    for path in (tmp_path / "run/blobs").rglob("*.png"):
        assert not isinstance(facts_of(path.read_bytes()), Failure)  # no half-written picture


def test_a_refusal_stays_and_is_tried_again_only_when_asked(tmp_path: Path) -> None:
    made = make(tmp_path, Painter(refuses="paint 2"))
    assert made["c2"].kind == "refused"
    calm = Painter()
    assert make(tmp_path, calm)["c2"].kind == "refused"
    assert calm.asked == []
    asked = Painter()
    assert not isinstance(make(tmp_path, asked, retry=("refused",))["c2"], Failure)
    assert [commission.instruction for commission, _ in asked.asked] == ["paint 2"]


def test_an_incomplete_set_is_kept_and_said(tmp_path: Path) -> None:
    data = dataset(tmp_path, 2, n_pictures=4)
    made = make(tmp_path, Painter(give=3), data=data)
    assert all(len(paths) == 3 for paths in made.values())
    (output, _) = Run.open(tmp_path / "run").outputs()
    assert output.provenance["partial"] == "3 of 4 pictures"


def test_of_several_pictures_for_one_the_first_is_taken_and_said(tmp_path: Path) -> None:
    made = make(tmp_path, Painter(give=2), data=dataset(tmp_path, 2))
    assert all(len(paths) == 1 for paths in made.values())
    outputs = Run.open(tmp_path / "run").outputs()
    assert {output.provenance["surplus"] for output in outputs} == {"2 of 1 pictures"}
    assert "partial" not in outputs[0].provenance
    (note,) = [note for note in painting(outputs) if "pictures" in note]
    assert "2 of 2 outputs have more pictures than were asked for" in note


def test_a_set_with_too_many_pictures_stays_as_it_came(tmp_path: Path) -> None:
    """How many there are is a question to the judge of IDEA-Bench: leaving some out would answer it."""
    made = make(tmp_path, Painter(give=5), data=dataset(tmp_path, 2, n_pictures=4))
    assert all(len(paths) == 5 for paths in made.values())
    assert all(o.provenance["surplus"] == "5 of 4 pictures" for o in Run.open(tmp_path / "run").outputs())


def test_every_step_of_an_agent_is_kept(tmp_path: Path) -> None:
    make(tmp_path, Painter(steps=2))
    outputs = Run.open(tmp_path / "run").outputs()
    assert sorted({o.step for o in outputs if o.case == "c0"}, key=str) == [0, 1, None]
    assert {o.provenance["instruction"] for o in outputs if o.step == 1} == {"step 1"}


def test_no_picture_at_all_is_a_missing_output(tmp_path: Path) -> None:
    made = make(tmp_path, Painter(give=0))
    assert {failure.kind for failure in made.values()} == {"missing_output"}


@pytest.mark.parametrize("cap", [0.04, 0.05, 0.12, 0.2])
def test_the_budget_covers_every_try_that_may_have_been_charged(tmp_path: Path, cap: float) -> None:
    class Remote(Painter):
        async def generate(self, commission: Commission, seed: int) -> Painted:
            async with Transport(policy=RetryPolicy(first=0.001), timeout=60) as transport:
                spec = Spec.parse(f"m={server.url}/paint?price=0.05", "--model")
                return await http_model(spec, transport).generate(commission, seed)

    with RawServer(lambda asked: [http({"version": 1, "pictures": []}, length=5000)]) as server:
        made = make(tmp_path, Remote(traits=Traits(price=0.05)), budget=f"{cap}usd")
        assert len(server.requests) == int(cap / 0.05 + 1e-9)
    assert all(isinstance(failure, Failure) for failure in made.values())
    assert Run.open(tmp_path / "run").spent_usd() == pytest.approx(len(server.requests) * 0.05)


def test_the_budget_holds_across_runs(tmp_path: Path) -> None:
    price = Traits(price=0.05)
    made = make(tmp_path, Painter(traits=price), budget="0.2usd")
    there = [paths for paths in made.values() if not isinstance(paths, Failure)]
    assert 1 <= len(there) <= 4
    assert {f.kind for f in made.values() if isinstance(f, Failure)} == {"budget"}
    again = Painter(traits=price)
    make(tmp_path, again, budget="0.2usd")
    assert len(there) + len(again.asked) <= 4
    rest = Painter(traits=price)
    make(tmp_path, rest)
    assert len(there) + len(again.asked) + len(rest.asked) == 6


def test_pictures_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    make(tmp_path, Painter(settings={"kind": "painter", "steps": "20"}))
    with pytest.raises(RefBenchError, match="other settings"):
        make(tmp_path, Painter(settings={"kind": "painter", "steps": "50"}))


def test_a_name_under_which_nothing_was_painted_is_free(tmp_path: Path) -> None:
    mistyped = Painter(settings={"kind": "painter", "alhpa": ".4"}, refuses="paint")
    assert all(isinstance(made, Failure) for made in make(tmp_path, mistyped).values())
    assert len(mistyped.asked) == 6
    right = Painter(settings={"kind": "painter", "alpha": ".4"}, refuses="0")
    made = make(tmp_path, right)
    assert len(right.asked) == 6, "what failed with other settings is no failure of these"
    assert sum(isinstance(one, Failure) for one in made.values()) == 1
    outputs = Run.open(tmp_path / "run").outputs()
    assert sorted(bool(output.pictures) for output in outputs) == [False, True, True, True, True, True]
    again = Painter(settings={"kind": "painter", "alpha": ".4"})
    assert make(tmp_path, again) == made
    with pytest.raises(RefBenchError, match="other settings"):
        make(tmp_path, Painter(settings={"kind": "painter", "alpha": ".5"}))


BENCH = """
import json
from refbench.benchmarks.kit import Call, Measured, benchmark
from refbench.calls.transport import RetryPolicy, Transport
from refbench.case import Case, Picture, Request

def load(root):
    for n in range(5):
        source = Picture(name=f"in{n}.png", role="source")
        yield Case(id=f"c{n}", request=Request(instruction=f"paint {n}", pictures=(source,)), cluster=f"c{n}", details={})

def ask(case, material):
    return ["", material.output, "Give a mark from 1 to 5 as JSON."]

def read(case, reply):
    return {"quality": json.loads(reply)["quality"]}

BENCHMARK = benchmark(name="mine", load=load, judge=[Call("quality", {"quality": (1, 5)}, ask, read)],
                      measure=lambda case: [Measured("l1", "l1", {"source": case.request.pictures[0]})], measured={"l1": (0, 1)}, recorded={"wording": "mine"})
"""


def test_pictures_are_made_measured_and_judged_in_one_run_and_not_made_again(tmp_path: Path) -> None:
    dataset(tmp_path, 5)
    (tmp_path / "mine.py").write_text(BENCH)
    painter, again = Painter(name="A"), Painter(name="A")
    calls: list[int] = []

    def function(request: Any, seed: int) -> bytes:
        calls.append(seed)
        return paint(request.instruction + " by a function")

    function.version = 1  # type: ignore[attr-defined] - what it has counted makes it no other model

    def run(**models: Any) -> Any:
        with JudgeServer(reply=lambda text: '{"quality": 3}') as server:
            judges = [f"j=openai:j?base_url={server.url}/v1"]
            return evaluate(
                str(tmp_path / "mine.py"), models=models, judges=judges, data=tmp_path / "data", out=tmp_path / "all"
            ).result

    result = run(A=painter, F=function, copy="baseline:copy")
    assert {s.model for s in result.scores} == {"A", "F", "copy"}
    assert all(s.value is not None for s in result.scores)
    assert all(
        s.value == 0.0 for s in result.scores if (s.model, s.metric) == ("copy", "l1")
    )  # it gives the source back
    assert any(note.startswith("A: 0.2 s and 0.0500 usd") for note in result.notes)
    assert painter.closed
    run(A=again, F=function, copy="baseline:copy")
    assert again.asked == []
    assert len(calls) == 5


def test_generating_first_and_scoring_later_makes_nothing_twice(tmp_path: Path) -> None:
    dataset(tmp_path, 5)
    (tmp_path / "mine.py").write_text(BENCH)
    first, later = Painter(name="A", refuses="paint 3"), Painter(name="A")
    arguments: dict[str, Any] = {"data": tmp_path / "data", "out": tmp_path / "run"}
    made = asyncio.run(generate_async(RunOptions(benchmark=str(tmp_path / "mine.py"), models=[first], **arguments)))
    assert (made.there, made.failed) == (4, {"refused": 1})
    result = evaluate(str(tmp_path / "mine.py"), models=[later], **arguments).result
    assert later.asked == []
    assert {s.failure.kind for s in result.scores if s.case == "c3" and s.failure} == {"refused"}


def test_several_seeds_are_made_judged_and_averaged(tmp_path: Path) -> None:
    dataset(tmp_path, 5)
    (tmp_path / "mine.py").write_text(BENCH)
    painter = Painter(name="A")
    marks = iter([1, 5] * 100)
    with JudgeServer(reply=lambda text: f'{{"quality": {next(marks)}}}') as server:
        judges = [f"j=openai:j?base_url={server.url}/v1"]
        arguments: dict[str, Any] = {
            "judges": judges,
            "data": tmp_path / "data",
            "out": tmp_path / "run",
            "seeds": 2,
            "concurrency": 1,
        }
        result = evaluate(str(tmp_path / "mine.py"), models=[painter], **arguments).result
        asked = len(server.requests)
        again = evaluate(str(tmp_path / "mine.py"), models=[Painter(name="A")], **arguments).result
        assert len(server.requests) == asked == 10
    assert sorted({seed for _, seed in painter.asked}) == [0, 1]
    assert len(painter.asked) == 10
    marks = [s.value for s in result.scores if s.metric == "quality"]
    assert len(marks) == 10
    assert sum(marks) / 10 == pytest.approx(3.0)
    assert [s.value for s in again.scores] == [s.value for s in result.scores]
    by_hand = {}
    for case in ("c0", "c1"):
        gaps = []
        for seed in (0, 1):
            made = np.asarray(Image.open(io.BytesIO(paint(f"paint {case[1:]} {seed} 0")))).astype(float)
            source = np.asarray(Image.open(tmp_path / f"data/in{case[1:]}.png")).astype(float)
            gaps.append(np.abs(made - source).mean() / 255)
        by_hand[case] = gaps
    for case, values in by_hand.items():
        measured = [s.value for s in result.scores if (s.case, s.metric) == (case, "l1")]
        assert measured == pytest.approx(values, abs=1e-6)


def test_one_seed_that_failed_leaves_the_others(tmp_path: Path) -> None:
    dataset(tmp_path, 5)
    (tmp_path / "mine.py").write_text(BENCH)

    class Moody(Painter):
        async def generate(self, commission: Any, seed: int) -> Any:
            if seed == 1 and commission.instruction == "paint 2":
                return Painted(failure=Failure(kind="refused"))
            return await super().generate(commission, seed)

    result = evaluate(
        str(tmp_path / "mine.py"), models=[Moody(name="A")], data=tmp_path / "data", out=tmp_path / "run", seeds=2
    ).result
    (row,) = result.rows(metric="l1", level="overall")
    assert (row.n_cases, row.n_expected, row.n_scored, row.failures) == (5, 10, 9, {"refused": 1})
    assert row.own_failures == {"refused": 1}


def test_the_steps_of_an_agent_are_tabled_like_models(tmp_path: Path) -> None:
    dataset(tmp_path, 5)
    (tmp_path / "mine.py").write_text(BENCH)
    bench, arguments = str(tmp_path / "mine.py"), {"data": tmp_path / "data"}
    evaluate(bench, models=[Painter(name="A", steps=2)], out=tmp_path / "agent", **arguments)
    steps = [f"A{n}=steps:{tmp_path / 'agent'}?model=A&step={n}" for n in (0, 1)]
    result = evaluate(bench, models=[*steps, Painter(name="A")], out=tmp_path / "steps", **arguments).result
    values = {(s.model, s.case): s.value for s in result.scores if s.metric == "l1"}
    assert len(values) == 15
    made = np.asarray(Image.open(io.BytesIO(paint("paint 3 step 1")))).astype(float)
    source = np.asarray(Image.open(tmp_path / "data/in3.png")).astype(float)
    assert values["A1", "c3"] == pytest.approx(np.abs(made - source).mean() / 255, abs=1e-6)
    for wrong, said in (("model=B&step=0", "holds steps of A"), ("model=A&step=7", "has the steps 0, 1, result")):
        with pytest.raises(RefBenchError, match=said):
            evaluate(bench, models=[f"x=steps:{tmp_path / 'agent'}?{wrong}"], out=tmp_path / "no", **arguments)


@pytest.mark.slow
def test_refbench_steps_tables_and_draws_an_agent_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the command line, with MultiBanana's agent around a baseline and a planner on loopback."""
    from refbench.cli.app import main
    from support.icebench import every_task, write_dataset

    write_dataset(tmp_path / "ice", every_task(1)[16:26])
    with JudgeServer(reply=lambda text: "Make it brighter.") as server:
        planner = f"openai:p?base_url={server.url}/v1"
        model = f"A=ipr(baseline:copy; planner={planner}; steps=2)"
        evaluate("icebench", models=[model], data=tmp_path / "ice", out=tmp_path / "agent", metrics=["l1_raw"])
    words = ["refbench", "steps", tmp_path / "agent", "--data", tmp_path / "ice", "--out", tmp_path / "by-step"]
    monkeypatch.setattr("sys.argv", [str(word) for word in words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "A.step1" in said
    assert "A.result" in said
    plot = ElementTree.fromstring((tmp_path / "by-step/steps.svg").read_text())
    assert len([e for e in plot.iter() if e.tag.endswith("circle")]) >= 2
    assert "step 1" in {e.text for e in plot.iter() if e.tag.endswith("text")}


def test_steps_say_what_each_took_and_a_case_that_stopped_early_is_in_every_later_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A planted critic is satisfied with six of ten cases at once; its questions, and the planner's, are $2 each."""
    from refbench.cli.steps import steps_command
    from support.icebench import every_task, write_dataset

    write_dataset(tmp_path / "ice", every_task(1)[16:26])
    stopping: set[str] = set()

    def reply(text: str) -> str:
        if '{"mark"' not in text:
            return "Make it brighter."
        request = text.partition("<request>")[2].partition("</request>")[0]
        marked.append(request)
        if request in stopping or (len(stopping) < 6 and marked.count(request) == 1):
            stopping.add(request)
            return '{"mark": 9}'
        return '{"mark": 3}'

    marked: list[str] = []
    with JudgeServer(reply=reply) as server:
        planner = f"openai:p?base_url={server.url}/v1&price=1000,10000"
        model = f"A=ipr(baseline:copy; planner={planner}; stop=8)"
        arguments: dict[str, Any] = {"data": tmp_path / "ice", "metrics": ["l1_raw"]}
        evaluate("icebench", models=[model], out=tmp_path / "agent", **arguments)
        assert len(set(marked)) == 10 and len(stopping) == 6
        assert len(server.requests) == 6 + 4 * 4, "a critic's question; two of it and two of the planner's"
    assert steps_command(tmp_path / "agent", out=tmp_path / "by-step", data=tmp_path / "ice") == 0
    rows = score_run(tmp_path / "by-step").rows(level="overall")
    assert {row.model for row in rows} == {"A.step1", "A.step2", "A.result"}
    assert {row.n_cases for row in rows} == {10} and not any("missing_output" in row.failures for row in rows)
    found = {row["model"]: row for row in orjson.loads((tmp_path / "by-step/frontier.json").read_bytes())}
    # To step 2: the critic twice and the planner once for four of ten; the result of those has one more question.
    assert {name: row["usd"] for name, row in found.items()} == pytest.approx(
        {"A.step1": 2.0, "A.step2": (6 * 2 + 4 * 6) / 10, "A.result": (6 * 2 + 4 * 8) / 10}
    )
    assert all(row["seconds"] > 0 for row in found.values())
    assert [name for name, row in found.items() if row["frontier"]] == ["A.step1"], "copies are as good at once"
    said = capsys.readouterr().out
    assert "To each step, on average" in said and "frontier" in said


def test_cases_that_an_agent_was_never_asked_for_are_not_missing_from_its_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from refbench.cli.steps import steps_command
    from support.icebench import every_task, write_dataset

    write_dataset(tmp_path / "ice", every_task(1)[16:26])
    with JudgeServer(reply=lambda text: "Make it brighter.") as server:
        model = f"A=ipr(baseline:copy; planner=openai:p?base_url={server.url}/v1; steps=2)"
        arguments: dict[str, Any] = {"data": tmp_path / "ice", "metrics": ["l1_raw"]}
        evaluate("icebench", models=[model], out=tmp_path / "agent", limit=4, **arguments)
    assert steps_command(tmp_path / "agent", out=tmp_path / "by-step", data=tmp_path / "ice") == 0
    assert "4 of 10 cases: " in capsys.readouterr().out
    rows = score_run(tmp_path / "by-step").rows(level="overall")
    assert {row.model for row in rows} == {"A.step1", "A.result"}
    assert {row.n_cases for row in rows} == {4}
    assert not any("missing_output" in row.failures for row in rows)


@pytest.mark.parametrize("number", ["0", "-1"])
@pytest.mark.parametrize("command", ["run", "generate"])
def test_no_pictures_at_once_is_refused_and_does_not_wait_for_ever(
    tmp_path: Path, run_cli: Any, command: str, number: str
) -> None:
    words = ("cases.jsonl", "--model", "a=baseline:copy", "--out", tmp_path / "run", "--generate-concurrency", number)
    code, _, err = run_cli(command, *words)
    assert code == 2
    assert f"--generate-concurrency {number}: give how many pictures a model may make at once, at least 1" in err
    with pytest.raises(RefBenchError, match="at least 1"):
        evaluate("cases.jsonl", models=["a=baseline:copy"], out=tmp_path / "run", generate_concurrency=int(number))


def test_pictures_of_folders_are_put_on_record_beside_those_that_are_made(tmp_path: Path) -> None:
    (tmp_path / "cases.jsonl").write_bytes(
        b"\n".join(orjson.dumps({"id": name, "instruction": "paint"}) for name in ("one", "two", "three"))
    )
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/one.png").write_bytes(b"")
    (tmp_path / "theirs/two.png").write_bytes(encode(np.zeros((8, 8, 3), np.uint8)))
    options = RunOptions(
        benchmark=str(tmp_path / "cases.jsonl"), models=[f"A=folder:{tmp_path / 'theirs'}"], out=tmp_path / "run"
    )
    found = asyncio.run(generate_async(options))
    assert found.there == 1 and found.failed == {"unreadable_picture": 1, "missing_output": 1}
    both = options.model_copy(update={"models": [*options.models, f"mine=python:{tmp_path}/paint.py:make"]})
    (tmp_path / "paint.py").write_text(
        "from PIL import Image\n\n\ndef make(request, seed):\n    return Image.new('RGB', (8, 8))\n"
    )
    assert asyncio.run(generate_async(both)).there == 4
    outputs = Run.open(tmp_path / "run").outputs()
    assert {(o.model, o.case) for o in outputs if o.pictures} == {("A", "two")} | {
        ("mine", case) for case in ("one", "two", "three")
    }
    assert {(o.model, o.case) for o in outputs if o.failure} == {("A", "one"), ("A", "three")}


def test_a_folders_picture_that_changed_is_refused_and_replaced_only_when_asked(tmp_path: Path, run_cli: Any) -> None:
    (tmp_path / "cases.jsonl").write_bytes(orjson.dumps({"id": "one", "instruction": "paint"}))
    (tmp_path / "theirs").mkdir()
    picture = tmp_path / "theirs/one.png"
    picture.write_bytes(encode(np.zeros((8, 8, 3), np.uint8)))
    words = ("generate", tmp_path / "cases.jsonl", "--model", f"A=folder:{picture.parent}", "--out", tmp_path / "run")
    assert run_cli(*words)[0] == 0
    picture.write_bytes(encode(np.full((8, 8, 3), 200, np.uint8)))
    code, _, err = run_cli(*words)
    assert code == 2 and "1 outputs changed" in err and "--replace" in err
    assert run_cli(*words, "--replace")[0] == 0
    (output,) = Run.open(tmp_path / "run").outputs()
    assert output.pictures[0].sha256 == hashlib.sha256(picture.read_bytes()).hexdigest()
