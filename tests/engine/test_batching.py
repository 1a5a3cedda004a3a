"""Judging in batches, against a provider on loopback: what live calls give, at half the price, once, whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refbench.calls.batch import BatchLimits
from refbench.chat.http import HttpVLM
from refbench.chat.vlm import ChatRequest, Pictures
from refbench.engine import evaluate
from refbench.engine.batch_journal import BatchJournal
from refbench.engine.breaker import Breaker
from refbench.engine.judging import JudgingRun
from refbench.evidence import Evidence
from refbench.record import RefBenchError
from refbench.report import to_json
from refbench.runs import Run, Shard
from refbench.tables.scoring import score_run
from support.batch_server import SPECS, BatchServer, Kept, batch
from support.campaigns import slow_but
from support.checkout import plain_items, write_checkout, write_outputs
from support.judge_server import JudgeServer, answer

CASES = 9
ACTS = CASES * 2 * 3
LIVE_USD = (1000 * 1 + 100 * 10) / 1e6
KINDS = ("openai", "anthropic")


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as started:
        yield started


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A checkout of nine items and the outputs of two models."""
    items = plain_items(CASES)
    write_checkout(tmp_path / "creval", items)
    for model in ("a", "b"):
        write_outputs(tmp_path / model, items)
    return tmp_path


def judges(server: BatchServer, kind: str) -> list[str]:
    return [SPECS[kind].format(url=server.url)]


def live(work: Path, specs: list[str], out: str) -> None:
    models = [f"{name.upper()}=folder:{work / name}" for name in ("a", "b")]
    evaluate("creval", data=work / "creval", models=models, judges=specs, out=work / out)


def table(path: Path) -> str:
    # Who answered is noted by `evaluate`, which these batches are made without.
    return to_json(replace(score_run(path, draws=20), served={}))


def acts(path: Path) -> dict[str, Evidence]:
    return {evidence.id: evidence for _, evidence in Run.open(path).evidence()}


def some(share: int) -> Callable[[str], bool]:
    return lambda custom_id: int(custom_id[:8], 16) % share == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_gives_the_table_and_the_evidence_of_a_live_run(work: Path, server: BatchServer, kind: str) -> None:
    report, judged = batch(work, judges(server, kind))
    assert (report.submitted, report.recorded, report.outstanding, judged.stopped) == (ACTS, ACTS, 0, "")
    assert not server.requests, "nothing was asked live"
    live(work, judges(server, kind), "live")
    assert acts(work / "run").keys() == acts(work / "live").keys()
    assert table(work / "run") == table(work / "live")
    assert judged.progress.done == judged.progress.expected == ACTS


@pytest.mark.parametrize("kind", KINDS)
def test_the_requests_of_a_batch_are_those_of_live_calls(work: Path, server: BatchServer, kind: str) -> None:
    batch(work, judges(server, kind))
    live(work, judges(server, kind), "live")
    batched = [json.dumps(body, sort_keys=True) for kept in server.kept.values() for body in kept.requests.values()]
    assert sorted(batched) == sorted(json.dumps(seen.body, sort_keys=True) for seen in server.requests)


@pytest.mark.parametrize("kind", KINDS)
def test_a_live_run_after_a_batch_asks_nothing_and_the_other_way_round(
    work: Path, server: BatchServer, kind: str
) -> None:
    batch(work, judges(server, kind))
    live(work, judges(server, kind), "run")
    assert not server.requests
    live(work, judges(server, kind), "live")
    batch(work, judges(server, kind), out="live")
    assert set(server.submitted.values()) == {1}


def test_a_reply_that_cannot_be_read_is_asked_for_again_by_a_live_run_only(work: Path, server: BatchServer) -> None:
    server.reply = lambda text: (
        answer(text) if "could not be read" in text else "I would rather talk about the weather."
    )
    batch(work, judges(server, "openai"))
    assert batch(work, judges(server, "openai"))[0].submitted == 0
    live(work, judges(server, "openai"), "run")
    assert len(server.requests) == ACTS, "one repair each, and nothing else"
    rows = score_run(work / "run", draws=20).rows(level="overall", metric="avg", protocol="corrected")
    assert {row.n_scored for row in rows} == {CASES}


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_recorded_at_half_the_price(work: Path, server: BatchServer, kind: str) -> None:
    batch(work, judges(server, kind))
    assert {evidence.cost_usd for evidence in acts(work / "run").values()} == {LIVE_USD / 2}
    assert Run.open(work / "run").spent_usd() == pytest.approx(ACTS * LIVE_USD / 2)


