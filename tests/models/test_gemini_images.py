"""`gemini:` image models: parts in order, pictures out of replies, blocks and refusals by their own names."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat.gemini import GEMINI
from refbench.failure import Failure
from refbench.models.api import gemini as gemini_images_module
from refbench.models.api.gemini import gemini_images
from refbench.models.model import Commission, Painted, Shown
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.image_server import ImageServer, Told, b64, gemini_reply, png

KEY = "AIza0123456789abcdefghij"
QUICK = RetryPolicy(attempts=3, first=0.01, longest=0.05)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.delenv("GEMINI_BASE_URL", raising=False)


def paint(
    server: ImageServer,
    commission: Commission,
    options: str = "",
    seed: int = 0,
    model: str = "gemini-2.5-flash-image",
    timeout: float = 60,
) -> Painted:
    async def run() -> Painted:
        async with Transport(policy=QUICK, timeout=timeout) as transport:
            spec = Spec.parse(f"m=gemini:{model}?base_url={server.url}/v1beta{options}", "--model")
            return await gemini_images(spec, transport).generate(commission, seed)

    painted = asyncio.run(run())
    assert KEY not in repr(painted)
    return painted


def shown(folder: Path, count: int) -> tuple[Shown, ...]:
    found = []
    for number in range(count):
        path = folder / f"{number}.png"
        path.write_bytes(png(number * 9))
        found.append(Shown(path, "subject"))
    return tuple(found)


def kind(painted: Painted) -> str | None:
    return painted.failure.kind if painted.failure else None


def test_eight_pictures_are_inline_parts_in_their_order(tmp_path: Path) -> None:
    pictures = shown(tmp_path, 8)
    with ImageServer() as server:
        painted = paint(server, Commission('Put "all" at a table', pictures), "&temperature=0.4")
        (seen,) = server.requests
    assert seen.path == "/v1beta/models/gemini-2.5-flash-image:generateContent"
    assert seen.headers["x-goog-api-key"] == KEY
    assert "key=" not in seen.path
    (content,) = seen.body["contents"]
    assert content["role"] == "user"
    assert content["parts"][0] == {"text": 'Put "all" at a table'}
    sent = [part["inline_data"] for part in content["parts"][1:]]
    assert [base64.b64decode(inline["data"]) for inline in sent] == [p.path.read_bytes() for p in pictures]
    assert {inline["mime_type"] for inline in sent} == {"image/png"}
    assert seen.body["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"], "temperature": 0.4}
    assert painted.pictures == (png(100),)
    assert painted.provenance["model_version"] == "gemini-2.5-flash-image"


def test_the_text_may_come_last(tmp_path: Path) -> None:
    with ImageServer() as server:
        paint(server, Commission("Put them together", shown(tmp_path, 2)), "&text=last")
        parts = server.requests[0].body["contents"][0]["parts"]
    assert [next(iter(part)) for part in parts] == ["inline_data", "inline_data", "text"]


@pytest.mark.parametrize(
    ("wanted", "options", "model", "config"),
    [
        ((1920, 1080), "", "gemini-2.5-flash-image", {"aspectRatio": "16:9"}),
        ((800, 1000), "", "gemini-2.5-flash-image", {"aspectRatio": "4:5"}),
        ((512, 512), "&imageSize=2K", "gemini-3-pro-image", {"aspectRatio": "1:1", "imageSize": "2K"}),
        ((512, 512), "&aspectRatio=21:9", "gemini-2.5-flash-image", {"aspectRatio": "21:9"}),
        ((512, 512), "&size=omit", "gemini-2.5-flash-image", None),
        (None, "", "gemini-2.5-flash-image", None),
        ((512, 512), "", "gemini-2.0-flash-preview-image-generation", None),
    ],
)
def test_a_size_is_asked_for_as_the_nearest_aspect(
    wanted: tuple[int, int] | None, options: str, model: str, config: dict[str, str] | None
) -> None:
    with ImageServer() as server:
        painted = paint(server, Commission("A fox", size=wanted), options, model=model)
        asked = server.requests[0].body["generationConfig"]
    assert asked.get("imageConfig") == config
    assert painted.provenance.get("aspect_ratio") == (config or {}).get("aspectRatio")


def test_settings_beside_the_generation_stand_beside_it() -> None:
    safety = '[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]'
    with ImageServer() as server:
        paint(server, Commission("A fox"), f"&safetySettings={safety}&seed=send", seed=11)
        body = server.requests[0].body
    assert body["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    assert body["generationConfig"]["seed"] == 11


@pytest.mark.parametrize("reason", ["STOP", "SAFETY"])
def test_a_key_in_pieces_over_the_parts_of_a_reply_is_cut_too(reason: str) -> None:
    pieces = [{"text": piece} for piece in KEY]
    with ImageServer(answers=[Told(body=gemini_reply(reason=reason, before=pieces))]) as server:
        painted = paint(server, Commission("A fox"))
    assert painted.provenance["said"] == "[redacted]"
    assert "[redacted]" in str(painted.failure)


@pytest.mark.parametrize(
    "reason",
    ["SAFETY", "PROHIBITED_CONTENT", "NO_IMAGE", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION"],
)
def test_a_reply_that_was_stopped_for_its_content_is_refused(reason: str) -> None:
    with ImageServer(answers=[Told(body=gemini_reply(reason=reason, text="I would rather not."))]) as server:
        painted = paint(server, Commission("A fox"))
    assert painted.pictures == ()
    assert painted.failure == Failure(kind="refused", detail=f"finish reason {reason}: I would rather not.")


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "OTHER", "BLOCKLIST"])
def test_a_blocked_prompt_is_refused(reason: str) -> None:
    told = {"promptFeedback": {"blockReason": reason}, "usageMetadata": {"promptTokenCount": 9}}
    with ImageServer(answers=[Told(body=told)]) as server:
        painted = paint(server, Commission("A fox"))
    assert painted.failure == Failure(kind="refused", detail=f"prompt blocked: {reason}")


def test_text_instead_of_a_picture_is_a_missing_output_with_the_text() -> None:
    with ImageServer(answers=[Told(body=gemini_reply(text="Which fox do you mean?"))]) as server:
        painted = paint(server, Commission("A fox"))
    assert kind(painted) == "missing_output"
    assert "0 of 1 pictures came; it said: Which fox do you mean?" in str(painted.failure)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (gemini_reply(reason="MAX_TOKENS"), "finish reason MAX_TOKENS"),
        (gemini_reply(reason="IMAGE_OTHER"), "finish reason IMAGE_OTHER"),
        ({"candidates": []}, "no candidate"),
        ({}, "no candidate"),
    ],
)
def test_nothing_at_all_is_a_missing_output_with_the_reason(told: dict[str, Any], says: str) -> None:
    with ImageServer(answers=[Told(body=told)]) as server:
        painted = paint(server, Commission("A fox"))
    assert kind(painted) == "missing_output"
    assert says in str(painted.failure)


def test_drafts_of_the_thinking_are_no_pictures_of_the_reply() -> None:
    drafts = [
        {"text": "First a sketch.", "thought": True},
        {"inlineData": {"mimeType": "image/png", "data": b64(png(1))}, "thought": True},
    ]
    with ImageServer(answers=[Told(body=gemini_reply(png(2), text="Here it is.", before=drafts))]) as server:
        painted = paint(server, Commission("A fox"))
    assert (painted.pictures, painted.failure) == ((png(2),), None)
    assert painted.provenance["said"] == "Here it is."


def test_several_pictures_come_in_order_and_a_part_of_them_is_kept() -> None:
    story = Told(body=gemini_reply(png(1), png(2), png(3), text="One, two, three."))
    with ImageServer(answers=[story, story, story]) as server:
        whole = paint(server, Commission("A story", n_pictures=3))
        partial = paint(server, Commission("A story", n_pictures=5))
        more = paint(server, Commission("A fox"), "&extra=last")
        assert "candidateCount" not in server.requests[0].body["generationConfig"]
    assert (whole.pictures, whole.failure) == ((png(1), png(2), png(3)), None)
    assert partial.pictures == whole.pictures
    assert "3 of 5 pictures came" in str(partial.failure)
    assert (more.pictures, more.failure) == ((png(3),), None)


def test_both_spellings_of_inline_data_are_read() -> None:
    part = {"inline_data": {"mime_type": "image/png", "data": b64(png(4))}}
    with ImageServer(answers=[Told(body=gemini_reply(before=[part]))]) as server:
        assert paint(server, Commission("A fox")).pictures == (png(4),)


@pytest.mark.parametrize(
    ("body", "failure", "says"),
    [
        (b"upstream connect error", "api_error", "no JSON object"),
        ({"candidates": "what"}, "api_error", "unknown shape"),
        (gemini_reply(before=[{"inlineData": {}}, {"inlineData": {"mimeType": "image/png"}}]), "api_error", "data"),
        (gemini_reply(png(1, (64, 64))[:-20]), "unreadable_picture", "cut off"),
        (gemini_reply(b"not a picture"), "unreadable_picture", "not a picture"),
        (
            gemini_reply(before=[{"inlineData": {"mimeType": "image/png", "data": b64(png(1))[:-3]}}]),
            "unreadable_picture",
            "base64",
        ),
    ],
)
def test_garbage_is_a_failure_that_says_what_came(body: Any, failure: str, says: str) -> None:
    with ImageServer(answers=[Told(body=body)]) as server:
        painted = paint(server, Commission("A fox"))
    assert (painted.pictures, kind(painted)) == ((), failure)
    assert says in str(painted.failure)


@pytest.mark.parametrize(
    ("status", "message", "says"),
    [
        (400, "API key not valid. Please pass a valid API key.", "refuses the key .* set GEMINI_API_KEY"),
        (403, f"Permission denied for {KEY}", "refuses the key"),
        (404, "models/x is not found for API version v1beta", "does not know the model"),
        (400, "Model does not support the requested response modalities: image,text", "makes no pictures"),
    ],
)
def test_what_no_case_can_succeed_with_ends_the_run(status: int, message: str, says: str) -> None:
    error = {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}
    with ImageServer(answers=[Told(status, error)]) as server, pytest.raises(RefBenchError, match=says) as raised:
        paint(server, Commission("A fox"))
    assert KEY not in str(raised.value)


def test_an_error_of_one_request_is_its_failure() -> None:
    error = {"error": {"code": 400, "message": "Unable to process input image", "status": "INVALID_ARGUMENT"}}
    with ImageServer(answers=[Told(400, error)]) as server:
        painted = paint(server, Commission("A fox"))
    assert kind(painted) == "api_error"
    assert "Unable to process input image" in str(painted.failure)


def test_limits_and_errors_are_tried_again_and_silence_is_a_timeout(tmp_path: Path) -> None:
    pictures = shown(tmp_path, 3)
    exhausted = {"error": {"code": 429, "message": "Resource exhausted", "status": "RESOURCE_EXHAUSTED"}}
    with ImageServer(answers=[Told(429, exhausted, {"Retry-After": "0.01"}), Told(503, b"")]) as server:
        painted = paint(server, Commission("Put them together", pictures))
        bodies = [seen.body for seen in server.requests]
    assert painted.pictures == (png(100),)
    assert bodies[0] == bodies[1] == bodies[2]
    with ImageServer(always=Told(hang=True)) as server:
        assert kind(paint(server, Commission("A fox"), timeout=0.2)) == "timeout"


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch) -> Callable[[ImageServer], None]:
    """The server stands in for Google's own address."""

    def stand_in(server: ImageServer) -> None:
        monkeypatch.setattr(gemini_images_module, "GEMINI", replace(GEMINI, base_url=f"{server.url}/v1beta"))

    return stand_in


