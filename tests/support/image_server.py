"""An image provider on loopback that speaks real wire formats, remembers what it was sent, and answers as it is told.

Multipart forms are taken apart by the standard library's mail parser, which knows nothing of how they were made.
"""

from __future__ import annotations

import asyncio
import base64
import email
import email.policy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiohttp import web

from refbench.pictures import encode
from support.loopback import LoopbackServer


def png(shade: int, size: tuple[int, int] = (12, 8)) -> bytes:
    """A plain picture, width x height, told from others by its shade."""
    return encode(np.full((size[1], size[0], 3), shade, dtype=np.uint8))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass(frozen=True)
class Part:
    """A part of a multipart form, as it came."""

    name: str
    data: bytes
    filename: str | None
    mime: str


@dataclass(frozen=True)
class Seen:
    """One request as it came over the wire; `body` of JSON, `parts` of a form."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    parts: Sequence[Part]

    def field(self, name: str) -> str:
        (found,) = [part.data.decode() for part in self.parts if part.name == name]
        return found

    def named(self, name: str) -> list[bytes]:
        return [part.data for part in self.parts if part.name == name]


@dataclass(frozen=True)
class Told:
    """An answer: a status with JSON, or with any bytes. `hang` answers never, `cut` closes the connection."""

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    cut: bool = False


@dataclass
class ImageServer(LoopbackServer):
    """Runs in a thread of its own. `answers` are given in turn, then the good answer of the path that was asked."""

    answers: list[Told] = field(default_factory=list)
    always: Told | None = None
    files: dict[str, bytes] = field(default_factory=dict)
    """What GET gives, by path."""
    paint: Callable[[int], bytes] = lambda number: png(100 + number)
    requests: list[Seen] = field(default_factory=list)
    latency: float = 0.0

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        form = request.content_type == "multipart/form-data"
        parts = parts_of(request.headers["Content-Type"], raw) if form else []
        body = json.loads(raw) if raw and not form else {}
        seen = Seen(request.method, request.path, dict(request.headers), body, parts)
        self.requests.append(seen)
        if request.method == "GET":
            data = self.files.get(request.path)
            return web.Response(status=404) if data is None else web.Response(body=data, content_type="image/png")
        async with self._in_flight():
            told = self.answers.pop(0) if self.answers else self.always or Told(body=self._good(seen))
            if told.hang:
                await asyncio.sleep(3600)
            if told.cut:
                assert request.transport is not None
                request.transport.close()
        if isinstance(told.body, bytes):
            return web.Response(status=told.status, body=told.body, headers=told.headers)
        return web.json_response(told.body, status=told.status, headers=told.headers)

    def _good(self, seen: Seen) -> dict[str, Any]:
        if seen.path.endswith(":generateContent"):
            return gemini_reply(self.paint(0))
        if "/images/" in seen.path:
            n = int(seen.field("n") if seen.parts else seen.body.get("n", 1))
            return openai_reply(*(self.paint(number) for number in range(n)))
        return http_reply(*(self.paint(number) for number in range(seen.body["n_pictures"])))


def parts_of(content_type: str, raw: bytes) -> list[Part]:
    message = email.message_from_bytes(
        b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + raw, policy=email.policy.HTTP
    )
    found = []
    for part in message.iter_parts():
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        name = part.get_param("name", header="content-disposition")
        found.append(Part(str(name), data, part.get_filename(), part.get_content_type()))
    return found


def openai_reply(*pictures: bytes, **changes: Any) -> dict[str, Any]:
    """What the gpt-image models answer."""
    usage = {
        "total_tokens": 5260,
        "input_tokens": 1100,
        "output_tokens": 4160,
        "input_tokens_details": {"text_tokens": 100, "image_tokens": 1000},
    }
    return {"created": 1763200000, "data": [{"b64_json": b64(p)} for p in pictures], "usage": usage, **changes}


def gemini_reply(
    *pictures: bytes, text: str = "", reason: str = "STOP", before: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """What Gemini's image models answer: parts of text and of inline data."""
    parts = [*before, *([{"text": text}] if text else [])]
    parts += [{"inlineData": {"mimeType": "image/png", "data": b64(p)}} for p in pictures]
    candidate: dict[str, Any] = {"finishReason": reason, "index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": parts}
    usage = {
        "promptTokenCount": 1100,
        "candidatesTokenCount": 1300,
        "totalTokenCount": 2400,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}, {"modality": "IMAGE", "tokenCount": 1000}],
        "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1290}],
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": "gemini-2.5-flash-image",
        "responseId": "abc",
    }


def http_reply(*pictures: bytes, **changes: Any) -> dict[str, Any]:
    """What a server of one's own answers by our protocol."""
    return {"version": 1, "pictures": [b64(p) for p in pictures], **changes}