def test_two_judges_of_different_providers_share_a_run(work: Path, server: BatchServer) -> None:
    specs = [SPECS[kind].replace("judge=", f"{kind}=").format(url=server.url) for kind in KINDS]
    report, _ = batch(work, specs)
    assert report.recorded == 2 * ACTS
    assert Counter(kept.kind for kept in server.kept.values()) == {"openai": 1, "anthropic": 1}
    assert {purpose.judge for purpose, _ in Run.open(work / "run").evidence()} == set(KINDS)


def test_equal_requests_are_handed_in_once(work: Path, server: BatchServer) -> None:
    for path in (work / "a").glob("*.png"):
        (work / "b" / path.name).write_bytes(path.read_bytes())
    batch(work, judges(server, "openai"))
    assert len(server.submitted) == ACTS / 2
    rows = score_run(work / "run", draws=20).rows(level="overall")
    assert {row.n_scored for row in rows} == {CASES}
    assert {row.model for row in rows} == {"A", "B"}


def test_a_model_that_shares_requests_with_an_outstanding_batch_gets_their_results(
    work: Path, server: BatchServer
) -> None:
    for path in (work / "a").glob("*.png"):
        (work / "b" / path.name).write_bytes(path.read_bytes())
    batch(work, judges(server, "openai"), models=("a",), wait=False)
    server.polls = 3
    report, _ = batch(work, judges(server, "openai"))
    assert (report.submitted, report.outstanding) == (0, 0)
    assert {row.n_scored for row in score_run(work / "run", draws=20).rows(level="overall")} == {CASES}


@pytest.mark.parametrize("kind", KINDS)
def test_without_waiting_the_report_says_what_is_outstanding_and_a_later_command_collects_it(
    work: Path, server: BatchServer, kind: str
) -> None:
    server.polls = 2
    report, _ = batch(work, judges(server, kind), wait=False)
    assert (report.submitted, report.recorded, report.outstanding, report.batches) == (ACTS, 0, ACTS, 1)
    assert "again" in str(report)
    assert str(work / "run") in str(report)
    still, judged = batch(work, judges(server, kind), wait=False)
    assert (still.submitted, still.outstanding) == (0, ACTS)
    assert judged.progress.known + judged.progress.done < judged.progress.expected
    last, _ = batch(work, judges(server, kind), wait=False)
    assert (last.submitted, last.recorded, last.outstanding) == (0, ACTS, 0)
    assert "outstanding" not in str(last)
    assert set(server.submitted.values()) == {1}


def test_an_interrupt_ends_the_waiting_and_leaves_the_batch(work: Path, server: BatchServer) -> None:
    server.polls = 5
    runs: list[JudgingRun] = []

    def interrupt(event: str) -> None:
        if event == "polled":
            runs[0].stopped = "interrupt"

    server.on = interrupt
    report, judged = batch(work, judges(server, "openai"), started=runs.append)
    assert (report.outstanding, judged.stopped) == (ACTS, "interrupt")


