"""A provider's model behind the transport: its wire format as pure functions, and what a server does turned into
evidence, failures included.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson
import pybase64

from refbench.calls.errors import read_error, without_secrets
from refbench.calls.keys import checked_address, key_of, secrets_of
from refbench.calls.prices import price_of, request_tokens
from refbench.calls.said import UnknownShapeError, count, tables
from refbench.calls.said import text as text_at
from refbench.calls.transport import Call, CallFailedError, Transport, is_fine, unsettled
from refbench.chat.pictures import SentPicture
from refbench.chat.vlm import (
    VLM,
    ChatPicture,
    ChatRequest,
    ChatText,
    Pictures,
    Reply,
    accounted,
    evidence_of,
)
from refbench.evidence import Attempt, Evidence
from refbench.failure import Failure
from refbench.record import RefBenchError, canonical_json, clean_text
from refbench.specs import DECLARED, WEIGHTS, Spec, family_of, judge_options

_LIMITS, _CHOICES = ("max_tokens", "max_completion_tokens", "maxOutputTokens"), ("n", "candidateCount")
"""Parameters of servers that make a reply longer, and so its worst case."""

# Provider: a wire format as pure functions. What differs between OpenAI, Gemini and Anthropic is all here.


class Place(Protocol):
    """Where a provider is asked, and with which key."""

    @property
    def base_url(self) -> str: ...

    @property
    def base_url_variable(self) -> str: ...

    @property
    def key_variables(self) -> tuple[str, ...]: ...

    @property
    def headers(self) -> Callable[[str | None], dict[str, str]]: ...


@dataclass(frozen=True)
class Provider:
    """One wire format: how texts and pictures (MIME type and base64) are written, a whole request, and what replies
    mean."""

    kind: str
    base_url: str
    base_url_variable: str
    key_variables: tuple[str, ...]
    url: Callable[[str, str], str]
    headers: Callable[[str | None], dict[str, str]]
    text: Callable[[str], dict[str, Any]]
    picture: Callable[[ChatPicture, str, str], dict[str, Any]]
    shape: Callable[[str, ChatRequest, Mapping[str, Any], list[dict[str, Any]]], dict[str, Any]]
    read: Callable[[Any], Reply]
    most_tokens: int
    """What a reply may have when the request does not say."""


@dataclass(frozen=True)
class Body:
    """A request's body in pieces: JSON, the base64 of a picture, JSON, ... Its length is known before a file is read.

    Base64 needs no escaping, so pictures are put in after the JSON is made: copying them through a JSON encoder,
    and joining everything before it is sent, is what makes client libraries slow.
    """

    texts: tuple[bytes, ...]
    pictures: tuple[SentPicture, ...]

    def __len__(self) -> int:
        return sum(map(len, self.texts)) + sum(-(-picture.size // 3) * 4 for picture in self.pictures)

    def __iter__(self) -> Iterator[bytes]:
        yield self.texts[0]
        for picture, text in zip(self.pictures, self.texts[1:], strict=True):
            yield pybase64.b64encode(picture.read())
            yield text


def json_body(lay_out: Callable[[Callable[[SentPicture], str]], Any]) -> Body:
    """A JSON body with pictures in it: `lay_out(put)` gives the JSON, `put(picture)` is where its base64 will stand."""
    place = f"@{secrets.token_hex(16)}@"  # random, so that no text of a user or a model can contain it
    order: list[SentPicture] = []

    def put(picture: SentPicture) -> str:
        order.append(picture)
        return place

    return Body(tuple(orjson.dumps(lay_out(put)).split(place.encode())), tuple(order))


def body_of(
    provider: Provider, model: str, request: ChatRequest, parameters: Mapping[str, Any], pictures: Pictures
) -> Body:
    """The body of a request as the provider wants it."""

    def lay_out(put: Callable[[SentPicture], str]) -> dict[str, Any]:
        content = [
            provider.text(part.text)
            if isinstance(part, ChatText)
            else provider.picture(part, part.mime or pictures[part.sha256].mime, put(pictures[part.sha256]))
            for part in request.parts
        ]
        return provider.shape(model, request, parameters, content)

    return json_body(lay_out)


def parameters_of(options: Mapping[str, str]) -> dict[str, Any]:
    """Options that go to a server as they are, numbers as numbers."""
    parameters: dict[str, Any] = {}
    for key, text in options.items():
        try:
            parameters[key] = orjson.loads(text)
        except orjson.JSONDecodeError:
            parameters[key] = text
    return parameters


def base_url_of(given: str | None, provider: Place, name: str) -> str:
    """Where a model is asked: the spec's address, the environment's, or the provider's own."""
    return checked_address(given or os.environ.get(provider.base_url_variable) or provider.base_url, name)


