"""VLM: whoever answers chat requests, what one asks, and how a spec becomes one. Judges, planners, captioners and
writers all use one.

A `ChatRequest` is fixed to the last byte before anything is sent.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from refbench.calls.prices import Price
from refbench.calls.transport import Transport
from refbench.chat.pictures import SentPicture
from refbench.evidence import Attempt, Evidence
from refbench.failure import Failure
from refbench.record import Record, RefBenchError
from refbench.specs import JUDGE_PLUG_INS, JUDGES, Spec, from_plug_in, nearest, plug_ins


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


# From a spec to a VLM.

_PROVIDERS = ("openai", "gemini", "anthropic")


def make_vlm(spec: Spec, transport: Transport) -> VLM:
    """The VLM that a spec names; what is missing (a key, an address) is said here, before anything is spent."""
    if spec.kind in _PROVIDERS:  # here and below: what is loaded is what was asked for
        from refbench.chat.http import HttpVLM

        provider = getattr(importlib.import_module(f"refbench.chat.{spec.kind}"), spec.kind.upper())
        return HttpVLM(spec, provider, transport)
    if spec.kind == "local":
        from refbench.chat.local import LocalVLM

        return LocalVLM(spec)
    if spec.kind == "python":
        from refbench.chat.python import python_vlm

        return python_vlm(spec)
    if spec.kind == "replay":
        from refbench.chat.replay import ReplayVLM, read_replies

        return ReplayVLM(spec, read_replies(Path(spec.what)))
    vlm: VLM | None = from_plug_in(spec, JUDGE_PLUG_INS, VLM, f"judge {spec.name}")
    if vlm is not None:
        from refbench.chat.plug_in import PlugInVLM

        return PlugInVLM(spec, vlm)
    hint = nearest(spec.kind, [*JUDGES, *plug_ins(JUDGE_PLUG_INS)], f":{spec.what}")
    raise RefBenchError(f"no judge is of the kind {spec.kind!r}: {hint}")