def test_a_batch_of_a_judge_that_is_not_asked_now_is_left_alone(work: Path, server: BatchServer) -> None:
    batch(work, judges(server, "openai"), wait=False)
    (other,) = judges(server, "anthropic")
    report, _ = batch(work, [f"other={other.partition('=')[2]}"])
    assert (report.recorded, report.outstanding) == (ACTS, ACTS)
    report, _ = batch(work, judges(server, "openai"))
    assert (report.recorded, report.outstanding) == (ACTS, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fate", ["errored", "expired", "missing"])
def test_what_a_batch_did_not_answer_is_typed_and_handed_in_again_by_the_next_run(
    work: Path, server: BatchServer, kind: str, fate: str
) -> None:
    unlucky = some(4)
    server.fate = lambda custom_id: fate if unlucky(custom_id) else "ok"
    batch(work, judges(server, kind))
    failed = {act: e.failure for act, e in acts(work / "run").items() if e.failure is not None}
    assert set(failed) == {act for act in server.submitted if unlucky(act)} != set()
    assert {failure.kind for failure in failed.values()} == {"api_error"}
    words = {"errored": "The server had an error", "expired": "expired", "missing": "no result"}
    assert all(words[fate] in failure.detail for failure in failed.values())
    server.fate = lambda custom_id: "ok"
    report, _ = batch(work, judges(server, kind))
    assert report.submitted == len(failed)
    assert {act: count for act, count in server.submitted.items() if count == 2}.keys() == failed.keys()
    assert not any(e.failure for e in acts(work / "run").values())


@pytest.mark.parametrize("kind", KINDS)
def test_results_that_are_not_there_yet_are_waited_for(work: Path, server: BatchServer, kind: str) -> None:
    server.on = lambda event: 404 if event == "results" else None
    batch(work, judges(server, kind), wait=False)
    with pytest.raises(RefBenchError, match=r"not there yet .*: the batches are kept"):
        batch(work, judges(server, kind), wait=False)
    assert not acts(work / "run")
    server.on = lambda event: None
    report, _ = batch(work, judges(server, kind))
    assert set(server.submitted.values()) == {1}
    assert (report.outstanding, any(e.failure for e in acts(work / "run").values())) == (0, False)


@pytest.mark.parametrize("kind", KINDS)
def test_lost_results_count_at_their_worst_so_that_the_budget_ends_them(
    work: Path, server: BatchServer, kind: str
) -> None:
    server.fate = lambda custom_id: "missing"
    worst = 0.5 * 2000 * 10 / 1e6  # of the reply alone
    for _ in range(3):
        batch(work, judges(server, kind), budget="1usd")
    assert worst * server.submitted.total() <= Run.open(work / "run").spent_usd() <= 1
    assert {str(e.failure).partition(", which")[0] for e in acts(work / "run").values()} == {
        "api_error: not answered: no result in the batch"
    }
    server.fate = lambda custom_id: "ok"
    batch(work, judges(server, kind))
    assert not any(e.failure for e in acts(work / "run").values())


def test_a_reply_counts_where_another_file_names_an_error(work: Path, server: BatchServer) -> None:
    names = BatchServer._openai_results

    def both(self: BatchServer, kept: Kept) -> tuple[str | None, str | None]:
        self.files["error"] = b"".join(
            json.dumps({"custom_id": name, "error": {"code": "x", "message": "y"}}).encode() + b"\n"
            for name in kept.requests
        )
        return names(self, kept)[0], "error"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchServer, "_openai_results", both)
        batch(work, judges(server, "openai"))
    assert not any(e.failure for e in acts(work / "run").values())


@pytest.mark.parametrize("kind", KINDS)
def test_a_refusal_is_final_until_it_is_asked_for(work: Path, server: BatchServer, kind: str) -> None:
    unlucky = some(4)
    server.fate = lambda custom_id: "refused" if unlucky(custom_id) else "ok"
    batch(work, judges(server, kind))
    refused = [e for e in acts(work / "run").values() if e.failure is not None]
    assert {e.failure.kind for e in refused if e.failure} == {"refused"}
    assert batch(work, judges(server, kind))[0].submitted == 0
    server.fate = lambda custom_id: "ok"
    assert batch(work, judges(server, kind), retry=frozenset({"refused"}))[0].submitted == len(refused)


def test_a_batch_that_failed_as_a_whole_says_why(work: Path, server: BatchServer) -> None:
    server.fate = lambda custom_id: "failed"
    batch(work, judges(server, "openai"))
    failures = {str(e.failure) for e in acts(work / "run").values()}
    assert len(failures) == 1
    assert "Enqueued token limit reached" in failures.pop()


def test_a_batch_that_the_provider_has_forgotten_is_handed_in_again(work: Path, server: BatchServer) -> None:
    batch(work, judges(server, "openai"), wait=False)
    server.kept.clear()
    report, _ = batch(work, judges(server, "openai"))
    assert (report.submitted, report.outstanding) == (ACTS, 0)
    assert not any(e.failure for e in acts(work / "run").values())


def test_batches_stay_within_the_limits(work: Path, server: BatchServer) -> None:
    batch(work, judges(server, "anthropic"), limits=BatchLimits(requests=10, size=1 << 30))
    assert [len(kept.requests) for kept in server.kept.values()] == [10, 10, 10, 10, 10, 4]
    size = 30_000
    batch(work, judges(server, "openai"), out="other", limits=BatchLimits(requests=1000, size=size))
    sizes = [len(content) for name, content in server.files.items() if name.startswith("file-")]
    assert len(sizes) > 3
    assert max(sizes) <= size
    assert sum(sizes) / len(sizes) > 0.6 * size, "no more batches than it takes"
    assert set(server.submitted.values()) == {1}


