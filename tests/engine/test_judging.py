"""Judging live, against a judge on loopback: nothing lost, nothing paid for twice, whatever the judge does."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refbench.calls.transport import RetryPolicy
from refbench.engine import Evaluation, evaluate
from refbench.record import RefBenchError
from refbench.report import to_json
from refbench.runs import Run, Shard
from refbench.tables.scoring import score_run
from support.campaigns import slow
from support.checkout import Item, plain_items, write_checkout, write_outputs
from support.judge_server import Faults, JudgeServer, wire
from support.raw_server import Asked, RawServer, http

Refbench = Callable[..., tuple[int, str, str]]
CHAOS = Faults(throttled=0.04, failing=0.02, malformed=0.02, refused=0.02, hanging=0.01, cut=0.01)
NOT_LATE = replace(CHAOS, hanging=0.0)
"""Without the fault that only a time-out ends: which other calls it ends too depends on the machine."""
N = 18


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    with JudgeServer() as server:
        yield server


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A checkout of two items of each dimension and the outputs of two models."""
    return of_items(N, tmp_path)


def of_items(count: int, root: Path) -> Path:
    write_checkout(root / "creval", plain_items(count))
    for model in ("a", "b"):
        write_outputs(root / model, plain_items(count))
    return root


def run(work: Path, server: JudgeServer, *, out: str = "run", **changes: Any) -> Evaluation:
    arguments: dict[str, Any] = {
        "data": work / "creval",
        "models": [f"A=folder:{work / 'a'}", f"B=folder:{work / 'b'}"],
        "judges": [f"judge=openai:gpt-4o?base_url={server.url}/v1"],
        "out": work / out,
        "concurrency": 16,
        "timeout": 60.0,
    }
    return evaluate("creval", **{**arguments, **changes})


def table(path: Path) -> str:
    return to_json(score_run(path, draws=50))


