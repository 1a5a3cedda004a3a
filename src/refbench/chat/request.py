"""ChatRequest: one question to a vision-language model, fixed to the last byte before anything is sent."""

from __future__ import annotations

from typing import Any, Literal

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

    def canonical(self, endpoint: str, model: str, repeat: int = 0) -> dict[str, Any]:
        """The request as Evidence keys it: who is asked, what, and for the how-manieth time."""
        return {"endpoint": endpoint, "model": model, "repeat": repeat, **self.model_dump(mode="json")}
