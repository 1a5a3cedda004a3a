"""VLM: whoever answers chat requests, and what one asks. Judges, planners, captioners and writers all use one.

A `ChatRequest` is fixed to the last byte before anything is sent.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from refbench.calls.prices import Price
from refbench.chat.pictures import SentPicture
from refbench.evidence import Attempt, Evidence
from refbench.failure import Failure
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


Pictures = Mapping[str, SentPicture]
"""The pictures of a request by their hash."""


@dataclass(frozen=True)
class Reply:
    """A reply as a provider or local weights give it: the text or a failure, and what it used."""

    text: str | None
    failure: Failure | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cut_off: bool = False
    """Whether the reply ended at the limit of tokens."""


@runtime_checkable
class VLM(Protocol):
    """Answers a request, or says why not. Never raises for what a server does wrong with one request.

    Subclass it to write one of your own: only `name`, `canonical` and `ask` have no default.
    """

    name: str
    family: str = "unknown"
    endpoint: str | None = None
    """The address whose calls are limited together; None for one that the transport never calls."""
    price: Price | None = None
    """None when it is not known; `refbench.calls.FREE` where nothing is paid."""

    @abstractmethod
    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        """The request as it is keyed: known before it is sent, so that it is sent once."""

    @abstractmethod
    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        """The reply or the failure, with what it cost."""

    def input_tokens(self, request: ChatRequest, pictures: Pictures) -> int:
        """Tokens of the request by the provider's published rule; 0 where nobody counts them."""
        return 0

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        """Dollars if the reply is as long as it may be; None when the price is not known."""
        return None if self.price is None else self.price.cost(self.input_tokens(request, pictures), 0)

    def batches(self) -> BatchCalls | None:
        """How its requests are handed in as a provider's batches; None where they cannot be."""
        return None

    async def close(self) -> None:
        """Give back what it holds. Called once, when nobody asks any more."""
        return


class BatchCalls(Protocol):
    """What handing in requests as a provider's batches takes: whom to ask, the bodies, and what results mean."""

    kind: str
    base_url: str
    model: str

    @property
    def headers(self) -> Mapping[str, str]: ...

    def body(self, request: ChatRequest, pictures: Pictures) -> bytes: ...

    def read(self, status: int, body: bytes) -> Reply: ...

    def evidence(self, request: Mapping[str, Any], reply: Reply, attempt: Attempt, price_share: float) -> Evidence: ...