def test_what_goes_over_the_wire_is_original_edit_questions(work: Path, judge: JudgeServer) -> None:
    run(work, judge, limit=1, models=[f"A=folder:{work / 'a'}"])
    (seen, *_) = judge.requests
    system, user = seen.body["messages"]
    assert system["role"] == "system"
    original, edit, text = user["content"]
    assert seen.body["model"] == "gpt-4o"
    assert seen.body["max_tokens"] == 2000
    assert original["image_url"]["detail"] == edit["image_url"]["detail"] == "high"
    sent = [hashlib.sha256(base64.b64decode(p["image_url"]["url"].split(",")[1])).hexdigest() for p in (original, edit)]
    stem = next(p for p in sorted((work / "a").glob("*.png")) if p.stem in text["text"])
    files = [work / f"creval/bench/image/{stem.name}", stem]
    assert sent == [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    assert original["image_url"]["url"].startswith("data:image/png;base64,")


def test_every_case_is_judged_once_and_resuming_asks_nothing(work: Path, judge: JudgeServer) -> None:
    first = run(work, judge)
    assert len(judge.requests) == N * 2 * 3
    assert {row.n_scored for row in first.result.rows(level="overall")} == {N}
    before = table(work / "run")
    again = run(work, judge)
    assert len(judge.requests) == N * 2 * 3
    assert again.progress.known == N * 2 * 3
    assert table(work / "run") == before


def test_equal_requests_are_sent_once_even_at_the_same_time(tmp_path: Path, judge: JudgeServer) -> None:
    same = [("Q1", "Is it so?", "Yes", 1)]
    items = [Item("twin", questions={"IF": same, "VC": same, "VQ": same})]
    write_checkout(tmp_path / "creval", items)
    write_outputs(tmp_path / "a", items)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/twin.png").write_bytes((tmp_path / "a/twin.png").read_bytes())
    evaluation = run(tmp_path, judge)
    assert len(judge.requests) == 1, "three metrics and two models ask the same of the same pictures"
    assert {row.n_scored for row in evaluation.result.rows(level="overall")} == {1}


def test_all_models_are_judged_on_a_case_before_the_next(work: Path, judge: JudgeServer) -> None:
    run(work, judge, limit=9, concurrency=1)
    order = [
        next(part["text"] for part in seen.body["messages"][1]["content"] if part["type"] == "text")
        for seen in judge.requests
    ]
    stems = ["item_" + text.split("item_")[1][:5] for text in order]
    assert [stems[i] for i in range(0, 54, 6)] == list(dict.fromkeys(stems)), "six calls on a case, then the next"


def test_chaos_loses_nothing_and_records_nothing_twice(work: Path, judge: JudgeServer) -> None:
    judge.faults = CHAOS
    evaluation = run(work, judge, timeout=3.0)
    calls = Counter(judge.faults.of(digest) for digest in judge.tries)
    assert sum(calls[name] for name in ("throttled", "failing", "malformed", "refused", "hanging", "cut")) >= 5
    for row in evaluation.result.rows(protocol="corrected"):
        assert row.n_expected == row.n_scored + sum(row.failures.values())
        assert set(row.failures) <= {"refused", "unparsable"}
    acts = [evidence.id for _, evidence in Run.open(work / "run").evidence()]
    assert len(acts) == len(set(acts))
    scored = {(s.case, s.model, s.metric): s for s in evaluation.result.scores if s.protocol == "corrected"}
    assert len(scored) == N * 2 * 3
    assert run(work, judge, timeout=3.0).progress.done == 0, "final failures are not tried again"
    refused = sum(s.failure is not None and s.failure.kind == "refused" for s in scored.values())
    if refused:
        assert run(work, judge, timeout=3.0, retry=["refused"]).progress.done == refused


RUN = """
import sys
from refbench.engine import evaluate
work, url, out = sys.argv[1:]
print("go", flush=True)
evaluate("creval", data=f"{work}/creval", models=[f"A=folder:{work}/a", f"B=folder:{work}/b"],
         judges=[f"judge=openai:gpt-4o?base_url={url}/v1"], out=out, concurrency=8)
"""


@pytest.mark.parametrize(("runs", "kills"), [(1, 1), slow(1, 5), slow(4, 5)])
def test_killed_again_and_again_a_run_ends_with_the_table_of_an_undisturbed_one(
    work: Path, judge: JudgeServer, runs: int, kills: int
) -> None:
    judge.faults = NOT_LATE
    judge.latency = 0.02

    def start(out: Path) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", RUN, str(work), judge.url, str(out)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        process.stdout.close()
        return process

    assert start(work / "calm").wait() == 0
    expected = table(work / "calm")
    undisturbed = len(judge.requests)
    rng = random.Random(5)
    killed = 0
    for number in range(runs):
        out = work / f"killed-{number}"
        judge.requests.clear()
        judge.tries.clear()
        here = 0
        for _ in range(kills):
            answered = rng.randint(1, 40)
            moment = len(judge.requests) + answered
            judge.hold(after=answered)
            process = start(out)
            while process.poll() is None and len(judge.requests) <= moment:
                time.sleep(0.01)
            here += process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
            judge.release()
        assert start(out).wait() == 0
        assert table(out) == expected
        assert len(judge.requests) <= undisturbed + here * 8, "more was asked than kills times concurrency explain"
        killed += here
    assert killed >= kills * runs - 1


def test_four_shards_give_the_table_of_one_run(work: Path, judge: JudgeServer) -> None:
    run(work, judge, out="whole")
    for index in range(1, 5):
        run(work, judge, out="parts", shard=Shard(index=index, count=4))
    assert table(work / "parts") == table(work / "whole")
    assert len(judge.requests) == 2 * N * 2 * 3


def test_a_budget_stops_before_it_is_broken_and_leaves_pairs(tmp_path: Path, judge: JudgeServer) -> None:
    work = of_items(36, tmp_path)
    # The server reports 1,000 tokens in and 100 out: 0.002 dollars a call at this price.
    priced = [f"judge=openai:gpt-4o?base_url={judge.url}/v1&price=1,10"]
    evaluation = run(work, judge, judges=priced, budget="0.3usd")
    assert evaluation.stopped == "budget"
    spent = Run.open(work / "run").spent_usd()
    assert spent <= 0.3
    assert spent == pytest.approx(len(judge.requests) * 0.002)
    worst_of_a_case = 6 * 2 * (1400 * 1 + 2000 * 10) / 1e6
    assert spent > 0.3 - worst_of_a_case - 0.002
    scored = {
        model: {s.case for s in evaluation.result.scores if s.model == model and s.value is not None}
        for model in ("A", "B")
    }
    assert scored["A"] == scored["B"]
    strata = Counter(next(c.stratum for c in evaluation.result.cases if c.id == case) for case in scored["A"])
    assert max(strata.values()) - min(strata.values()) <= 1
    assert run(work, judge, judges=priced, budget="0.3usd").progress.done == 0, (
        "the budget is the run's, not the command's"
    )
    assert run(work, judge, judges=priced, budget="3usd").stopped == ""
    assert Run.open(work / "run").spent_usd() == pytest.approx(36 * 6 * 0.002)


@pytest.mark.parametrize("silent", [False, True])
def test_a_budget_holds_whatever_becomes_of_the_tries(
    work: Path, silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(RetryPolicy.__init__, "__defaults__", (6, 0.001, 0.002, 0.05))

    def answer(asked: Asked) -> Iterator[bytes]:
        yield http(wire("/v1/chat/completions", "Q1: Yes", refused=False), length=5000)
        if silent:
            over.wait()

    with RawServer(answer) as server:
        priced = [f"judge=openai:gpt-4o?base_url={server.url}/v1&price=0,10"]
        patience = 0.5 if silent else 60.0
        evaluation = run(work, server, judges=priced, budget="0.3usd", timeout=patience)  # type: ignore[arg-type]
        over.set()
        asked = sum(seen.method == "POST" for seen in server.requests)
    assert evaluation.stopped == "budget"
    assert Run.open(work / "run").spent_usd() == pytest.approx(asked * 0.02), "a reply may have 2,000 tokens"
    assert asked * 0.02 <= 0.3


def test_a_budget_needs_a_price(work: Path, judge: JudgeServer) -> None:
    with pytest.raises(RefBenchError, match="price"):
        run(work, judge, budget="1usd")
    assert not judge.requests


def test_missing_and_broken_outputs_are_typed_and_cost_nothing(work: Path, judge: JudgeServer) -> None:
    names = sorted((work / "a").glob("*.png"))
    names[0].unlink()
    names[1].write_bytes(b"")
    evaluation = run(work, judge, models=[f"A=folder:{work / 'a'}"])
    (row,) = evaluation.result.rows(level="overall", metric="avg", protocol="corrected")
    assert row.failures == {"missing_output": 1, "unreadable_picture": 1}
    assert len(judge.requests) == (N - 2) * 3
    write_outputs(work / "a", plain_items(N))
    assert (
        run(work, judge, models=[f"A=folder:{work / 'a'}"])
        .result.rows(level="overall", metric="avg", protocol="corrected")[0]
        .failures
        == {}
    )


def test_a_broken_source_picture_is_a_failure_of_its_case(work: Path, judge: JudgeServer) -> None:
    next((work / "creval/bench/image").glob("*.png")).write_text("no picture")
    (row,) = run(work, judge, models=[f"A=folder:{work / 'a'}"]).result.rows(
        level="overall", metric="avg", protocol="corrected"
    )
    assert row.failures == {"unreadable_picture": 1}


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (
            401,
            {"error": {"message": "Incorrect API key provided: sk-abcdefgh12345678", "code": "invalid_api_key"}},
            "refuses the key",
        ),
        (404, {"error": {"message": "The model does not exist"}}, "does not know the model 'gpt-4o'"),
    ],
)
def test_what_no_request_will_survive_ends_the_run_at_once(
    work: Path, judge: JudgeServer, status: int, error: dict[str, Any], says: str
) -> None:
    judge.status, judge.error = status, error
    with pytest.raises(RefBenchError, match=says) as raised:
        run(work, judge)
    assert "sk-abc" not in str(raised.value)
    assert len(judge.requests) <= 16


