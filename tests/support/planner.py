"""A VLM on loopback with replies in a fixed order, and what it was asked: texts and pictures as they came."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat.vlm import VLM, make_vlm
from refbench.specs import Spec
from support.judge_server import JudgeServer, Seen

Result = TypeVar("Result")


def saying(*replies: str) -> JudgeServer:
    """A server that gives these replies one after another, the last for ever."""
    waiting = list(replies)

    def reply(_: str) -> str:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return JudgeServer(reply=reply)


def with_vlm(server: JudgeServer, work: Callable[[VLM], Awaitable[Result]], options: str = "") -> Result:
    """Do the work with a VLM that asks this server."""

    async def go() -> Result:
        async with Transport(policy=RetryPolicy(attempts=2, first=0.01), timeout=60) as transport:
            spec = Spec.parse(f"seer=openai:tiny?base_url={server.url}/v1{options}", "--vlm")
            return await work(make_vlm(spec, transport))

    return asyncio.run(go())


def content(seen: Seen) -> list[Any]:
    """Texts as they are and pictures as bytes, in the order of the wire."""
    found: list[Any] = []
    for part in seen.body["messages"][-1]["content"]:
        if part["type"] == "text":
            found.append(part["text"])
        else:
            found.append(base64.b64decode(part["image_url"]["url"].partition(",")[2]))
    return found


def pictures(seen: Seen) -> list[bytes]:
    return [part for part in content(seen) if isinstance(part, bytes)]


def texts(seen: Seen) -> str:
    return "\n".join(part for part in content(seen) if isinstance(part, str))