_PATIENCE = 2.0
"""Seconds for a question that a server need not answer."""
_LONGEST_TOLD = 300
_LONGEST_NAME = 100


async def told_by_server(vlm: HttpVLM) -> dict[str, str]:
    """What a server tells of the model that is asked: its entry in the list of models, the software's version, and the
    system_fingerprint of a reply of one token where replies on record have one. Nothing where it does not say."""
    base = vlm.base_url
    least = orjson.dumps({"model": vlm.model, "messages": [{"role": "user", "content": "1"}], "max_tokens": 1})
    models, software, reply = await asyncio.gather(
        _told(vlm, f"{base}/models", vlm.headers),
        _told(vlm, f"{base.removesuffix('/v1')}/version", {}),  # not among the calls: it gets no key
        _told(vlm, vlm.provider.url(base, vlm.model), vlm.headers, least)
        if vlm.system_fingerprints and vlm.kind == "openai"
        else asyncio.sleep(0),
    )
    entry = next((one for one in tables(models, "data") if one.get("id") == vlm.model), {})
    # When it was listed and who may use it change from call to call.
    found = {name: entry.get(name) for name in WEIGHTS}
    found |= {"version": text_at(software, "version"), "system_fingerprint": text_at(reply, "system_fingerprint")}
    return {
        name: (value if isinstance(value, str) else canonical_json(value).decode())[:_LONGEST_TOLD]
        for name, value in found.items()
        if value
    }


async def _told(vlm: HttpVLM, url: str, headers: Mapping[str, str], body: bytes = b"") -> Any:
    call = Call(
        endpoint=vlm.base_url,
        url=url,
        headers={"Content-Type": "application/json", **headers} if body else headers,
        body=lambda: body,
        size=len(body),
        method="POST" if body else "GET",
        secrets=vlm.secrets,
    )
    return await vlm.transport.glance(call, _PATIENCE * (5 if body else 1))