def test_a_server_that_takes_fewer_pictures_is_a_typed_failure(work: Path, judge: JudgeServer) -> None:
    judge.status, judge.error = (
        400,
        {"error": {"message": "At most 1 image(s) may be provided in one request.", "type": "BadRequestError"}},
    )
    evaluation = run(work, judge, limit=2)
    (row,) = evaluation.result.rows(level="overall", metric="IF", protocol="corrected", model="A")
    assert row.failures == {"api_error": 2}
    assert "At most 1 image" in next(s.failure.detail for s in evaluation.result.scores if s.failure)


def test_a_malformed_reply_is_asked_for_once_more(work: Path, judge: JudgeServer) -> None:
    def grumpy(text: str) -> str:
        from support.judge_server import answer

        return answer(text) if "could not be read" in text else "I would rather talk about the weather."

    judge.reply = grumpy
    evaluation = run(work, judge, limit=2, models=[f"A=folder:{work / 'a'}"])
    assert len(judge.requests) == 2 * 3 * 2
    rows = {row.protocol: row for row in evaluation.result.rows(level="overall", metric="avg")}
    assert rows["corrected"].n_scored == 2
    assert rows["paper"].failures == {"unparsable": 2}, "the released script asks once"
    assert run(work, judge, limit=2, models=[f"A=folder:{work / 'a'}"]).progress.done == 0


