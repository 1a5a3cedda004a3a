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
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from refbench.calls.keys import Secrets
from refbench.calls.prices import FREE, Price
from refbench.calls.said import count
from refbench.chat.pictures import SentPicture
from refbench.evidence import Attempt, Evidence
from refbench.failure import Failure, without_keys
from refbench.record import Record, RefBenchError, clean_text
from refbench.specs import JUDGE_PLUG_INS, JUDGES, Spec, from_plug_in, nearest, plug_ins

if TYPE_CHECKING:
    from refbench.calls.transport import Transport


class ChatText(Record):
    """A piece of text in the user's message."""

    type: Literal["text"] = "text"
    text: str


class ChatPicture(Record):
    """A picture in the user's message, by the hash of the bytes that are sent."""

    type: Literal["picture"] = "picture"
    sha256: str
    detail: Literal["auto", "low", "high"] = "auto"
    mime: str | None = None
    """The type that it is declared to have, where a release declares another than the bytes are of."""


class ChatRequest(Record):
    """What is asked, whoever is asked: the order of the parts is the order on the wire."""

    system: str | None = None
    system_in_parts: Literal[True] | None = None
    """Whether the system message is sent as a list of parts where the provider takes both, as a release sends it."""
    opening: tuple[str, str] | None = None
    """What was said before: a first message of the user, and the reply that the model is made to have given to it."""
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
        return len("".join((self.system or "", *(self.opening or ())))) + sum(
            len(part.text) for part in self.parts if isinstance(part, ChatText)
        )


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
    system_fingerprint: str = ""
    """What the server calls the state that it answered in; "" where it says nothing."""


def evidence_of(
    request: Mapping[str, Any],
    reply: Reply,
    price: Price | None,
    attempts: tuple[Attempt, ...] = (),
    share: float = 1.0,
) -> Evidence:
    """What is recorded of a reply, at a share of the price; where its tokens are no counts, the cost is unknown."""
    asked, written = count(reply.input_tokens), count(reply.output_tokens)
    cost = 0.0 if price == FREE else None
    if cost is None and price is not None and asked is not None and written is not None:
        cost = share * price.cost(asked, written)
    return Evidence(
        kind="chat",
        request=dict(request),
        reply=None if reply.text is None else clean_text(reply.text),
        failure=reply.failure,
        attempts=attempts,
        input_tokens=asked,
        output_tokens=written,
        cost_usd=cost,
        provenance="cut off at the limit of tokens" if reply.cut_off else "",
    )


_FINE = frozenset(map(str, range(200, 300)))


def accounted(evidence: Evidence, worst_usd: float | None, unsettled: int = 0) -> Evidence:
    """The evidence with the most that it can have cost, where that is not known: a reply without a cost that can be
    one, and `unsettled` tries that may have been charged."""
    cost = evidence.cost_usd
    known = cost is not None and 0 <= cost < float("inf")
    answers = [attempt.status for attempt in evidence.attempts[-1:] if attempt.status in _FINE]
    served = evidence.reply is not None or bool(answers)
    unknown = unsettled + (served and not known)
    if known and not unknown:
        return evidence
    worst = (cost or 0.0 if known else 0.0) + unknown * (worst_usd or 0.0)
    return evidence.model_copy(update={"cost_usd": cost if known else None, "worst_usd": worst if unknown else None})


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
    system_fingerprints: set[str] | frozenset[str] = frozenset()
    """What its replies, now and on record, call the server's state."""

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

    async def served(self) -> dict[str, str] | None:
        """What is declared, and what its server tells, of the model behind the name; None where there is no server of
        one's own."""
        return None

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
    secrets: Secrets

    @property
    def headers(self) -> Mapping[str, str]: ...

    def body(self, request: ChatRequest, pictures: Pictures) -> bytes: ...

    def read(self, status: int, body: Any) -> Reply:
        """What an answer means; `body` is its JSON, or its text where it is none."""
        ...

    def evidence(self, request: Mapping[str, Any], reply: Reply, attempt: Attempt, price_share: float) -> Evidence: ...


# From a spec to a VLM.

_PROVIDERS = ("openai", "gemini", "anthropic")


def make_vlm(spec: Spec, transport: Transport) -> VLM:
    """The VLM that a spec names; what is missing (a key, an address) is said here, before anything is spent."""
    if spec.kind == "paper":
        from refbench.chat.presets import preset_spec

        spec = preset_spec(spec)
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
    raise RefBenchError(f"no judge is of the kind {without_keys(spec.kind)!r}: {hint}")
