"""VLM: whoever answers chat requests. Judges, planners, captioners and writers all use one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from refbench.chat.request import ChatRequest
from refbench.chat.sent import SentPicture
from refbench.evidence import Evidence

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
