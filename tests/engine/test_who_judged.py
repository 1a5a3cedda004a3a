"""Who judged: what a judge's own server tells, what its user declares, and a judge that changed under the same name."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refbench import RefBenchError
from refbench.benchmarks import benchmark
from refbench.calls.transport import Transport
from refbench.chat import ChatRequest, ChatText
from refbench.chat.presets import judge_presets
from refbench.chat.vlm import make_vlm
from refbench.cli.list import list_command
from refbench.engine import evaluate
from refbench.engine.doctor import examine
from refbench.report.formats import to_csv, to_json
from refbench.runs import Run
from refbench.runs.merging import merge
from refbench.specs import Spec
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from refbench.tables.table import Table
from support.checkout import plain_items, write_checkout
from support.judge_server import JudgeServer

MODEL = "Qwen3-VL-8B-Instruct"


def listed(**entry: Any) -> dict[str, Any]:
    """A list of models as vLLM gives it: when it was made changes from call to call."""
    listed.calls = getattr(listed, "calls", 0) + 1  # type: ignore[attr-defined]
    made = {"object": "model", "created": listed.calls, "permission": [{"id": listed.calls}]}  # type: ignore[attr-defined]
    return {"object": "list", "data": [{"id": "other", "root": "/other", **made}, {"id": MODEL, **made, **entry}]}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Any]:
    items = plain_items(2)
    root = write_checkout(tmp_path / "creval", items)
    (tmp_path / "m").mkdir()
    for item in items:
        (tmp_path / f"m/{item.stem}.png").write_bytes((root / f"bench/image/{item.stem}.png").read_bytes())

    def judged(server: JudgeServer, *, limit: int | None = None, out: str = "run", **declared: str) -> Any:
        options = "".join(f"&{name}={value}" for name, value in declared.items())
        return evaluate(
            "creval",
            data=root,
            models=[f"m=folder:{tmp_path / 'm'}"],
            judges=[f"qwen=openai:{MODEL}?base_url={server.url}/v1{options}"],
            out=tmp_path / out,
            limit=limit,
        ).result

    return judged


def test_what_the_server_tells_is_recorded_beside_the_fingerprint(run: Callable[..., Any], tmp_path: Path) -> None:
    with JudgeServer(tells={"/v1/models": listed(root="Qwen/Q8"), "/version": {"version": "0.11.0"}}) as server:
        told = run(server)
    with JudgeServer() as server:
        silent = run(server, out="silent")
    assert f"judge qwen ({MODEL}, root Qwen/Q8); own wording" in told.measured_by()
    assert f"judge qwen ({MODEL}, weights unverified); own wording" in silent.measured_by()
    assert {row["weights"] for row in csv.DictReader(to_csv(silent).splitlines())} == {"weights unverified"}
    assert silent.words_and_weights == "own wording; weights unverified: qwen"  # what pages say
    assert told.words_and_weights == "own wording"
    assert json.loads(to_json(told))["served"] == {"qwen": {"root": "Qwen/Q8", "version": "0.11.0"}}
    assert told.table.fingerprint == silent.table.fingerprint, "what others tell is beside it, not in it"
    again = score_run(tmp_path / "run", draws=0)
    assert again.served == told.served, "a table that is made later says the same"


def test_a_server_that_does_not_answer_neither_fails_nor_holds_up_a_run(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refbench.chat.http._PATIENCE", 0.5)
    with JudgeServer(tells={"/v1/models": "hang", "/version": ["no", "object"]}) as server:
        result = run(server)
        assert sorted(look.path for look in server.looks) == ["/v1/models", "/version"], "one try each"
    assert "weights unverified" in result.measured_by()
    assert not result.failures()


def test_another_model_under_the_same_name_is_refused_before_anything_is_asked(run: Callable[..., Any]) -> None:
    with JudgeServer(tells={"/v1/models": listed(root="Qwen/Q8")}) as server:
        run(server, limit=1)
        asked = len(server.requests)
        server.tells = {"/v1/models": listed(root="Qwen/Q32")}
        with pytest.raises(RefBenchError, match=r"root Qwen/Q8 then, Qwen/Q32 now\): start the server as it was, or"):
            run(server)
        assert len(server.requests) == asked
        server.tells = {}
        run(server)  # tells nothing now, which contradicts nothing
        server.tells = {"/v1/models": listed(root="Qwen/Q8")}
        run(server)
    assert len(server.requests) == 6


def test_runs_of_two_models_under_one_name_do_not_merge(run: Callable[..., Any], tmp_path: Path) -> None:
    for out, root in (("a", "Qwen/Q8"), ("b", "Qwen/Q8"), ("c", "Qwen/Q32")):
        with JudgeServer(tells={"/v1/models": listed(root=root)}) as server:
            run(server, out=out)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "ab")
    with pytest.raises(RefBenchError, match=r"the judge qwen of .*root Qwen/Q8 then, Qwen/Q32 now"):
        merge([tmp_path / "a", tmp_path / "c"], tmp_path / "ac")


def test_what_is_declared_is_part_of_the_judge_and_sent_to_nobody(run: Callable[..., Any]) -> None:
    with JudgeServer() as server:
        result = run(server, limit=1, revision="abc", quantization="awq", template="0f0f")
        assert "(Qwen3-VL-8B-Instruct, revision abc, quantization awq, template 0f0f)" in result.measured_by()
        assert all(set(request.body) == {"model", "messages", "max_tokens"} for request in server.requests)
        asked = len(server.requests)
        with pytest.raises(RefBenchError, match=r"'revision': 'abc'.*'revision': 'def'"):
            run(server, revision="def", quantization="awq", template="0f0f")
        assert len(server.requests) == asked
        plain = run(server, limit=1, out="plain")
    assert result.table.fingerprint != plain.table.fingerprint


def test_a_server_that_answers_in_another_state_is_not_mixed_in(run: Callable[..., Any], tmp_path: Path) -> None:
    with JudgeServer(fingerprint="build-1") as server:
        first = run(server, limit=1)
        assert first.served["qwen"]["system_fingerprint"] == "build-1"
        server.fingerprint = "build-2"
        with pytest.raises(RefBenchError, match="system_fingerprint build-1 then, build-2 now"):
            run(server)
        assert len(server.requests) == 4, "one token was asked for, and no mark"
        server.fingerprint = "build-1"
        run(server)
    assert Run.open(tmp_path / "run").answered_as() == {"qwen": ["build-1"]}


def test_a_server_that_changes_while_a_run_goes_on_ends_it(run: Callable[..., Any], tmp_path: Path) -> None:
    class Restarted(JudgeServer):
        answered = 0

        async def _answer(self, request: Any, body: Any, digest: str) -> Any:
            self.answered += 1
            self.fingerprint = "build-1" if self.answered < 3 else "build-2"
            return await super()._answer(request, body, digest)

    with Restarted() as server, pytest.raises(RefBenchError, match="answers as system_fingerprint build-"):
        run(server)
    kept = list(Run.open(tmp_path / "run").evidence())
    assert len(kept) < 6, "what came from the other is not on record"


def test_a_gateway_to_a_provider_may_change_its_state(run: Callable[..., Any], tmp_path: Path) -> None:
    with JudgeServer(fingerprint="fp_1") as server:
        run(server, limit=1, family="openai")
        server.fingerprint = "fp_2"
        result = run(server, family="openai")
    assert result.served["qwen"]["system_fingerprint"] == "fp_1, fp_2"


def test_a_key_goes_to_where_the_calls_go_and_into_no_file(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-of-somebody")
    tells = {"/v1/models": listed(root="of sk-a-key-of-somebody"), "/version": {"version": "1"}}
    with JudgeServer(tells=tells) as server:
        result = run(server)
    assert "root of " in result.measured_by() and "somebody" not in result.measured_by(), "a server may quote it"
    keyed = {look.path: "Authorization" in look.headers for look in server.looks}
    assert keyed == {"/v1/models": True, "/version": False}
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert not any(b"sk-a-key-of-somebody" in path.read_bytes() for path in files)


def test_the_doctor_says_what_is_behind_the_name() -> None:
    with JudgeServer(tells={"/v1/models": listed(root="Qwen/Q8")}, reply=lambda words: "2") as server:
        (known,) = asyncio.run(examine([f"openai:{MODEL}?base_url={server.url}/v1&revision=abc"], 2))
        server.tells = {}
        (unknown,) = asyncio.run(examine([f"openai:{MODEL}?base_url={server.url}/v1"], 2))
    assert known.findings["weights"] == "revision abc, root Qwen/Q8"
    assert unknown.findings["weights"].startswith("unverified: ")


def test_a_providers_own_address_is_asked_nothing_about_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert asyncio.run(make_vlm(Spec.parse("openai:gpt-4o"), Transport()).served()) is None


@pytest.mark.parametrize(
    ("spec", "kind", "model"),
    [
        ("paper:multibanana/gpt-5", "openai", "gpt-5-2025-08-07"),
        ("paper:multibanana/gemini-2.5-flash", "gemini", "gemini-2.5-flash"),
        ("paper:multibanana/qwen3-vl-8b?base_url=http://127.0.0.1:1/v1", "openai", "Qwen/Qwen3-VL-8B-Instruct"),
        ("paper:creval/gpt-4o", "openai", "gpt-4o"),
        ("paper:icebench/qwen2.5-vl-72b?base_url=http://127.0.0.1:1/v1", "openai", "Qwen/Qwen2.5-VL-72B-Instruct"),
        ("paper:ideabench/gemini-1.5-pro", "gemini", "gemini-1.5-pro"),
        ("paper:multiref/gpt-4o-mini", "openai", "gpt-4o-mini"),
    ],
)
def test_a_short_spec_names_a_papers_judge(monkeypatch: pytest.MonkeyPatch, spec: str, kind: str, model: str) -> None:
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    vlm = make_vlm(Spec.parse(f"mine={spec}", "--judge"), Transport())
    said = vlm.canonical(ChatRequest(parts=(ChatText(text="x"),)), 0)
    assert (vlm.name, said["endpoint"].split()[0], said["model"]) == ("mine", kind, model)
    if "base_url" in spec:
        with pytest.raises(RefBenchError, match="on a server of yours: add"):
            make_vlm(Spec.parse(spec.partition("?")[0], "--judge"), Transport())
    assert spec.removeprefix("paper:").partition("?")[0] in judge_presets()


def test_a_papers_judge_that_is_none_is_told_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(
        RefBenchError, match="no paper's judge is called multibanana/gpt-6: did you mean multibanana/gpt-5"
    ):
        make_vlm(Spec.parse("paper:multibanana/gpt-6", "--judge"), Transport())
    assert list_command("judges", json=True) == 0
    kinds = [row["kind"] for row in json.loads(capsys.readouterr().out)["judges"]]
    assert {f"paper:{name}" for name in judge_presets()} <= set(kinds)


def test_a_dated_id_is_the_judge_that_the_papers_tables_name() -> None:
    bench = benchmark("multibanana")
    table = Table(benchmark="multibanana", fingerprint="", digest="", rows=(), parts={
        "judges": ["j", "k"], "asked": {"j": {"model": "gpt-5-2025-08-07"}, "k": {"model": "gpt-5-2026-01-01"}}
    })  # fmt: skip
    result = Result(bench=bench, table=table, scores=(), cases=())
    assert result.same_judge("j", "GPT-5")
    assert not result.same_judge("k", "GPT-5")
    assert not result.same_judge("j", "Gemini-2.5")
