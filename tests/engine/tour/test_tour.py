"""The tour: every provider's kind of server that behaves, refuses, lies, hangs and echoes the key, within a budget."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import orjson
import pytest
from PIL import Image

from refbench.engine.tour.purse import Allowance, Purse
from refbench.engine.tour.records import JudgeTour, Tour
from refbench.engine.tour.steps import NAMES
from refbench.engine.tour.tour import TourRequest, tour
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.text.console import as_markdown as escaped
from support.five_criteria import FIVE
from support.judge_server import Faults, JudgeServer, text_of
from support.releases import BANANA_A, multibanana_code

Refbench = Callable[..., tuple[int, str, str]]
KEY = "sk-tour-0123456789abcdef"
KINDS = {"openai": "/v1", "gemini": "/v1beta", "anthropic": ""}
_VARIABLES = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_WHOLE = 21
"""Calls of a whole tour without official prompts."""
whole = pytest.mark.skipif(find_spec("skimage") is None, reason="a whole tour audits photographs: refbench[demo]")


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES.values():
        monkeypatch.setenv(name, KEY)


def spec(kind: str, server: JudgeServer, more: str = "") -> str:
    return f"{kind}:some-model?base_url={server.url}{KINDS[kind]}{more}"


def seen(body: str) -> list[np.ndarray]:
    """The pictures of a request of any provider."""
    data = re.findall(r"(?:base64,|\"data\": ?\")([A-Za-z0-9+/=]{40,})", body)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one))).convert("RGB")).astype(int) for one in data]


def behaves(body: str) -> str:
    """A judge that sees: it counts, names a colour, keeps to the form, and marks what is blurred or another thing."""
    text, pictures = text_of(json.loads(body)), seen(body)
    if "How many" in text:
        return f"{len(pictures)}"
    if "What colour" in text:
        return ("Red", "Green", "Blue")[int(pictures[0].mean(axis=(0, 1)).argmax())]
    if "brightness" in text:
        return '{"brightness": 5}'
    if "instruction_alignment" in text:
        reference, output = pictures
        sharp = [np.abs(np.diff(one.mean(axis=2), axis=0)).mean() for one in (reference, output)]
        same = np.abs(reference.mean(axis=(0, 1)) - output.mean(axis=(0, 1))).max() < 3
        marks = dict.fromkeys(FIVE, 9)
        marks |= {"visual_quality": 9 if sharp[1] > 0.8 * sharp[0] else 4, "instruction_alignment": 9 if same else 2}
        return json.dumps({"reasoning": "Seen.", **marks})
    return "ready"


def serving(reply: Callable[[str], str] = behaves, **how: object) -> JudgeServer:
    return JudgeServer(reply=reply, with_pictures=True, **how)  # type: ignore[arg-type]


def visited(specs: list[str], out: Path, **how: object) -> Tour:
    return asyncio.run(tour(TourRequest(specs, out, **how)))  # type: ignore[arg-type]


def states(one: JudgeTour) -> dict[str, str]:
    return {step.name: step.state for step in one.steps}


def said(one: JudgeTour, name: str) -> str:
    return next(step.said for step in one.steps if step.name == name)


@whole
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_behaves_passes_every_step_that_can_be_tried(kind: str, tmp_path: Path) -> None:
    with serving(tells={"/v1/batches": {"data": []}, "/v1/messages/batches": {"data": []}}) as server:
        made = visited([spec(kind, server)], tmp_path / "tour")
        (one,) = made.judges
        assert len(server.requests) == one.calls == made.calls == _WHOLE
    found = states(one)
    assert list(found) == list(NAMES)
    assert found.pop("official prompts") == "not tried"
    assert found.pop("model name") == "does not", "these replies name none"
    assert found.pop("batches") == ("not tried" if kind == "gemini" else "works")
    assert set(found.values()) == {"works"}
    assert said(one, "pictures in a request") == "takes 16, and counts them right up to 16"
    assert said(one, "quick audit").count("3 of 3") == 2
    assert Tour.model_validate_json((tmp_path / "tour" / "report.json").read_text()) == made
    report = (tmp_path / "tour" / "report.md").read_text()
    assert "| WebP | works |" in report
    assert "refbench " in report, "versions"
    assert server.url not in report, "an address of one's own is nobody's business"


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_refuses_the_key_ends_the_tour_after_one_call(kind: str, tmp_path: Path) -> None:
    error = {"error": {"message": f"Incorrect API key provided: {KEY}", "type": "authentication_error"}}
    with serving(status=401, error=error) as server:
        (one,) = visited([spec(kind, server)], tmp_path / "tour").judges
        assert len(server.requests) == 1
    assert states(one) == {"reachable": "does not", **dict.fromkeys(NAMES[1:], "not tried")}
    assert "key" in said(one, "reachable")
    assert KEY not in "".join(path.read_text() for path in (tmp_path / "tour").iterdir())


@whole
def test_a_server_that_lies_is_told_from_one_that_sees(tmp_path: Path) -> None:
    with serving(lambda body: "ready, 10/10") as server:
        (one,) = visited([spec("openai", server)], tmp_path / "tour").judges
    found = states(one)
    assert (found["reachable"], found["pictures in a request"]) == ("works", "works")
    assert said(one, "pictures in a request") == "takes 16, and counts none of them right"
    assert {found[name] for name in ("PNG", "JPEG", "WebP", "JSON schema", "quick audit", "batches")} == {"does not"}
    assert said(one, "same request again") == "the same words"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_echoed_is_in_no_file(kind: str, tmp_path: Path) -> None:
    encoded = base64.b64encode(KEY.encode()).decode()
    with serving(lambda body: f"your key is {KEY}, {encoded}, {KEY[:12]}... {KEY[::-1]}") as server:
        made = visited([spec(kind, server)], tmp_path / "tour")
    text = "".join(path.read_text() for path in (tmp_path / "tour").iterdir()) + made.model_dump_json()
    for form in (KEY, encoded, KEY[::-1], KEY[:12]):
        assert form not in text
    assert "[redacted]" in text


@whole
def test_a_server_that_hangs_costs_one_wait_and_one_that_refuses_pictures_says_how_many(tmp_path: Path) -> None:
    with serving(faults=Faults(hanging=1.0)) as server:
        (one,) = visited([spec("openai", server)], tmp_path / "hangs", timeout=0.2).judges
        assert len(server.requests) == 1
    assert "timeout" in said(one, "reachable")

    def few(body: str) -> str:
        return behaves(body) if len(seen(body)) <= 4 else "x" * (9 << 20)

    with serving(few) as server:
        (one,) = visited([spec("openai", server)], tmp_path / "few").judges
    assert said(one, "pictures in a request").startswith("takes 4, and counts them right up to 4; with 8: api_error")
    assert states(one)["quick audit"] == "works", "the tour goes on"


def test_a_refusal_a_missing_key_and_an_unknown_kind_are_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with serving(faults=Faults(refused=1.0)) as server:
        made = visited(["openai:gpt-5", "nokind:x", spec("anthropic", server)], tmp_path / "tour")
    reasons = [said(one, "reachable") for one in made.judges]
    assert "OPENAI_API_KEY" in reasons[0]
    assert "no judge is of the kind" in reasons[1]
    assert "refused" in reasons[2]
    assert [one.calls for one in made.judges] == [0, 0, 1]


@whole
def test_never_more_is_spent_than_was_allowed(tmp_path: Path) -> None:
    with serving() as server:
        made = visited([spec("openai", server)], tmp_path / "calls", budget="7calls")
        assert len(server.requests) == made.calls == 7
        assert made.stopped == "budget"
        assert states(made.judges[0])["quick audit"] == "not tried"
        assert "budget" in said(made.judges[0], "quick audit")
        visited([spec("openai", server)], tmp_path / "calls", budget="7calls")
        assert len(server.requests) == 7, "what is spent stays spent"
        whole = visited([spec("openai", server)], tmp_path / "calls", budget=f"{_WHOLE}calls")
        assert (len(server.requests), whole.stopped) == (_WHOLE, ""), "with more, it goes on and asks nothing twice"
    with serving() as server:  # 2,000 tokens at 1 dollar a million: 0.2 cents a call at the most
        made = visited([spec("openai", server, "&price=0,1")], tmp_path / "usd", budget="0.0045usd")
        assert made.stopped == "budget"
        assert made.spent_usd is not None
        assert made.spent_usd <= 0.0045
        assert 2 <= len(server.requests) < _WHOLE
        unknown = visited([spec("openai", server)], tmp_path / "unknown", budget="1usd")
        assert "price is not known" in said(unknown.judges[0], "reachable")


def test_a_budget_is_calls_or_dollars() -> None:
    assert Allowance.parse("40calls") == Allowance(calls=40)
    assert Allowance.parse("1 call") == Allowance(calls=1)
    assert Allowance.parse("$0.5") == Allowance.parse("0.5 usd") == Allowance.parse("0.5") == Allowance(usd=0.5)
    for wrong in ("", "some", "1.5calls", "-1usd", "5eur"):
        with pytest.raises(RefBenchError, match="40calls or"):
            Allowance.parse(wrong)


def test_a_call_of_which_nothing_came_back_stays_spent(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"begun":"a","worst_usd":0.25}\n{"begun":"b","worst_usd":null}\n{"beg')
    purse = Purse.opened(path, Allowance(usd=1))
    assert (purse.calls, purse.charged) == (2, 0.25)


def test_interrupted_it_reports_and_the_same_command_goes_on(tmp_path: Path, run_cli: Refbench) -> None:
    out = tmp_path / "tour"
    with serving(latency=0.02) as server:
        words = ["doctor", "--tour", spec("openai", server), "--out", out]
        command = [sys.executable, "-m", "refbench", *map(str, words)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ) as going:
            while going.poll() is None and len(server.requests) < 5:
                time.sleep(0.001)
            going.send_signal(signal.SIGINT)
            assert going.wait() == 130
        report = Tour.model_validate_json((out / "report.json").read_text())
        assert report.stopped == "interrupt"
        assert "interrupted" in said(report.judges[0], "quick audit")
        begun = len(server.requests)
        code, told, _ = run_cli(*words, "--json")
        assert code == 0
        assert len(server.requests) <= _WHOLE + 1, "no more is lost than was in flight"
        assert len(server.requests) > begun
    assert set(states(JudgeTour.model_validate(orjson.loads(told)["judges"][0])).values()) >= {"works"}


@whole
def test_from_the_command_line(tmp_path: Path, run_cli: Refbench) -> None:
    with serving() as server, serving(status=500, error={}) as broken:
        good, bad = spec("openai", server, "&key_env=OPENAI_API_KEY"), spec("gemini", broken)
        code, out, err = run_cli("doctor", "--tour", f"a={good}", f"b={bad}", "--out", tmp_path / "tour")
    assert code == 2, "one cannot be reached"
    assert "a (openai:some-model, a server of one's own), 21 calls" in out
    assert "  reachable: does not (api_error" in out
    assert "at most 60 calls in all" in err
    assert KEY not in out + err
    assert run_cli("doctor", "--tour", "openai:m", "--judge", "openai:m")[0] == 2
    assert run_cli("doctor", "--judge", "openai:m", "--budget", "1usd")[0] == 2
    assert "--benchmark" in run_cli("doctor", "--tour", "openai:m", "--prompts", "official:x")[2]


def test_a_checkout_is_asked_about_in_its_words(tmp_path: Path, run_cli: Refbench) -> None:
    for name in ("006_prompt.txt", "006_1.png", "006_0.png"):
        path = tmp_path / "data" / "3_object" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"Put them together.\n" if name.endswith("txt") else encode(np.zeros((16, 16, 3), np.uint8)))
    code = multibanana_code(tmp_path / "code")
    with serving() as server:
        words = ["doctor", "--tour", spec("openai", server), "--out", tmp_path / "tour", "--json"]
        words += ["--benchmark", "multibanana", "--data", tmp_path / "data", "--prompts", f"official:{code}"]
        done, out, err = run_cli(*words)
        assert (done, err.count("Warning")) == (0, 0)
        asked = [body for seen_one in server.requests if BANANA_A in (body := text_of(seen_one.body))]
    assert len(asked) == 1
    one = JudgeTour.model_validate(orjson.loads(out)["judges"][0])
    assert states(one)["official prompts"] == "works"
    assert "3_object" in said(one, "official prompts")


def test_what_a_server_says_of_itself_is_text_in_the_report_and_words_are_whole(tmp_path: Path) -> None:
    def hostile(body: str) -> str:
        text = text_of(json.loads(body))
        if "How many" in text:
            return "16"
        if "What colour" in text:
            return f"{KEY} colored, evergreen, blueish"  # the key is redacted
        return "![x](http://evil/t.png) [a](javascript:alert(1)) <b> `|` \x1b[31mRED\x1b]0;t\x07\u202e\n# head\n| a | works |"

    with serving(hostile) as server:
        (one,) = visited([spec("openai", server)], tmp_path / "tour").judges
    assert {states(one)[name] for name in ("PNG", "JPEG", "WebP")} == {"does not"}
    assert said(one, "pictures in a request") == "takes 16, and counts them right up to 16"
    with serving(lambda body: "16" if len(seen(body)) < 16 else "1") as server:
        (one_,) = visited([spec("openai", server)], tmp_path / "other").judges
    assert said(one_, "pictures in a request") == "takes 16, and counts none of them right"
    report = (tmp_path / "tour" / "report.md").read_text()
    assert report.replace("\n", "").isprintable()
    assert "evil" in report and not re.search(r"(?<!\\)[\[\]<`]", report)
    assert [line for line in report.splitlines() if line.startswith("#")] == [
        "# A tour of judges",
        f"## {escaped(one.judge)}",
    ]


def test_every_call_that_was_killed_costs_its_most_also_where_it_was_the_same(tmp_path: Path) -> None:
    calls = tmp_path / "calls.jsonl"
    calls.write_bytes(b'{"begun":"a","worst_usd":0.04}\n' * 2 + b'{"begun":"b","worst_usd":0.01}\n')
    purse = Purse.opened(calls, Allowance(usd=0.1))
    assert purse.calls == 3
    assert purse.charged == pytest.approx(0.09)