def test_a_request_that_is_larger_than_the_limit_goes_alone(work: Path, server: BatchServer) -> None:
    report, _ = batch(work, judges(server, "openai"), limit=1, limits=BatchLimits(requests=1000, size=100))
    assert (report.recorded, len(server.kept)) == (6, 6)


def worst_of_a_case(path: Path) -> float:
    """Half the live worst case of the six calls of a case, as the journal has it."""
    (line, *_) = (path / "batches.jsonl").read_text().splitlines()
    told = json.loads(line)
    return float(told["worst_usd"]) / len(told["acts"]) * 6


@pytest.mark.parametrize("kind", KINDS)
def test_the_budget_covers_half_the_worst_case_of_whole_cases(work: Path, server: BatchServer, kind: str) -> None:
    cap = 0.2
    report, judged = batch(work, judges(server, kind), budget=f"{cap}usd", wait=False)
    assert judged.stopped == "budget"
    assert report.submitted == 6 * int(cap / worst_of_a_case(work / "run")) > 0
    assert Counter(p["model"] for p in intended(work / "run")) == {"A": report.submitted / 2, "B": report.submitted / 2}
    server.polls = 10
    again, judged = batch(work, judges(server, kind), budget=f"{cap}usd", wait=False)
    assert (again.submitted, judged.stopped) == (0, "budget"), "what is outstanding still holds its share"


def test_what_a_batch_did_not_use_of_the_budget_pays_for_the_next(work: Path, server: BatchServer) -> None:
    _, judged = batch(work, judges(server, "openai"), budget="0.15usd")
    assert judged.stopped == ""
    assert len(server.kept) > 1
    assert Run.open(work / "run").spent_usd() == pytest.approx(ACTS * LIVE_USD / 2)
    _, judged = batch(work, judges(server, "openai"), out="poor", budget="0.08usd")
    spent = Run.open(work / "poor").spent_usd()
    assert judged.stopped == "budget"
    assert 0 < spent <= 0.08
    assert judged.budget.reserved == pytest.approx(0)
    recorded = [purpose for purpose, _ in Run.open(work / "poor").evidence()]
    assert set(Counter(purpose.case for purpose in recorded).values()) == {6}, "no case is split"


def test_a_judge_whose_batches_only_fail_is_handed_no_more(work: Path, server: BatchServer) -> None:
    """Here a budget hands the cases in by turns; without the breaker every turn would fail alike."""

    def breaking(judged: JudgingRun) -> None:
        judged.breaker = Breaker(4)

    server.fate = lambda custom_id: "errored"
    report, judged = batch(work, judges(server, "openai"), budget="0.15usd", started=breaking)
    assert (len(server.kept), report.outstanding, judged.stopped) == (1, 0, "failures")
    assert 0 < report.submitted == report.recorded < ACTS
    assert judged.breaker.stopped["judge"].startswith(
        "judge was stopped after 4 failures in a row, all alike (api_error"
    )
    assert judged.budget.reserved == pytest.approx(0)
    batch(work, judges(server, "openai"), budget="0.15usd", wait=False, started=breaking)
    server.fate = lambda custom_id: "errored" if server.submitted[custom_id] == 2 else "ok"
    report, judged = batch(work, judges(server, "openai"), started=breaking)
    assert report.submitted == ACTS, "what an earlier command left failing stops nobody"
    assert (judged.stopped, report.outstanding) == ("", 0)
    assert not any(evidence.failure for evidence in acts(work / "run").values())


def test_one_of_two_judges_that_only_fails_leaves_the_other_its_batches(work: Path, server: BatchServer) -> None:
    def breaking(judged: JudgingRun) -> None:
        judged.breaker = Breaker(4)

    def asked_of_openai(custom_id: str) -> bool:
        return any(custom_id in kept.requests for kept in server.kept.values() if kept.kind == "openai")

    server.fate = lambda custom_id: "errored" if asked_of_openai(custom_id) else "ok"
    specs = [SPECS[kind].replace("judge=", f"{kind}=").format(url=server.url) for kind in KINDS]
    _, judged = batch(work, specs, budget="0.25usd", started=breaking)
    assert list(judged.breaker.stopped) == ["openai"]
    told = [p["judge"] for p in intended(work / "run")]
    assert told.count("openai") < ACTS == told.count("anthropic")


def intended(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "batches.jsonl").read_text().splitlines()]
    return [p for line in lines if line["event"] == "intended" for act in line["acts"].values() for p in act["for"]]