class HttpVLM(VLM):
    """One model of one provider at one address. The key is read from the environment and never leaves this object."""

    def __init__(self, spec: Spec, provider: Provider, transport: Transport) -> None:
        options = judge_options(spec)
        self.name = spec.name
        self.model = spec.what
        self.kind = provider.kind
        self.provider = provider
        self.transport = transport
        self.family = options["family"] or family_of(spec.what)
        where = f"judge {spec.name}"
        self.base_url = self.endpoint = base_url_of(options["base_url"], provider, where)
        self.own_server = own_server = self.base_url != provider.base_url
        self._key_variables = (options["key_env"],) if options["key_env"] else provider.key_variables
        self._key = key_of(self._key_variables, where, needed=not own_server or options["key_env"] is not None)
        self.secrets = secrets_of(self._key)
        self.parameters = parameters_of(options.others)
        if provider.kind == "openai" and not own_server:
            self.parameters.setdefault("tokens_field", "max_completion_tokens")
        self.max_tokens: int | None = options["max_tokens"]
        self.declared = {name: str(value) for name in DECLARED if (value := options.values.get(name))}
        self.system_fingerprints: set[str] = set()
        self.models_told: set[str] = set()
        """What its replies call the model that answered."""
        self.price = price_of(provider.kind, self.model, options["price"], own_server=own_server)

    @property
    def headers(self) -> Mapping[str, str]:
        """Those that hold the key."""
        return self.provider.headers(self._key)

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        # A limit of the spec shapes all replies, like any other parameter of it.
        limit = {"max_tokens": self.max_tokens} if self.max_tokens else {}
        endpoint = f"{self.provider.kind} {self.base_url}"
        parameters = {**self.parameters, **limit, **self.declared}
        return self._limited(request).canonical(endpoint, self.model, repeat, parameters)

    def input_tokens(self, request: ChatRequest, pictures: Pictures) -> int:
        sizes = [(pictures[p.sha256].width, pictures[p.sha256].height) for p in request.pictures]
        return request_tokens(self.provider.kind, self.model, request.text_length, sizes)

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        if self.price is None:
            return None
        limits = [limit for name in _LIMITS if (limit := count(self.parameters, name))]
        most = max([self._limited(request).max_tokens or self.provider.most_tokens, *limits])
        choices = max(count(self.parameters, name) or 1 for name in _CHOICES)
        return self.price.cost(self.input_tokens(request, pictures), most * choices)

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        canonical = self.canonical(request, repeat)
        body = body_of(self.provider, self.model, self._limited(request), self.parameters, pictures)
        worst = self.worst_cost(request, pictures)
        call = Call(
            endpoint=self.base_url,
            url=self.provider.url(self.base_url, self.model),
            headers={"Content-Type": "application/json", **self.headers},
            body=lambda: body,
            size=len(body),
            secrets=self.secrets,
            worst_usd=worst or 0.0,
        )
        try:
            answer = await self.transport.send(call)
        except CallFailedError as error:
            failed = Evidence(kind="chat", request=canonical, failure=error.failure, attempts=error.attempts)
            return accounted(failed, worst, unsettled(error.attempts))
        except OSError as error:  # a picture that vanished between preparing and sending
            failure = Failure(kind="unreadable_picture", detail=str(error))
            return Evidence(kind="chat", request=canonical, failure=failure)
        said = answer.said()
        reply = self.read(answer.status, said)
        self._answered_as(reply.system_fingerprint)
        if told := text_at(said, "model") or text_at(said, "modelVersion"):
            self.models_told.add(told[:_LONGEST_NAME])
        evidence = evidence_of(canonical, reply, self.price, answer.attempts)
        return accounted(evidence, worst, unsettled(answer.attempts))

    async def served(self) -> dict[str, str] | None:
        if not self.own_server:
            return None
        return {**self.declared, **await told_by_server(self)}

    def _answered_as(self, fingerprint: str) -> None:
        """Note what the server calls its state. Another one is another judge where the server is the user's own; a
        provider's, and a gateway's to one, changes from call to call."""
        if self.own_server and self.family != "openai" and fingerprint and self.system_fingerprints - {fingerprint}:
            before = ", ".join(sorted(self.system_fingerprints))
            raise RefBenchError(
                f"judge {self.name} answers as system_fingerprint {fingerprint} now, as {before} before: the server "
                "has changed, and its marks are not mixed with those on record; start what was there again, or choose "
                "another --out or another name for the judge"
            )
        if fingerprint:
            self.system_fingerprints.add(fingerprint)

    def batches(self) -> HttpVLM:
        return self

    async def has(self, path: str) -> bool:
        """Whether its server answers at a path below its address with a list of things. It costs nothing."""
        told = await _told(self, f"{self.base_url}{path}", self.headers)
        return isinstance(told, dict) and isinstance(told.get("data"), list)

    def body(self, request: ChatRequest, pictures: Pictures) -> bytes:
        """The whole body of a request, for a batch."""
        return b"".join(body_of(self.provider, self.model, self._limited(request), self.parameters, pictures))

    def read(self, status: int, body: Any) -> Reply:
        """What an answer means. What no request of this run will fare better with ends the run, with the remedy."""
        if is_fine(status) and not isinstance(body, dict):
            shown = body if isinstance(body, str) else orjson.dumps(body).decode()
            return Reply(None, Failure(kind="api_error", detail=f"the reply is no JSON object: {shown[:100]!r}"))
        try:
            reply = self.provider.read(body) if is_fine(status) else None
        except UnknownShapeError as error:
            reply = Reply(None, Failure(kind="api_error", detail=f"the reply has an unknown shape ({error})"))
        if reply is not None and (reply.text is not None or not body.get("error")):
            # A key in pieces, one in each part of the reply, is whole where the parts are joined.
            text = None if reply.text is None else self.secrets.cut(clean_text(reply.text))
            return replace(reply, text=text, failure=without_secrets(reply.failure, self.secrets))
        problem = read_error(status, body, self.secrets)
        if not problem.refused:
            where = f"judge {self.name} ({self.provider.kind} {self.base_url})"
            problem.stop_if_key_refused(where, self._key_variables)
            if status == 404:
                raise RefBenchError(f"{where} does not know the model {self.model!r} or the address ({problem.words})")
        return Reply(None, problem.failure)

    def evidence(self, request: Mapping[str, Any], reply: Reply, attempt: Attempt, price_share: float) -> Evidence:
        """What is recorded of a reply in a batch, at a share of the list price."""
        live = evidence_of(request, reply, self.price, (attempt,), price_share)
        return live.model_copy(update={"provenance": f"batch, {live.provenance}" if live.provenance else "batch"})

    def _limited(self, request: ChatRequest) -> ChatRequest:
        return request.model_copy(update={"max_tokens": self.max_tokens}) if self.max_tokens else request
