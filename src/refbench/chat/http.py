"""HttpVLM: a provider's model behind the transport. Turns what a server does into evidence, failures included."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from refbench.calls import Answer, Call, CallFailedError, Price, Transport, price_of
from refbench.chat.provider import Provider, Said, body_of
from refbench.chat.tokens import request_tokens
from refbench.chat.vlm import ChatRequest, Pictures
from refbench.evidence import Evidence
from refbench.failure import Failure, redact
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of

_OURS = frozenset({"base_url", "key_env", "price", "family", "max_side", "quality", "max_tokens", "json"})
_POLICY = ("content_policy", "content_filter", "content filter", "moderation", "safety system", "responsible ai")


class HttpVLM:
    """One model of one provider at one address. The key is read from the environment and never leaves this object."""

    def __init__(self, spec: Spec, provider: Provider, transport: Transport) -> None:
        self.name = spec.name
        self.model = spec.what
        self.provider = provider
        self.transport = transport
        self.family = spec.options.get("family") or family_of(spec.what)
        self.base_url = base_url_of(spec, provider)
        self._key = key_of(spec, provider, self.base_url)
        self.parameters = _parameters(spec, provider, self.base_url)
        self.max_tokens = int(spec.options["max_tokens"]) if "max_tokens" in spec.options else None
        own = self.base_url != provider.base_url
        self.price: Price | None = price_of(provider.kind, self.model, spec.options, own_server=own)

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        # A limit of the spec shapes all replies, like any other parameter of it.
        limit = {"max_tokens": self.max_tokens} if self.max_tokens else {}
        endpoint = f"{self.provider.kind} {self.base_url}"
        return self._asked(request).canonical(endpoint, self.model, repeat, {**self.parameters, **limit})

    def input_tokens(self, request: ChatRequest, pictures: Pictures) -> int:
        sizes = [(pictures[p.sha256].width, pictures[p.sha256].height) for p in request.pictures]
        return request_tokens(self.provider.kind, self.model, request.text_length, sizes)

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        if self.price is None:
            return None
        most = self._asked(request).max_tokens or self.provider.most_tokens
        return self.price.cost(self.input_tokens(request, pictures), most)

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        canonical = self.canonical(request, repeat)
        asked = self._asked(request)
        body = body_of(self.provider, self.model, asked, self.parameters, pictures)
        call = Call(
            endpoint=self.base_url,
            url=self.provider.url(self.base_url, self.model),
            headers={"Content-Type": "application/json", **self.provider.headers(self._key)},
            body=lambda: body,
            size=len(body),
        )
        try:
            answer = await self.transport.send(call)
        except CallFailedError as error:
            return Evidence(kind="chat", request=canonical, failure=error.failure, attempts=error.attempts)
        except OSError as error:  # a picture that vanished between preparing and sending
            failure = Failure(kind="unreadable_picture", detail=str(error))
            return Evidence(kind="chat", request=canonical, failure=failure)
        said = self._said(answer)
        cost = None
        if self.price is not None and said.input_tokens is not None:
            cost = self.price.cost(said.input_tokens, said.output_tokens or 0)
        return Evidence(
            kind="chat",
            request=canonical,
            reply=said.text,
            failure=said.failure,
            attempts=answer.attempts,
            input_tokens=said.input_tokens,
            output_tokens=said.output_tokens,
            cost_usd=cost,
            provenance="cut off at the limit of tokens" if said.cut_off else "",
        )

    def _asked(self, request: ChatRequest) -> ChatRequest:
        return request.model_copy(update={"max_tokens": self.max_tokens}) if self.max_tokens else request

    def _said(self, answer: Answer) -> Said:
        try:
            told: Any = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            told = None
        if answer.status == 200 and isinstance(told, dict):
            try:
                return self.provider.read(told)
            except (AttributeError, TypeError, KeyError, IndexError) as error:
                return Said(None, Failure(kind="api_error", detail=f"the reply has an unknown shape ({error})"))
        if answer.status == 200:
            return Said(None, Failure(kind="api_error", detail=f"the reply is not JSON: {answer.body[:100]!r}"))
        message = error_message(told) or answer.body[:300].decode("utf-8", "replace")
        self._stop_if_hopeless(answer.status, message)
        if any(word in message.casefold() for word in _POLICY):
            return Said(None, Failure(kind="refused", detail=message[:300]))
        return Said(None, Failure(kind="api_error", detail=f"HTTP {answer.status}: {message[:400]}"))

    def _stop_if_hopeless(self, status: int, message: str) -> None:
        """What no other request of this run will fare better with ends the run, with the remedy."""
        where = f"judge {self.name} ({self.provider.kind} {self.base_url})"
        told = redact(message)[:200]
        if status in (401, 403):
            variable = " or ".join(self.provider.key_variables)
            raise RefBenchError(f"{where} refuses the key (HTTP {status}: {told}): set {variable} to a valid one")
        if status == 404:
            raise RefBenchError(f"{where} does not know the model {self.model!r} or the address (HTTP 404: {told})")


def error_message(told: Any) -> str | None:
    """The sentence in an error body, where the three providers put it."""
    error = told.get("error") if isinstance(told, dict) else None
    if isinstance(error, dict):
        words = [str(error[key]) for key in ("code", "type", "status", "message") if error.get(key)]
        return " ".join(dict.fromkeys(words)) or None
    return str(error) if error else None


def base_url_of(spec: Spec, provider: Provider) -> str:
    url = spec.options.get("base_url") or os.environ.get(provider.base_url_variable) or provider.base_url
    if urlsplit(url).scheme not in ("http", "https"):
        raise RefBenchError(f"the address {url!r} of {spec.name} is no URL: write it as http://host:8000/v1")
    return url.rstrip("/")


def key_of(spec: Spec, provider: Provider, base_url: str) -> str | None:
    variables = (spec.options["key_env"],) if "key_env" in spec.options else provider.key_variables
    for variable in variables:
        if os.environ.get(variable):
            return os.environ[variable]
    if base_url == provider.base_url or "key_env" in spec.options:
        raise RefBenchError(f"{spec.name} needs a key: set {' or '.join(variables)} in the environment")
    return None


def _parameters(spec: Spec, provider: Provider, base_url: str) -> Mapping[str, Any]:
    """What the spec sets besides our own options goes to the server as it is; numbers as numbers."""
    found: dict[str, Any] = {}
    for key, value in spec.options.items():
        if key in _OURS:
            continue
        try:
            found[key] = orjson.loads(value)
        except orjson.JSONDecodeError:
            found[key] = value
    if provider.kind == "openai" and base_url == provider.base_url:
        found.setdefault("tokens_field", "max_completion_tokens")
    return found
