"""Gemini's generateContent, over REST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refbench.calls.said import count, listed, table, text, total
from refbench.chat.http import Provider
from refbench.chat.vlm import ChatRequest, Reply
from refbench.failure import Failure

REFUSALS = frozenset(
    {
        "SAFETY",
        "PROHIBITED_CONTENT",
        "BLOCKLIST",
        "SPII",
        "RECITATION",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "NO_IMAGE",
    }
)
"""Finish reasons that mean that Gemini declined, for text or for pictures."""
WRITTEN = ("candidatesTokenCount", "thoughtsTokenCount")
"""The tokens of a reply; thoughts are paid for too."""


def _shape(
    model: str, request: ChatRequest, parameters: Mapping[str, Any], content: list[dict[str, Any]]
) -> dict[str, Any]:
    settings: dict[str, Any] = dict(parameters)
    if request.max_tokens:
        settings["maxOutputTokens"] = request.max_tokens
    if request.json_schema:
        settings["responseMimeType"] = "application/json"
        settings["responseJsonSchema"] = request.json_schema
    opening = [
        {"role": role, "parts": [{"text": said}]}
        for role, said in zip(("user", "model"), request.opening or (), strict=False)
    ]
    body: dict[str, Any] = {"contents": [*opening, {"role": "user", "parts": content}]}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if settings:
        body["generationConfig"] = settings
    return body


def _read(reply: Any) -> Reply:
    usage = table(reply, "usageMetadata")
    tokens: dict[str, Any] = {
        "input_tokens": count(usage, "promptTokenCount"),
        "output_tokens": total(usage, *WRITTEN) if usage else None,
    }
    blocked = text(reply, "promptFeedback", "blockReason")
    if blocked:
        return Reply(None, Failure(kind="refused", detail=f"prompt blocked: {blocked[:100]}"), **tokens)
    candidates = listed(reply, "candidates")
    if not candidates:
        return Reply(None, Failure(kind="empty_reply", detail="the server sent no candidate"), **tokens)
    reason = text(candidates[0], "finishReason")
    parts = listed(candidates[0].get("content"), "parts")
    words = "".join(text(part, "text") for part in parts if not part.get("thought"))
    if reason in REFUSALS:
        return Reply(None, Failure(kind="refused", detail=f"finish reason {reason}"), **tokens)
    if not words.strip():
        return Reply(None, Failure(kind="empty_reply", detail=f"finish reason {reason[:100]}"), **tokens)
    return Reply(words, cut_off=reason == "MAX_TOKENS", **tokens)


GEMINI = Provider(
    kind="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    base_url_variable="GEMINI_BASE_URL",
    key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    url=lambda base, model: f"{base}/models/{model}:generateContent",
    headers=lambda key: {"x-goog-api-key": key} if key else {},
    text=lambda text: {"text": text},
    picture=lambda part, mime, data: {"inline_data": {"mime_type": mime, "data": data}},
    shape=_shape,
    read=_read,
    most_tokens=65_536,
)