def test_a_repair_that_a_kill_prevented_is_made_by_the_next_run(work: Path, judge: JudgeServer) -> None:
    judge.reply = lambda text: "I would rather talk about the weather."
    run(work, judge, limit=1, models=[f"A=folder:{work / 'a'}"], repair=False)
    assert len(judge.requests) == 3, "the replies are on record, their repairs are not"
    judge.reply = None
    evaluation = run(work, judge, limit=1, models=[f"A=folder:{work / 'a'}"])
    assert len(judge.requests) == 6
    assert all("could not be read" in json.dumps(seen.body) for seen in judge.requests[3:])
    (row,) = evaluation.result.rows(level="overall", metric="avg", protocol="corrected")
    assert row.n_scored == 1


def test_two_judges_and_repeats_are_kept_apart_and_averaged(work: Path, judge: JudgeServer) -> None:
    judges = [f"one=openai:gpt-4o?base_url={judge.url}/v1", f"two=openai:qwen3-vl?base_url={judge.url}/v1"]
    evaluation = run(work, judge, limit=3, judges=judges, repeats=2)
    assert len(judge.requests) == 3 * 2 * 3 * 2 * 2
    assert {row.judge for row in evaluation.result.table.rows} == {"one", "two"}


def test_a_repeat_that_failed_counts_once_whatever_is_made_of_it(tmp_path: Path) -> None:
    """Both protocols read each reply, and `both` and the total follow from its marks."""
    (tmp_path / "mine.py").write_text(
        "from refbench.benchmarks import kit\n"
        "@kit.asks('look', reads=kit.score_object(('a', 'b'), 0, 10))\n"
        "def look(case, shown):\n    return ['Two marks', shown.output]\n"
        "BENCHMARK = kit.benchmark(name='mine', judge=[look], protocols={'paper': kit.Variant()}, total='mean',\n"
        "    load=lambda root: [kit.case(str(n), f'paint {n}', {}) for n in range(8)],\n"
        "    derived={'both': kit.Derive(lambda marks: marks['a'] * marks['b'], (0, 100))})\n"
    )
    write_outputs(tmp_path / "a", [Item(str(n)) for n in range(8)])
    said: list[str] = []

    def reply(text: str) -> str:
        said.append("I cannot say." if len(said) % 4 == 1 else '{"score": [4, 6]}')
        return said[-1]

    with JudgeServer(reply=reply) as server:
        models, judges = [f"A=folder:{tmp_path / 'a'}"], [f"j=openai:x?base_url={server.url}/v1"]
        more: dict[str, Any] = {"data": tmp_path, "out": tmp_path / "run", "repeats": 3, "repair": False}
        made = evaluate(tmp_path / "mine.py", models=models, judges=judges, **more)
    unread: dict[str, list[bool]] = {}
    for purpose, act in made.run.evidence():
        unread.setdefault(purpose.case, []).append(act.reply == said[1])
    lost = sum(sum(case) for case in unread.values() if not all(case))
    assert 1 < lost <= 6
    (note,) = [note for note in made.result.notes if "of repeats" in note]
    assert note == f"j: {2 * lost} marks of repeats failed; the other repeats stand for them"


