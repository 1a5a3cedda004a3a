"""Replay: answers from what an earlier run was told, without any call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refbench.calls.prices import FREE
from refbench.chat.vlm import VLM, ChatRequest, Pictures
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.record import RefBenchError, content_key
from refbench.specs import Spec, family_of, judge_options
from refbench.text.files import json_lines

_ASKED = ("system", "opening", "parts", "max_tokens", "json_schema", "repeat")


class ReplayVLM(VLM):
    """Gives the recorded reply to a request that is equal in text, pictures and repeat; otherwise `missing_reply`.

    `replies` maps what was asked (see `asked_key`) to the reply.
    """

    def __init__(self, spec: Spec, replies: Mapping[str, str]) -> None:
        self.name = spec.name
        self.family = judge_options(spec)["family"] or family_of(spec.name)
        self.price = FREE
        self._replies = replies

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        return request.canonical("replay", self.name, repeat)

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        canonical = self.canonical(request, repeat)
        reply = self._replies.get(asked_key(canonical))
        if reply is None:
            failure = Failure(kind="missing_reply", detail="the replayed run was never asked this")
            return Evidence(kind="chat", request=canonical, failure=failure)
        return Evidence(kind="chat", request=canonical, reply=reply, cost_usd=0.0, provenance="replayed")


def asked_key(canonical: Mapping[str, Any]) -> str:
    """The part of a canonical request that does not depend on who was asked."""
    return content_key({key: canonical[key] for key in _ASKED if key in canonical})


def read_replies(path: Path) -> dict[str, str]:
    """The replies in a file of evidence, one JSON object a line, as `refbench export --what evidence` writes it."""
    replies: dict[str, str] = {}
    try:
        for _, act in json_lines(path):
            if act.get("reply") is not None:
                replies[asked_key(act["request"])] = act["reply"]
    except (RefBenchError, KeyError, TypeError, AttributeError) as error:
        raise RefBenchError(
            f"replay:{path} is no file of evidence ({error}): "
            "write one with refbench export RUN --what evidence --out FILE.jsonl"
        ) from error
    return replies