def start(work: Path, spec: str, moment: str = "") -> subprocess.Popen[bytes]:
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "support.batch_server", str(work), spec, moment]
    path = os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(command, cwd=tests, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE)


AT_THE_SERVER = ("uploading", "uploaded", "creating", "created", "polled", "results")
IN_THE_CLIENT = (
    "before-1",
    "within-1",
    "after-1",
    "before-2",
    "within-2",
    "after-2",
    "before-4",
    "after-5",
    "recording-7",
    "before-13",
    "within-13",
    "after-14",
)


MOMENTS = [
    (kind, moment)
    for kind in KINDS
    for moment in (*AT_THE_SERVER, *IN_THE_CLIENT)
    if not (kind == "anthropic" and moment.startswith("upload"))  # Anthropic has no upload
]
FEW = [
    ("openai", "created"),
    ("anthropic", "recording-7"),
]
"""Just after a batch is made, and in the middle of recording."""


@pytest.mark.parametrize(("kind", "moment"), slow_but(FEW, MOMENTS))
def test_killed_at_any_moment_it_goes_on_and_hands_nothing_in_twice(
    work: Path, server: BatchServer, kind: str, moment: str
) -> None:
    (spec,) = judges(server, kind)
    seen = Counter[str]()

    def kill(event: str) -> int | None:
        seen[event] += 1
        if event != moment or seen[event] != 2:
            return None
        process.kill()
        process.wait()
        return 503 if event in ("uploading", "creating") else None  # it did not arrive

    server.on = kill
    process = start(work, spec, moment if moment in IN_THE_CLIENT else "")
    process.communicate()
    assert process.returncode == -9
    server.on = lambda event: None
    report, _ = batch(work, [spec])
    assert report.outstanding == 0
    assert len(server.submitted) == ACTS
    assert set(server.submitted.values()) == {1}, "an act was handed in twice"
    assert set(acts(work / "run")) == set(server.submitted)
    assert not any(e.failure for e in acts(work / "run").values())
    assert Run.open(work / "run").spent_usd() == pytest.approx(ACTS * LIVE_USD / 2)
    live(work, [spec], "live")
    assert table(work / "run") == table(work / "live")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("moment", "status"), [("created", 500), ("creating", 503), ("creating", 429)])
def test_a_server_that_errs_when_a_batch_is_made_makes_it_once(
    work: Path, server: BatchServer, kind: str, moment: str, status: int
) -> None:
    """The worst is an error after the batch was made: trying again blindly would pay twice."""
    seen = Counter[str]()

    def err(event: str) -> int | None:
        seen[event] += 1
        return status if event == moment and seen[event] == 1 else None

    server.on = err
    report, _ = batch(work, judges(server, kind))
    assert report.recorded == ACTS
    assert set(server.submitted.values()) == {1}
    assert len(server.kept) == 1


def test_a_strangers_batch_of_the_same_size_is_not_taken_for_ours(work: Path, server: BatchServer) -> None:
    (spec,) = judges(server, "anthropic")

    def kill(event: str) -> int | None:
        if event != "creating":
            return None
        process.kill()
        process.wait()
        return 503  # ours did not arrive

    server.on = kill
    process = start(work, spec)
    process.communicate()
    server.on = lambda event: None
    server.keep("anthropic", {f"theirs-{n}": {"messages": []} for n in range(10)})
    report, _ = batch(work, [spec])
    assert report.outstanding == 0
    batch(work, [spec])
    assert set(server.submitted.values()) == {1}
    assert set(acts(work / "run")) == set(server.submitted)
    assert not any(e.failure for e in acts(work / "run").values())


def test_shards_keep_their_batches_apart(work: Path, server: BatchServer) -> None:
    for index in (1, 2):
        batch(work, judges(server, "openai"), shard=Shard(index=index, count=2), wait=False)
    for index in (1, 2):
        batch(work, judges(server, "openai"), shard=Shard(index=index, count=2))
    assert set(server.submitted.values()) == {1}
    assert {row.n_scored for row in score_run(work / "run", draws=20).rows(level="overall")} == {CASES}


