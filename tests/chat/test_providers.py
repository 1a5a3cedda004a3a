"""Providers: what goes over the wire in each format, and what their replies and errors become."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.calls.prices import picture_tokens
from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare
from refbench.chat.replay import read_replies
from refbench.chat.vlm import make_vlm
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.pictures import encode, facts_of
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of
from support.judge_server import Faults, JudgeServer, wire
from support.raw_server import RawServer, http

SPECS = {
    "openai": "openai:gpt-4o?base_url={url}/v1",
    "gemini": "gemini:gemini-2.5-flash?base_url={url}/v1beta",
    "anthropic": "anthropic:claude-sonnet-4-5?base_url={url}",
}
KEYS = {"openai": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


def picture(folder: Path, number: int) -> SentPicture:
    path = folder / f"{number}.png"
    path.write_bytes(encode(np.full((8, 10, 3), number * 20, dtype=np.uint8)))
    sent = prepare(path, PicturePolicy(), lambda data, name: path)
    assert isinstance(sent, SentPicture)
    return sent


def ask(
    server: JudgeServer, kind: str, request: ChatRequest, pictures: list[SentPicture], options: str = ""
) -> Evidence:
    async def work() -> Evidence:
        async with Transport(policy=RetryPolicy(attempts=2, first=0.01), timeout=60) as transport:
            spec = SPECS[kind].format(url=server.url) + options
            vlm = make_vlm(Spec.parse(spec, "--judge"), transport)
            return await vlm.ask(request, {p.sha256: p for p in pictures}, 0)

    return asyncio.run(work())


@pytest.fixture
def pictures(tmp_path: Path) -> list[SentPicture]:
    return [picture(tmp_path, n) for n in range(1, 4)]


@pytest.fixture
def request_(pictures: list[SentPicture]) -> ChatRequest:
    parts = [ChatText(text="First:"), ChatPicture(sha256=pictures[0].sha256), ChatText(text='Then "these" \\ two:\n')]
    parts += [ChatPicture(sha256=p.sha256, detail="high") for p in pictures[1:]]
    return ChatRequest(system="Be fair.", parts=(*parts, ChatText(text="Is it @good@?")), max_tokens=321)


def shas(pieces: list[str]) -> list[str]:
    return [hashlib.sha256(base64.b64decode(piece)).hexdigest() for piece in pieces]


def test_openai_over_the_wire(
    request_: ChatRequest, pictures: list[SentPicture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-one")
    with JudgeServer() as server:
        evidence = ask(server, "openai", request_, pictures, "&temperature=0&seed=7")
        (seen,) = server.requests
    assert seen.path == "/v1/chat/completions"
    assert seen.headers["Authorization"] == "Bearer sk-one"
    assert seen.headers["Content-Type"] == "application/json"
    assert (seen.body["model"], seen.body["max_tokens"], seen.body["temperature"], seen.body["seed"]) == (
        "gpt-4o",
        321,
        0,
        7,
    )
    assert "stream" not in seen.body
    system, user = seen.body["messages"]
    assert system == {"role": "system", "content": "Be fair."}
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "text", "image_url", "image_url", "text"]
    assert user["content"][2]["text"] == 'Then "these" \\ two:\n'
    urls = [part["image_url"]["url"] for part in user["content"] if part["type"] == "image_url"]
    assert shas([url.removeprefix("data:image/png;base64,") for url in urls]) == [p.sha256 for p in pictures]
    assert evidence.reply
    assert (evidence.input_tokens, evidence.output_tokens) == (1000, 100)
    assert evidence.request["parameters"] == {"temperature": 0, "seed": 7}
    assert "sk-one" not in evidence.model_dump_json()


def test_gemini_over_the_wire(
    request_: ChatRequest, pictures: list[SentPicture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "g-key")
    with JudgeServer() as server:
        evidence = ask(server, "gemini", request_, pictures, "&temperature=0.5")
        (seen,) = server.requests
    assert seen.path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert seen.headers["x-goog-api-key"] == "g-key"
    assert seen.body["systemInstruction"]["parts"] == [{"text": "Be fair."}]
    assert seen.body["generationConfig"] == {"temperature": 0.5, "maxOutputTokens": 321}
    (content,) = seen.body["contents"]
    data = [part["inline_data"] for part in content["parts"] if "inline_data" in part]
    assert shas([item["data"] for item in data]) == [p.sha256 for p in pictures]
    assert {item["mime_type"] for item in data} == {"image/png"}
    assert evidence.output_tokens == 100, "thoughts are paid for too"


def test_anthropic_over_the_wire(
    request_: ChatRequest, pictures: list[SentPicture], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    with JudgeServer() as server:
        evidence = ask(server, "anthropic", request_, pictures)
        (seen,) = server.requests
    assert seen.path == "/v1/messages"
    assert seen.headers["x-api-key"] == "a-key"
    assert seen.headers["anthropic-version"] == "2023-06-01"
    assert (seen.body["system"], seen.body["max_tokens"]) == ("Be fair.", 321)
    sources = [part["source"] for part in seen.body["messages"][0]["content"] if part["type"] == "image"]
    assert shas([source["data"] for source in sources]) == [p.sha256 for p in pictures]
    assert {source["media_type"] for source in sources} == {"image/png"}
    assert evidence.reply


@pytest.mark.parametrize("kind", SPECS)
def test_what_was_said_before_is_turns_of_its_own(kind: str) -> None:
    request = ChatRequest(opening=("Set to work.", "I am ready."), parts=(ChatText(text="Rate it."),), max_tokens=50)
    with JudgeServer() as server:
        ask(server, kind, request, [])
        (seen,) = server.requests
    turns = seen.body.get("messages") or seen.body["contents"]
    assert [turn["role"] for turn in turns] == ["user", "model" if kind == "gemini" else "assistant", "user"]
    assert ["Set to work." in str(turns[0]), "I am ready." in str(turns[1]), "Rate it." in str(turns[2])] == [True] * 3
    plain = request.model_copy(update={"opening": None})
    assert request.canonical("x", "m") != plain.canonical("x", "m")
    assert "opening" not in plain.canonical("x", "m"), "what was recorded before has the same key"


SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("kind", SPECS)
def test_json_mode_is_each_providers_own(kind: str) -> None:
    request = ChatRequest(parts=(ChatText(text="Rate it."),), json_schema=SCHEMA, max_tokens=50)
    with JudgeServer(reply=lambda text: '{"score": 7}') as server:
        ask(server, kind, request, [])
        body = server.requests[0].body
    if kind == "openai":
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    elif kind == "gemini":
        assert body["generationConfig"]["responseMimeType"] == "application/json"
        assert body["generationConfig"]["responseJsonSchema"] == SCHEMA
    else:
        assert body["tools"][0]["input_schema"] == SCHEMA
        assert body["tool_choice"] == {"type": "tool", "name": "reply"}


REPLIES: list[tuple[str, dict[str, Any], str | None]] = [
    ("openai", wire("/v1/chat/completions", "x", refused=True), "refused"),
    ("openai", {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}, "refused"),
    ("openai", {"choices": [{"message": {"content": "  "}, "finish_reason": "length"}]}, "empty_reply"),
    ("openai", {"choices": []}, "empty_reply"),
    ("openai", {"choices": "what"}, "api_error"),
    (
        "openai",
        {"choices": [{"message": {"content": [{"type": "text", "text": "Yes"}]}, "finish_reason": "stop"}]},
        None,
    ),
    ("gemini", wire("x:generateContent", "x", refused=True), "refused"),
    ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}, "refused"),
    (
        "gemini",
        {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}]}, "finishReason": "MAX_TOKENS"}]},
        "empty_reply",
    ),
    ("gemini", {"candidates": []}, "empty_reply"),
    ("anthropic", wire("/v1/messages", "x", refused=True), "refused"),
    ("anthropic", {"content": [], "stop_reason": "max_tokens"}, "empty_reply"),
    ("anthropic", {"content": [{"type": "tool_use", "input": {"score": 7}}], "stop_reason": "tool_use"}, None),
]


@pytest.mark.parametrize(("kind", "body", "failure"), REPLIES)
def test_refusals_and_empty_replies_are_their_own_kinds(kind: str, body: dict[str, Any], failure: str | None) -> None:
    with JudgeServer(status=200, error=body) as server:
        evidence = ask(server, kind, ChatRequest(parts=(ChatText(text="?"),)), [])
    assert (evidence.failure and evidence.failure.kind) == failure
    if failure is None:
        assert evidence.reply in ("Yes", '{"score":7}')


@pytest.mark.parametrize(
    ("status", "error", "kind", "says"),
    [
        (
            400,
            {"error": {"message": "blocked by our safety system", "code": "content_policy_violation"}},
            "refused",
            "content_policy",
        ),
        (400, {"error": {"message": "stopped by a safety filter"}}, "refused", "safety filter"),
        (403, {"error": {"code": "PROHIBITED_CONTENT", "message": "no"}}, "refused", "PROHIBITED_CONTENT"),
        (400, {"error": {"message": "maximum context length is 8192 tokens"}}, "api_error", "context length"),
        (413, {"error": "too large"}, "api_error", "too large"),
        (422, {}, "api_error", "HTTP 422"),
    ],
)
def test_errors_of_a_request_are_typed_with_the_servers_words(
    status: int, error: dict[str, Any], kind: str, says: str
) -> None:
    with JudgeServer(status=status, error=error) as server:
        evidence = ask(server, "openai", ChatRequest(parts=(ChatText(text="?"),)), [])
    assert evidence.failure is not None
    assert evidence.failure.kind == kind
    assert says in evidence.failure.detail


def test_two_judges_on_two_servers_are_two_judges() -> None:
    request = ChatRequest(parts=(ChatText(text="?"),))
    with JudgeServer() as one, JudgeServer() as other:
        first, second = ask(one, "openai", request, []), ask(other, "openai", request, [])
        assert len(one.requests) == len(other.requests) == 1
    assert first.id != second.id


def test_replay_answers_from_exported_evidence(tmp_path: Path) -> None:
    request = ChatRequest(parts=(ChatText(text="Is it so?"),))
    with JudgeServer(reply=lambda text: "It is.") as server:
        told = ask(server, "openai", request, [])
    path = tmp_path / "evidence.jsonl"
    path.write_text(json.dumps({"request": dict(told.request), "reply": told.reply}) + "\n")

    async def again(question: str) -> Evidence:
        async with Transport() as transport:
            vlm = make_vlm(Spec.parse(f"old=replay:{path}", "--judge"), transport)
            return await vlm.ask(ChatRequest(parts=(ChatText(text=question),)), {}, 0)

    assert asyncio.run(again("Is it so?")).reply == "It is."
    failure = asyncio.run(again("Is it not?")).failure
    assert failure is not None
    assert failure.kind == "missing_reply"
    with pytest.raises(RefBenchError, match="refbench export"):
        read_replies(tmp_path / "absent.jsonl")


# --- pictures before they are sent -----------------------------------------------------------------------------


def kept(tmp_path: Path) -> Any:
    def store(data: bytes, name: str) -> Path:
        path = tmp_path / f"stored.{name}"
        path.write_bytes(data)
        return path

    return store


def test_a_plain_picture_goes_as_it_is(tmp_path: Path) -> None:
    sent = picture(tmp_path, 3)
    assert sent.changed == ""
    assert sent.path == tmp_path / "3.png"


@pytest.mark.parametrize("name", ["rotated.jpg", "old.bmp", "print.tif", "cmyk.jpg", "moving.gif"])
def test_what_would_show_differently_is_re_encoded_and_said(tmp_path: Path, name: str) -> None:
    image = Image.fromarray(np.full((8, 12, 3), 90, dtype=np.uint8))
    options: dict[str, Any] = {}
    if name == "rotated.jpg":
        exif = Image.Exif()
        exif[0x0112] = 6
        options["exif"] = exif
    if name == "cmyk.jpg":
        image = image.convert("CMYK")
    if name == "moving.gif":
        options = {"save_all": True, "append_images": [Image.fromarray(np.full((8, 12, 3), 9, dtype=np.uint8))]}
    image.save(tmp_path / name, **options)
    sent = prepare(tmp_path / name, PicturePolicy(), kept(tmp_path))
    assert isinstance(sent, SentPicture)
    assert sent.changed
    assert sent.mime == "image/png"
    assert (sent.width, sent.height) == ((8, 12) if name == "rotated.jpg" else (12, 8))
    facts = facts_of(sent.path.read_bytes())
    assert not isinstance(facts, Failure)
    assert facts.sha256 == sent.sha256


def test_a_picture_is_shrunk_on_demand_and_only_when_it_is_larger(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(encode(np.zeros((300, 600, 3), dtype=np.uint8)))
    shrunk = prepare(path, PicturePolicy(max_side=200), kept(tmp_path))
    assert isinstance(shrunk, SentPicture)
    assert (shrunk.width, shrunk.height, shrunk.mime) == (200, 100, "image/jpeg")
    assert "200 px" in shrunk.changed
    same = prepare(path, PicturePolicy(max_side=600), kept(tmp_path))
    assert isinstance(same, SentPicture)
    assert same.changed == ""


def test_broken_pictures_are_failures_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("hello")
    for name in ("text.png", "absent.png"):
        found = prepare(tmp_path / name, PicturePolicy(), kept(tmp_path))
        assert isinstance(found, Failure)
        assert name in found.detail


# --- specs, families, tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "kind", "what", "options"),
    [
        ("openai:gpt-4o", "gpt-4o", "openai", "gpt-4o", {}),
        (
            "j=openai:Qwen/Qwen3-VL?base_url=http://h:8000/v1",
            "j",
            "openai",
            "Qwen/Qwen3-VL",
            {"base_url": "http://h:8000/v1"},
        ),
        ("A=folder:out/A/{task}/{id}_s{seed}.png", "A", "folder", "out/A/{task}/{id}_s{seed}.png", {}),
        ("folder:out/model-b/", "model-b", "folder", "out/model-b/", {}),
        ("openai:x?temperature=0&price=1,2", "x", "openai", "x", {"temperature": "0", "price": "1,2"}),
    ],
)
def test_specs(text: str, name: str, kind: str, what: str, options: dict[str, str]) -> None:
    spec = Spec.parse(text, "--judge")
    assert (spec.name, spec.kind, spec.what, spec.options) == (name, kind, what, options)


@pytest.mark.parametrize("text", ["gpt-4o", "openai:", ":x", "a b=openai:x", ""])
def test_what_is_no_spec_is_said(text: str) -> None:
    with pytest.raises(RefBenchError, match="--judge"):
        Spec.parse(text, "--judge")


def test_families_are_recorded_and_never_guessed() -> None:
    assert family_of("gpt-5-2025-08-07") == "openai"
    assert family_of("Qwen/Qwen3-VL-8B-Instruct") == "alibaba"
    assert family_of("gemini-2.5-flash") == "google"
    assert family_of("our-own-model") == "unknown"


@pytest.mark.parametrize(
    ("kind", "model", "size", "tokens"),
    [
        ("openai", "gpt-4o", (1024, 1024), 85 + 170 * 4),
        ("openai", "gpt-4o", (2048, 4096), 85 + 170 * 6),
        ("openai", "gpt-5", (512, 512), 70 + 140),
        ("openai", "gpt-4.1-mini", (1024, 1024), 1659),
        ("gemini", "gemini-2.5-flash", (300, 300), 258),
        ("gemini", "gemini-2.5-flash", (960, 540), 516),
        ("anthropic", "claude-sonnet-4-5", (1000, 1000), 1334),
        ("anthropic", "claude-sonnet-4-5", (4000, 3000), 1600),
    ],
)
def test_picture_tokens_follow_the_published_rules(kind: str, model: str, size: tuple[int, int], tokens: int) -> None:
    """The providers' own worked examples, or their formula by hand."""
    assert picture_tokens(kind, model, *size, detail="high") == tokens