def test_tokens_of_pictures_have_a_price_of_their_own(official: Callable[[ImageServer], None]) -> None:
    """Google's list prices for a million tokens: 0.30 in, 2.50 text out, 30 pictures out."""
    pytest.importorskip("genai_prices")
    untold = gemini_reply(png(1))
    del untold["usageMetadata"]["candidatesTokensDetails"]
    with ImageServer() as server:
        official(server)
        painted = paint(server, Commission("A fox"))
        server.answers = [Told(body=untold), Told(body=untold)]
        unknown = paint(server, Commission("A fox"))
        piece = paint(server, Commission("A fox"), "&price=0.039")
        server.answers = [Told(body=untold)]
        tokens = paint(server, Commission("A fox"), "&price=1,10")
    assert painted.cost_usd == pytest.approx((1100 * 0.3 + 10 * 2.5 + 1290 * 30) / 1e6)
    assert unknown.cost_usd is None
    assert piece.cost_usd == pytest.approx(0.039)
    assert tokens.cost_usd == pytest.approx((1100 * 1 + 1300 * 10) / 1e6)


def test_what_is_known_of_the_models() -> None:
    async def work() -> list[tuple[Any, ...]]:
        async with Transport() as transport:
            models = [
                gemini_images(Spec.parse(f"gemini:{name}", "--model"), transport)
                for name in ("gemini-2.5-flash-image", "gemini-3-pro-image", "gemini-nano-banana-2.1")
            ]
            assert models[0].canonical() == {
                "kind": "gemini",
                "endpoint": GEMINI.base_url,
                "model": "gemini-2.5-flash-image",
                "size": "case",
                "text": "first",
                "seed": "omit",
                "extra": "fail",
                "parameters": "{}",
            }
            return [(m.traits.family, m.traits.open_weights, m.traits.max_references) for m in models]

    assert asyncio.run(work()) == [("google", False, None), ("google", False, 14), ("google", False, 14)]


@pytest.mark.parametrize("model", ["gemini-3-pro-image-preview", "gemini-3.1-flash-image-preview"])
def test_a_preview_that_was_shut_down_is_said_with_its_successor(model: str) -> None:
    async def work() -> None:
        async with Transport() as transport:
            await gemini_images(Spec.parse(f"gemini:{model}"), transport).start()

    with pytest.raises(RefBenchError, match=f"was shut down on 25 June 2026: .* ask {model.removesuffix('-preview')},"):
        asyncio.run(work())