def test_one_question_a_call_gives_the_same_scores_as_all_at_once(work: Path, judge: JudgeServer) -> None:
    judge.reply = lambda text: "\n".join(
        json.dumps({"Question": line.split(":")[0] + ": x", "answer": "Yes" if int(line[1]) % 2 else "No"})
        for line in text.splitlines()
        if line.startswith("Q") and line[1].isdigit()
    )
    whole = run(work, judge, limit=2, out="all")
    asked = len(judge.requests)
    single = run(work, judge, limit=2, out="one", settings={"questions": "one", "show_instruction": "yes"})
    assert len(judge.requests) - asked == 5 * asked
    value = {"model": "A", "metric": "avg", "protocol": "corrected", "level": "overall"}
    assert single.result.value(**value) == whole.result.value(**value)
    assert single.result.table.fingerprint != whole.result.table.fingerprint


def test_protocols_that_ask_differently_are_asked_apart(tmp_path: Path, judge: JudgeServer) -> None:
    odd = Item("odd", questions={"VC": [("Q1", "** Is it kept?\n**", "** Yes", 1), ("Q2", "Is that kept?", "Yes", 1)]})
    write_checkout(tmp_path / "creval", [odd])
    write_outputs(tmp_path / "a", [odd])
    run(tmp_path, judge, models=[f"A=folder:{tmp_path / 'a'}"])
    assert len(judge.requests) == 4, "IF and VQ once, VC in both ways"


def test_a_run_cannot_be_continued_with_other_settings(work: Path, judge: JudgeServer) -> None:
    run(work, judge, limit=1)
    with pytest.raises(RefBenchError, match="questions: all then, one now"):
        run(work, judge, limit=1, settings={"questions": "one"})


def test_a_limit_can_be_raised_and_the_table_is_about_what_was_asked_for(work: Path, judge: JudgeServer) -> None:
    assert run(work, judge, limit=3).result.rows(level="overall")[0].n_expected == 3
    assert run(work, judge, limit=6).result.rows(level="overall")[0].n_expected == 6
    assert len(judge.requests) == 6 * 6
    assert run(work, judge).result.rows(level="overall")[0].n_expected == N


def test_no_key_reaches_any_file_of_a_run(work: Path, judge: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-planted-9f8e7d6c5b4a"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    judge.faults = Faults(failing=0.3)
    evaluation = run(work, judge, limit=6)
    assert any(seen.headers.get("Authorization") == f"Bearer {secret}" for seen in judge.requests)
    for path in (work / "run").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
    assert secret not in to_json(evaluation.result)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"judges": ["openia:gpt-4o"]}, "did you mean openai:gpt-4o"),
        ({"judges": ["gpt-4o"]}, "write it as"),
        ({"judges": ["openai:gpt-4o"]}, "OPENAI_API_KEY"),
        ({"judges": ["gemini:gemini-2.5-flash"]}, "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ({"judges": ["a=openai:x?base_url=localhost:8000"]}, "is no address"),
        ({"models": ["A=folder:/nowhere"]}, "no directory"),
        ({"models": ["A=magic:x"]}, "no kind of model"),
        ({"settings": {"questions": "some"}}, "choose all or one"),
        ({"settings": {"colour": "red"}}, "has the settings"),
        ({"retry": ["bad luck"]}, "--retry bad luck"),
        ({"budget": "five"}, "--budget five"),
    ],
)
def test_what_is_wrong_with_a_command_is_said_before_anything_is_spent(
    work: Path, judge: JudgeServer, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], says: str
) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_BASE_URL", "GEMINI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RefBenchError, match=says.replace("(", r"\(")):
        run(work, judge, **changes)
    assert not judge.requests


def test_a_folder_in_which_nothing_fits_shows_the_nearest_names(work: Path, judge: JudgeServer) -> None:
    for path in (work / "a").glob("*.png"):
        path.rename(path.with_name(path.name.replace("item", "output")))
    with pytest.raises(RefBenchError, match=r"no output found .* nearest names there are output_"):
        run(work, judge)