# --- hostile servers --------------------------------------------------------------------------------------------

KEY = "q7-house-key/of+mine="
PATHS = {"openai": "/v1/chat/completions", "gemini": "x:generateContent", "anthropic": "/v1/messages"}
USAGE = {
    "openai": ("usage", "prompt_tokens", "completion_tokens"),
    "gemini": ("usageMetadata", "promptTokenCount", "candidatesTokenCount"),
    "anthropic": ("usage", "input_tokens", "output_tokens"),
}
QUESTION = ChatRequest(parts=(ChatText(text="?"),), max_tokens=100)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 429, 500])
def test_a_key_that_a_server_quotes_is_cut_by_value_and_the_words_stay(
    kind: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYS[kind], KEY)
    words = f"Incorrect API key provided: {KEY}, or {KEY[:4]}****{KEY[-4:]}. Ask for another."
    body = wire(PATHS[kind], words, refused=False) if status == 200 else {"error": {"message": words}}
    with JudgeServer(status=status, error=body) as server:
        try:
            shown = ask(server, kind, QUESTION, []).model_dump_json()
        except RefBenchError as error:
            assert status in (401, 403, 404)
            shown = str(error)
    assert "Incorrect API key provided: [redacted], or [redacted]. Ask for another." in shown


@pytest.mark.parametrize("kind", SPECS)
def test_a_key_in_pieces_over_the_parts_of_a_reply_is_cut_too(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS[kind], KEY)
    pieces = ("It is ", KEY[:3], *KEY[3:-2], KEY[-2:], ".")
    body = wire(PATHS[kind], "", refused=False)
    parts = [{"type": "text", "text": piece} for piece in pieces]
    if kind == "openai":
        body["choices"][0]["message"]["content"] = parts
    elif kind == "gemini":
        body["candidates"][0]["content"]["parts"] = parts
    else:
        body["content"] = parts
    with JudgeServer(status=200, error=body) as server:
        assert ask(server, kind, QUESTION, []).reply == "It is [redacted]."


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("value", [1000.5, "12", [3], -1000, {"n": 1}, True, 10**12, None], ids=repr)
@pytest.mark.parametrize("place", [1, 2])
def test_a_reply_is_kept_whatever_its_usage_and_counts_as_the_worst_case(kind: str, value: Any, place: int) -> None:
    names = USAGE[kind]
    body = wire(PATHS[kind], "Yes", refused=False)
    body[names[0]][names[place]] = value
    if kind == "gemini" and (place, value) == (2, None):
        body[names[0]]["thoughtsTokenCount"] = "many"
    with JudgeServer(status=200, error=body) as server:
        evidence = ask(server, kind, QUESTION, [], "&price=1,10")
    assert (evidence.reply, evidence.cost_usd) == ("Yes", None)
    # 21 tokens for a question of one sign, and 100 that the reply may have.
    assert evidence.charged_usd == evidence.worst_usd == pytest.approx((21 * 1 + 100 * 10) / 1e6)


