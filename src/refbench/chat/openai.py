"""OpenAI's chat completions, as OpenAI, vLLM, Ollama and gateways speak them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refbench.calls.said import count, listed, table, tables, text
from refbench.chat.http import Provider
from refbench.chat.vlm import ChatPicture, ChatRequest, Reply
from refbench.failure import Failure

OFFICIAL = "https://api.openai.com/v1"


def _picture(part: ChatPicture, mime: str, data: str) -> dict[str, Any]:
    url = f"data:{mime};base64,{data}"
    return {
        "type": "image_url",
        "image_url": {"url": url} if part.detail == "auto" else {"url": url, "detail": part.detail},
    }


def _shape(
    model: str, request: ChatRequest, parameters: Mapping[str, Any], content: list[dict[str, Any]]
) -> dict[str, Any]:
    told: Any = [{"type": "text", "text": request.system}] if request.system_in_parts else request.system
    messages = [{"role": "system", "content": told}] if request.system else []
    messages += [
        {"role": role, "content": said}
        for role, said in zip(("user", "assistant"), request.opening or (), strict=False)
    ]
    body: dict[str, Any] = {"model": model, "messages": [*messages, {"role": "user", "content": content}]}
    given = dict(parameters)
    # OpenAI's own newer models refuse max_tokens, other servers do not know the new name.
    limit = given.pop("tokens_field", "max_tokens")
    if request.max_tokens:
        body[limit] = request.max_tokens
    if request.json_schema:
        schema = {"name": "reply", "schema": request.json_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return {**body, **given}


def _read(reply: Any) -> Reply:
    tokens: dict[str, Any] = {
        "input_tokens": count(reply, "usage", "prompt_tokens"),
        "output_tokens": count(reply, "usage", "completion_tokens"),
        "system_fingerprint": text(reply, "system_fingerprint")[:100],
    }
    choices = listed(reply, "choices")
    if not choices:
        return Reply(None, Failure(kind="empty_reply", detail="the server sent no choice"), **tokens)
    message, reason = table(choices[0], "message"), text(choices[0], "finish_reason")
    if refusal := message.get("refusal"):
        return Reply(None, Failure(kind="refused", detail=str(refusal)[:300]), **tokens)
    if reason == "content_filter":
        return Reply(None, Failure(kind="refused", detail="content filter"), **tokens)
    content = text(message, "content") or "".join(text(part, "text") for part in tables(message, "content"))
    if not content.strip():
        return Reply(None, Failure(kind="empty_reply", detail=f"finish reason {reason[:100]}"), **tokens)
    return Reply(content, cut_off=reason == "length", **tokens)


OPENAI = Provider(
    kind="openai",
    base_url=OFFICIAL,
    base_url_variable="OPENAI_BASE_URL",
    key_variables=("OPENAI_API_KEY",),
    url=lambda base, model: f"{base}/chat/completions",
    headers=lambda key: {"Authorization": f"Bearer {key}"} if key else {},
    text=lambda text: {"type": "text", "text": text},
    picture=_picture,
    shape=_shape,
    read=_read,
    most_tokens=16_384,
)