def test_a_picture_that_vanishes_before_it_is_sent_costs_nothing(
    work: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = next((work / "creval/bench/image").glob("*.png"))

    body = HttpVLM.body

    def vanishing(judge: HttpVLM, request: ChatRequest, pictures: Pictures) -> bytes:
        if gone in [picture.path for picture in pictures.values()]:
            raise FileNotFoundError(2, "No such file or directory", str(gone))
        return body(judge, request, pictures)

    monkeypatch.setattr(HttpVLM, "body", vanishing)
    _, judged = batch(work, judges(server, "openai"), budget="5usd")
    failures = [e.failure.kind for e in acts(work / "run").values() if e.failure]
    assert failures == ["unreadable_picture"] * 6, "of both models"
    assert len(server.submitted) == ACTS - 6
    assert judged.budget.reserved == pytest.approx(0)


@pytest.mark.parametrize("spec", ["gemini:gemini-2.5-flash?base_url={url}/v1beta", "replay:{file}"])
def test_other_providers_are_turned_down_in_a_sentence(work: Path, server: BatchServer, spec: str) -> None:
    (work / "replies.jsonl").touch()
    with pytest.raises(RefBenchError, match="--batch works with OpenAI and Anthropic;") as raised:
        batch(work, [*judges(server, "openai"), spec.format(url=server.url, file=work / "replies.jsonl")])
    assert "\n" not in str(raised.value)
    assert not server.submitted


def test_a_server_without_batches_is_told_apart(work: Path) -> None:
    with JudgeServer() as plain, pytest.raises(RefBenchError, match="run without --batch"):
        plain.status, plain.error = 404, {"detail": "Not Found"}
        plain.keep_bodies = False
        batch(work, [f"judge=anthropic:x?base_url={plain.url}"], limit=1)


def test_a_wrong_key_is_said_and_not_shown(work: Path, server: BatchServer) -> None:
    server.on = lambda event: 401
    with pytest.raises(RefBenchError, match="set a valid key"):
        batch(work, judges(server, "openai"))
    server.on = lambda event: None
    assert batch(work, judges(server, "openai"))[0].recorded == ACTS


@pytest.mark.parametrize(
    ("kind", "variable", "header"),
    [("openai", "OPENAI_API_KEY", "Bearer {}"), ("anthropic", "ANTHROPIC_API_KEY", "{}")],
)
def test_no_key_reaches_any_file_of_a_run(
    work: Path, server: BatchServer, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str, header: str
) -> None:
    secret = "sk-planted-9f8e7d6c5b4a"
    monkeypatch.setenv(variable, secret)
    unlucky = some(3)
    server.fate = lambda custom_id: "errored" if unlucky(custom_id) else "ok"
    batch(work, judges(server, kind))
    assert header.format(secret) in server.keys
    files = [path for path in (work / "run").rglob("*") if path.is_file()]
    assert work / "run/batches.jsonl" in files
    for path in files:
        assert secret.encode() not in path.read_bytes(), path


def test_a_damaged_journal_is_said_and_nothing_is_handed_in(work: Path, server: BatchServer) -> None:
    batch(work, judges(server, "openai"), wait=False)
    path = work / "run/batches.jsonl"
    path.write_bytes(b"}" + path.read_bytes())
    with pytest.raises(RefBenchError, match=r"batches\.jsonl cannot be read"):
        batch(work, judges(server, "openai"))
    assert len(server.kept) == 1


@pytest.mark.parametrize(
    "edit",
    [
        {"worst_usd": "x"},
        {"worst_usd": -900.0},
        {"acts": {"a": {}}},
        {"acts": ["a"]},
        {"time": "soon"},
        {"place": ["openai", 7, "m"]},
        {"batch": ["a"]},
        "pipe",
        "device",
    ],
)
def test_an_edited_journal_is_said_and_nothing_is_handed_in(
    work: Path, server: BatchServer, edit: dict[str, object] | str
) -> None:
    """A batch that counts less than nothing would make a budget last longer."""
    batch(work, judges(server, "openai"), wait=False)
    path = work / "run/batches.jsonl"
    intended, *others = path.read_text().splitlines()
    if isinstance(edit, dict):
        path.write_text("\n".join([json.dumps({**json.loads(intended), **edit}), *others]) + "\n")
    else:
        path.unlink()
        os.mkfifo(path) if edit == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(RefBenchError, match=r"batches\.jsonl (cannot be read|is a link)"):
        batch(work, judges(server, "openai"))
    assert len(server.kept) == 1


def test_the_journal_says_how_much_is_outstanding(work: Path, server: BatchServer) -> None:
    batch(work, judges(server, "openai"), wait=False)
    assert BatchJournal(work / "run/ledger.sqlite").outstanding == ACTS
    batch(work, judges(server, "openai"))
    assert BatchJournal(work / "run/ledger.sqlite").outstanding == 0