def test_what_may_have_been_charged_on_the_way_counts_too() -> None:
    with JudgeServer(faults=Faults(cut=1.0)) as server:
        evidence = ask(server, "openai", QUESTION, [], "&price=1,10")
    assert (evidence.cost_usd, evidence.worst_usd) == (pytest.approx(0.002), None), "no answer began, nothing is paid"
    good = wire(PATHS["openai"], "Yes", refused=False)
    answers = iter([http(good, length=5000), http(good)])
    with RawServer(lambda asked: [next(answers)]) as server:
        evidence = ask(server, "openai", QUESTION, [], "&price=1,10")  # type: ignore[arg-type]
    assert evidence.reply == "Yes"
    assert evidence.charged_usd == pytest.approx(evidence.cost_usd + 0.001021)


@pytest.mark.parametrize("kind", SPECS)
def test_an_error_under_the_status_200_is_an_error(kind: str) -> None:
    with JudgeServer(status=200, error={"error": {"message": "upstream is busy", "code": 502}}) as server:
        evidence = ask(server, kind, QUESTION, [])
    assert str(evidence.failure) == "api_error: HTTP 200: 502 upstream is busy"


def test_parameters_that_make_replies_longer_raise_the_worst_case() -> None:
    async def work(options: str) -> float | None:
        async with Transport() as transport:
            spec = f"openai:x?base_url=http://127.0.0.1:9/v1&price=0,1000000{options}"
            return make_vlm(Spec.parse(spec), transport).worst_cost(QUESTION, {})

    assert [asyncio.run(work(o)) for o in ("", "&max_completion_tokens=500", "&n=3")] == [100, 500, 300]


@pytest.mark.parametrize("option", ["api_key=hunter2", "base_url=http://me:hunter2@host/v1", "base_url=http://[::1"])
def test_a_judge_whose_spec_would_be_recorded_with_a_secret_is_refused(option: str) -> None:
    async def work() -> None:
        async with Transport() as transport:
            make_vlm(Spec.parse(f"j=openai:x?base_url=http://127.0.0.1:9/v1&{option}"), transport)

    with pytest.raises(RefBenchError, match="judge j: ") as raised:
        asyncio.run(work())
    assert "hunter2" not in str(raised.value)
