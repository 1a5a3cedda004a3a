"""Anthropic's messages. A reply after a schema is asked for as the input of a tool, which the API enforces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from refbench.calls.said import count, listed, text
from refbench.chat.http import Provider
from refbench.chat.vlm import ChatRequest, Reply
from refbench.failure import Failure

MOST_TOKENS = 4096


def _shape(
    model: str, request: ChatRequest, parameters: Mapping[str, Any], content: list[dict[str, Any]]
) -> dict[str, Any]:
    opening = [
        {"role": role, "content": said}
        for role, said in zip(("user", "assistant"), request.opening or (), strict=False)
    ]
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens or MOST_TOKENS,
        "messages": [*opening, {"role": "user", "content": content}],
    }
    if request.system:
        body["system"] = request.system
    if request.json_schema:
        body["tools"] = [{"name": "reply", "description": "Give the reply.", "input_schema": request.json_schema}]
        body["tool_choice"] = {"type": "tool", "name": "reply"}
    return {**body, **parameters}


def _read(reply: Any) -> Reply:
    tokens: dict[str, Any] = {name: count(reply, "usage", name) for name in ("input_tokens", "output_tokens")}
    reason = text(reply, "stop_reason")
    if reason == "refusal":
        return Reply(None, Failure(kind="refused", detail="stop reason refusal"), **tokens)
    blocks = listed(reply, "content")
    tool = [block.get("input") for block in blocks if block.get("type") == "tool_use"]
    words = (
        orjson.dumps(tool[0]).decode()
        if tool
        else "".join(text(block, "text") for block in blocks if block.get("type") == "text")
    )
    if not words.strip():
        return Reply(None, Failure(kind="empty_reply", detail=f"stop reason {reason[:100]}"), **tokens)
    return Reply(words, cut_off=reason == "max_tokens", **tokens)


def _headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": "2023-06-01", **({"x-api-key": key} if key else {})}


ANTHROPIC = Provider(
    kind="anthropic",
    base_url="https://api.anthropic.com",
    base_url_variable="ANTHROPIC_BASE_URL",
    key_variables=("ANTHROPIC_API_KEY",),
    url=lambda base, model: f"{base}/v1/messages",
    headers=_headers,
    text=lambda text: {"type": "text", "text": text},
    picture=lambda part, mime, data: {
        "type": "image",
        "source": {"type": "base64", "media_type": mime, "data": data},
    },
    shape=_shape,
    read=_read,
    most_tokens=MOST_TOKENS,
)