def test_the_command_line_runs_and_resumes(
    work: Path, judge: JudgeServer, run_cli: Refbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{judge.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    command = ["run", "creval", "--data", work / "creval", "--model", f"A=folder:{work / 'a'}", "--limit", 4, "--json"]
    asked = [*command, "--judge", "openai:gpt-4o", "--out", work / "cli"]
    code, printed, why = run_cli(*asked)
    assert code == 0, why
    said = json.loads(printed)
    assert {row["n_expected"] for row in said["rows"] if row["slice"]["level"] == "overall"} == {4}
    assert said["rows"][0]["judge"] == "gpt-4o"
    assert run_cli(*asked)[1] == printed
    assert len(judge.requests) == 12
    code, _, why = run_cli(*asked, "--budget", "0.001usd")
    assert (code, "price" in why) == (2, True)
    priced = [*command, "--judge", "openai:gpt-4o?price=1,10", "--out", work / "poor"]
    code, printed, _ = run_cli(*priced, "--budget", "0.131usd")
    assert code == 3
    assert json.loads(printed)["rows"]


def test_a_slurm_array_is_a_set_of_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    from refbench.cli.run import slurm_shard

    for name, value in (("ID", "12"), ("COUNT", "4"), ("MIN", "10")):
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    assert slurm_shard() == Shard(index=3, count=4)
    monkeypatch.delenv("SLURM_ARRAY_TASK_COUNT")
    assert slurm_shard() is None


def test_who_judged_is_on_record_and_in_the_fingerprint(work: Path, judge: JudgeServer) -> None:
    evaluation = run(work, judge, limit=1, judges=[f"judge=openai:gpt-4o?base_url={judge.url}/v1&temperature=0"])
    assert Run.open(work / "run").notes("family of ") == {"judge": "openai"}
    assert evaluation.result.table.parts["asked"] == {"judge": {"model": "gpt-4o", "parameters": {"temperature": 0}}}
    (output,) = {o.provenance["family"] for o in Run.open(work / "run").outputs()}
    assert output == "unknown"


@pytest.mark.parametrize(
    ("what", "why"),
    [("a", "has no picture of a second seed"), ("a/{id}", r"the pattern .* has no \{seed\}: leave --seeds out")],
)
def test_one_picture_a_case_is_not_two_seeds(work: Path, judge: JudgeServer, what: str, why: str) -> None:
    with pytest.raises(RefBenchError, match=why):
        run(work, judge, seeds=2, limit=2, models=[f"A=folder:{work / what}"])
    assert not judge.requests
    assert not (work / "run").exists()


def test_beside_a_model_with_seeds_a_folder_without_them_has_one(work: Path, judge: JudgeServer) -> None:
    done = run(work, judge, seeds=2, limit=3, models=["C=baseline:copy", f"A=folder:{work / 'a'}"])
    assert done.run.notes("seeds of ") == {"A": "1", "C": "2"}
    rows = {row.model: row for row in done.result.table.rows if row.slice["level"] == "overall"}
    assert (rows["A"].n_seeds, rows["A"].n_expected) == (1, 3)
    assert (rows["C"].n_seeds, rows["C"].n_expected) == (2, 6)
    assert "not as many seeds of every model: 1 of A, 2 of C" in done.result.notes


def test_seeds_in_the_names_of_a_folder_are_pictures_of_their_own(work: Path, judge: JudgeServer) -> None:
    """A picture without a seed in its name is the first seed's; a case that has no second one lost it."""
    first, *others = sorted((work / "a").rglob("*.png"))
    for path in others:
        path.with_stem(f"{path.stem}_s1").write_bytes((work / "b" / path.relative_to(work / "a")).read_bytes())
    done = run(work, judge, seeds=2, models=[f"A=folder:{work / 'a'}"])
    lost = [(output.seed, output.case) for output in done.run.outputs() if output.failure is not None]
    assert lost == [(1, first.stem)]
    assert not [note for note in done.result.notes if "--seeds" in note]


def test_pictures_of_seeds_that_were_not_asked_for_are_noted(work: Path, judge: JudgeServer) -> None:
    for path in sorted((work / "a").rglob("*.png")):
        path.with_stem(f"{path.stem}_s1").write_bytes(path.read_bytes())
    done = run(work, judge, limit=2, models=[f"A=folder:{work / 'a'}", f"B=folder:{work / 'b'}"])
    (note,) = [note for note in done.result.notes if "--seeds" in note]
    assert note == "A has pictures of 2 seeds, and only seed 0 is used: --seeds 2 takes them all"


def test_a_folder_without_the_first_seed_is_told_how_seeds_count(work: Path, judge: JudgeServer) -> None:
    for path in sorted((work / "a").rglob("*.png")):
        path.rename(path.with_stem(f"{path.stem}_s1"))
    said = r"no output of seed 0 found for any case, .*_s1\.png is of seed 1, and --seeds N takes the seeds 0 to N-1"
    with pytest.raises(RefBenchError, match=said):
        run(work, judge)


def start_command(work: Path, judge: JudgeServer, *more: str) -> subprocess.Popen[str]:
    words = ["run", "creval", "--data", str(work / "creval"), "--model", f"A=folder:{work / 'a'}", "--out"]
    words += [str(work / "run"), "--judge", f"j=openai:gpt-4o?base_url={judge.url}/v1&price=2,10", *more]
    return subprocess.Popen(
        [sys.executable, "-m", "refbench", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def four_in_flight(judge: JudgeServer, process: subprocess.Popen[str]) -> None:
    """Waits until the command waits for four answers, which `judge.release` gives."""
    judge.hold()
    while judge.in_flight < 4:
        assert process.poll() is None
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("signals", "code", "says"),
    [
        ([signal.SIGINT], 130, "press Ctrl-C again to stop now"),
        ([signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1], 75, "asked to end by SIGTERM"),
        ([signal.SIGUSR1, signal.SIGTERM], 75, "asked to end by SIGUSR1"),
    ],
)
def test_the_first_interrupt_stops_new_calls_and_says_how_many_are_left(
    work: Path, judge: JudgeServer, signals: list[int], code: int, says: str
) -> None:
    """Those of a scheduler end a run so however often they come, with the code of what is to be put in the queue again."""
    with start_command(work, judge, "--concurrency", "4") as process:
        four_in_flight(judge, process)
        assert process.stderr is not None
        process.send_signal(signals[0])
        told = ""
        while not told.startswith("refbench: stopping"):
            told = process.stderr.readline()
        for number in signals[1:]:
            process.send_signal(number)
        judge.release()
        _, said = process.communicate()
    assert told == f"refbench: stopping, 4 calls in flight; {says}\n"
    assert said.count("stopping, ") == 0
    assert f"Exit code {code}: " in said
    assert len(judge.requests) == 4
    assert process.returncode == code
    assert len({evidence.id for _, evidence in Run.open(work / "run").evidence()}) == 4, "what was paid for is kept"


def test_the_second_interrupt_ends_at_once_in_a_sentence(work: Path, judge: JudgeServer) -> None:
    with start_command(work, judge, "--concurrency", "4") as process:
        four_in_flight(judge, process)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        while "press Ctrl-C again" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "refbench: stopped; what was recorded is safe, run the same command again to go on" in said


@pytest.mark.parametrize(("first", "then"), [("SIGTERM", "SIGINT"), ("SIGINT", "SIGTERM")])
def test_ctrl_c_ends_at_once_what_a_scheduler_asked_to_end_and_not_the_reverse(
    work: Path, judge: JudgeServer, first: str, then: str
) -> None:
    """Who presses Ctrl-C does not want to wait; a scheduler that waits as well changes nothing."""
    with start_command(work, judge, "--concurrency", "4") as process:
        four_in_flight(judge, process)
        process.send_signal(signal.Signals[first])
        assert process.stderr is not None
        while "stopping, 4 calls" not in process.stderr.readline():
            pass
        process.send_signal(signal.Signals[then])
        if then == "SIGTERM":
            judge.release()
        _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert ("Exit code 130" in said) == (first == "SIGINT"), "what was in flight is in"


def test_a_budget_for_no_case_is_not_said_to_be_spent(work: Path, judge: JudgeServer) -> None:
    with start_command(work, judge, "--budget", "0.01usd") as process:
        _, said = process.communicate()
    assert process.returncode == 3
    assert not judge.requests
    assert "0.0000 usd are spent, and before a case begins the most that it can cost is set aside, here 0." in said
