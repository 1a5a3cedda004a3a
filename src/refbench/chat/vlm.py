"""ChatRequest: one question to a vision-language model, fixed to the last byte before anything is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from refbench.chat.pictures import SentPicture
from refbench.evidence import Evidence
from refbench.record import Record


class ChatText(Record):
    """A piece of text in the user's message."""

    type: Literal["text"] = "text"
    text: str


class ChatPicture(Record):
    """A picture in the user's message, by the hash of the bytes that are sent."""

    type: Literal["picture"] = "picture"
    sha256: str
    detail: Literal["auto", "low", "high"] = "auto"


class ChatRequest(Record):
    """What is asked, whoever is asked: the order of the parts is the order on the wire."""

    system: str | None = None
    parts: tuple[ChatText | ChatPicture, ...]
    max_tokens: int | None = None
    json_schema: Mapping[str, Any] | None = None
    """The schema that the reply must follow, for providers that can enforce one."""

    def canonical(
        self, endpoint: str, model: str, repeat: int = 0, parameters: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The request as Evidence keys it: who is asked, what, how, and for the how-manieth time."""
        asked = self.model_dump(mode="json", exclude_none=True)
        return {"endpoint": endpoint, "model": model, "parameters": dict(parameters or {}), "repeat": repeat, **asked}

    @property
    def pictures(self) -> tuple[ChatPicture, ...]:
        return tuple(part for part in self.parts if isinstance(part, ChatPicture))

    @property
    def text_length(self) -> int:
        """Characters of text, for estimating tokens."""
        return len(self.system or "") + sum(len(part.text) for part in self.parts if isinstance(part, ChatText))


# VLM: whoever answers chat requests. Judges, planners, captioners and writers all use one.

Pictures = Mapping[str, SentPicture]
"""The pictures of a request by their hash."""


class VLM(Protocol):
    """Answers a request, or says why not. Never raises for what a server does wrong with one request."""

    name: str
    family: str

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        """The request as it is keyed: known before it is sent, so that it is sent once."""
        ...

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        """Dollars if the reply is as long as it may be; None when the price is not known."""
        ...

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence: ...
