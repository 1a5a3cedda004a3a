"""The doctor for image models: one small request tells what can be used, and why not."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.chat import ChatRequest, ChatText
from refbench.cli.app import main
from refbench.engine.doctor import Largest, ModelReport, examine, examine_models
from refbench.pictures import encode
from refbench.record import RefBenchError
from support.image_server import ImageServer, Told

KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def examined(spec: str, **how: int) -> ModelReport:
    (report,) = asyncio.run(examine_models([spec], **how))
    return report


def test_a_healthy_model_is_found_healthy() -> None:
    with ImageServer() as server:
        report = examined(f"m=openai:gpt-image-1?base_url={server.url}/v1&price=0.04", n_pictures=3, n_back=2)
        (seen,) = server.requests
    assert report.usable
    assert len(seen.named("image[]")) == 3, "one request, with as many references as asked for"
    assert report.findings["reachable"] == "yes"
    assert report.findings["references"].startswith("took 3 in a request")
    assert report.findings["pictures back"] == "2 of 2 asked for"
    assert report.findings["size"] == "12x8 png"
    assert report.cost_usd == pytest.approx(0.08)
    assert report.seconds is not None


def test_an_unknown_price_is_said() -> None:
    report = examined("copy=http://127.0.0.1:9/paint")
    assert not report.usable
    assert "not known: --budget would need" in report.findings["cost"]


def test_a_model_that_takes_fewer_references_is_not_enough() -> None:
    with ImageServer() as server:
        report = examined(f"m=openai:gpt-image-1?base_url={server.url}/v1&max_references=2", n_pictures=5)
        (seen,) = server.requests
    assert not report.usable
    assert len(seen.named("image[]")) == 2
    assert "takes 2 at most, 5 are needed" in report.findings["references"]


def test_a_wrong_key_is_told_apart_from_a_failing_server() -> None:
    wrong = Told(status=401, body={"error": {"message": f"Incorrect API key provided: {KEY}"}})
    with ImageServer(always=wrong) as server:
        report = examined(f"m=openai:gpt-image-1?base_url={server.url}/v1")
    assert not report.usable
    assert "refuses the key" in report.findings["reachable"]
    assert KEY not in json.dumps(report.model_dump())
    broken = Told(status=400, body={"error": {"message": "no more than 0 images"}})
    with ImageServer(answers=[broken]) as server:
        report = examined(f"m=openai:gpt-image-1?base_url={server.url}/v1")
    assert not report.usable
    assert report.findings["reachable"] == "yes"
    assert "without any it works" in report.findings["references"]


def test_a_model_without_a_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert "OPENAI_API_KEY" in examined("openai:gpt-image-1").findings["reachable"]


def test_folders_need_no_doctor() -> None:
    with pytest.raises(RefBenchError, match="need no doctor"):
        examined("folder:pictures")


def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["refbench", "doctor", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_exit_code_says_whether_all_can_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = doctor(monkeypatch, capsys, "--model", "baseline:collage", "--pictures", 4)
    assert code == 0
    assert "collage: can be used" in out
    assert "took 4 in a request" in out
    monkeypatch.delenv("OPENAI_API_KEY")
    code, out, _ = doctor(monkeypatch, capsys, "--model", "baseline:copy", "--model", "openai:gpt-image-1", "--json")
    assert code == 2
    said = json.loads(out)
    assert [report["usable"] for report in said["models"]] == [True, False]
    assert said["judges"] == []
    assert doctor(monkeypatch, capsys)[0] == 2


@pytest.mark.parametrize(("schema", "said"), [(None, "the benchmark needs none"), ({"type": "object"}, "not kept (")])
def test_a_schema_that_no_request_has_is_not_asked_for(
    tmp_path: Path, schema: dict[str, Any] | None, said: str
) -> None:
    (tmp_path / "judge.py").write_text("def judge(prompt):\n    return 'Yes'\n")
    request = ChatRequest(parts=(ChatText(text="How good?"),), json_schema=schema)
    largest = Largest("c", request, {}, needs_schema=schema is not None)
    (report,) = asyncio.run(examine([f"mine=python:{tmp_path}/judge.py:judge"], 1, largest))
    assert report.findings["json schema"].startswith(said)


def test_the_doctor_says_of_an_id_that_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert "was shut down on 23 October 2026" in examined("openai:gpt-image-1").findings["reachable"]


def test_cases_of_ones_own_are_tried_with_the_rubric_that_judges_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "judge.py").write_text("def judge(prompt):\n    return 'Yes'\n")
    (tmp_path / "a.png").write_bytes(encode(np.zeros((32, 32, 3), dtype=np.uint8)))
    cases = tmp_path / "cases.jsonl"
    cases.write_text(json.dumps({"id": "one", "instruction": "Paint it", "references": ["a.png"]}))
    words = ("--benchmark", cases, "--judge", f"j=python:{tmp_path}/judge.py:judge")
    assert (
        "the request about one, one of the largest, went through"
        in (doctor(monkeypatch, capsys, *words, "--rubric", "five_criteria")[1])
    )
    assert doctor(monkeypatch, capsys, "--benchmark", cases, "--model", "baseline:copy")[0] == 0, "nothing is judged"
