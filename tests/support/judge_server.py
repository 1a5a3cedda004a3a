"""A judge on loopback that speaks real wire formats, remembers what it was sent, and misbehaves on demand.

What it does is a function of the request alone, so that any two runs meet the same luck.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from support.loopback import LoopbackServer

LABELS = (
    "Instruction Alignment",
    "Reference Consistency",
    "Background-Subject Match",
    "Physical Realism",
    "Visual Quality",
)


def dice(text: str, salt: str) -> float:
    return int.from_bytes(hashlib.sha256(f"{salt}\0{text}".encode()).digest()[:6], "big") / 2**48


@dataclass(frozen=True)
class Faults:
    """Shares of requests that meet each fault. Throttled, failing, hanging and cut ones go well when tried again."""

    throttled: float = 0.0
    failing: float = 0.0
    malformed: float = 0.0
    refused: float = 0.0
    hanging: float = 0.0
    cut: float = 0.0

    def of(self, digest: str) -> str:
        luck = dice(digest, "fault")
        for name in ("throttled", "failing", "malformed", "refused", "hanging", "cut"):
            share = getattr(self, name)
            if luck < share:
                return name
            luck -= share
        return ""


@dataclass
class Seen:
    """One request as it came over the wire."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    digest: str


@dataclass
class JudgeServer(LoopbackServer):
    """Runs in a thread of its own. `requests` holds everything that arrived, in order."""

    faults: Faults = field(default_factory=Faults)
    latency: float = 0.0
    status: int | None = None
    """When set, every request is answered with this status and `error`."""
    error: dict[str, Any] = field(default_factory=dict)
    reply: Callable[[str], str] | None = None
    """From the request's text to the reply's; the default answers CREval and MultiBanana."""
    with_pictures: bool = False
    """Whether `reply` gets the whole request, and so tells outputs of one case apart."""
    keep_bodies: bool = True
    requests: list[Seen] = field(default_factory=list)
    looks: list[Seen] = field(default_factory=list)
    """What was asked about the server itself (GET)."""
    tells: dict[str, Any] = field(default_factory=dict)
    """What it tells of itself, by path; it has nothing at any other."""
    fingerprint: str | None = None
    """The system_fingerprint of its replies."""
    tries: Counter[str] = field(default_factory=Counter)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            self.looks.append(Seen(request.path, dict(request.headers), {}, ""))
            if self.tells.get(request.path) == "hang":
                await asyncio.sleep(30)
            there = request.path in self.tells
            return web.json_response(self.tells.get(request.path), status=200 if there else 404)
        raw = await request.read()
        body = json.loads(raw) if raw else {}
        digest = hashlib.sha256(raw).hexdigest()
        self.requests.append(Seen(request.path, dict(request.headers), body if self.keep_bodies else {}, digest))
        self.tries[digest] += 1
        async with self._in_flight():
            return await self._answer(request, body, digest)

    async def _answer(self, request: web.Request, body: dict[str, Any], digest: str) -> web.StreamResponse:
        if self.status is not None:
            return web.json_response(self.error, status=self.status)
        fault = self.faults.of(digest)
        first = self.tries[digest] == 1
        if first and fault == "throttled":
            return web.json_response(
                {"error": {"message": "slow down", "type": "rate_limit"}}, status=429, headers={"Retry-After": "0.05"}
            )
        if first and fault == "failing":
            return web.Response(text="<html>upstream failed</html>", status=500)
        if first and fault == "hanging":
            await asyncio.sleep(30)
        if first and fault == "cut":
            assert request.transport is not None
            request.transport.close()
        text = (self.reply or answer)(json.dumps(body) if self.with_pictures else text_of(body))
        if fault == "malformed":
            text = "The picture is nice; I would say it is all right."
        reply = wire(request.path, text, refused=fault == "refused")
        return web.json_response(reply | ({"system_fingerprint": self.fingerprint} if self.fingerprint else {}))


def text_of(body: dict[str, Any]) -> str:
    """All text of a request in any of the three formats."""
    found: list[str] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("text"), str):
                found.append(value["text"])
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(body.get("messages") or body.get("contents"))
    return "\n".join(found)


def answer(text: str) -> str:
    """CREval's questions by objects, otherwise MultiBanana's five lines; right or wrong by the dice."""
    questions = re.findall(r"^(Q\d+): (.+)$", text, re.MULTILINE)
    if questions:
        objects = [
            {
                "Question": f"{q}: {t}",
                "explanation": "Seen.",
                "answer": "Yes" if dice(text + q, "answer") < 0.75 else "No",
            }
            for q, t in questions
        ]
        return "\n\n".join(json.dumps(o) for o in objects)
    lines = [f"{label}: {1 + int(dice(text + label, 'score') * 10)}." for label in LABELS]
    return "Reasoning: looked at it.\n" + "\n".join(lines)


def wire(path: str, text: str, *, refused: bool) -> dict[str, Any]:
    """The reply in the format that belongs to the path."""
    if path.endswith(":generateContent"):
        candidate = {
            "content": {"role": "model", "parts": [{"text": text}]},
            "finishReason": "SAFETY" if refused else "STOP",
        }
        return {
            "candidates": [candidate],
            "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 40, "thoughtsTokenCount": 60},
        }
    if path.endswith("/v1/messages"):
        return {
            "type": "message",
            "content": [] if refused else [{"type": "text", "text": text}],
            "stop_reason": "refusal" if refused else "end_turn",
            "usage": {"input_tokens": 1000, "output_tokens": 100},
        }
    message = {
        "role": "assistant",
        "content": None if refused else text,
        "refusal": "I can't help with that." if refused else None,
    }
    return {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }
