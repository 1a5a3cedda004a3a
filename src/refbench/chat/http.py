"""A provider's model behind the transport: its wire format as pure functions, and what a server does turned into
evidence, failures included.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
import pybase64

from refbench.calls.errors import read_error
from refbench.calls.prices import price_of, request_tokens
from refbench.calls.transport import Call, CallFailedError, Transport
from refbench.chat.pictures import SentPicture
from refbench.chat.vlm import VLM, ChatPicture, ChatRequest, ChatText, Pictures, Reply
from refbench.evidence import Attempt, Evidence
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of, judge_options

# Provider: a wire format as pure functions. What differs between OpenAI, Gemini and Anthropic is all here.


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
            else provider.picture(part, pictures[part.sha256].mime, put(pictures[part.sha256]))
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


def base_url_of(given: str | None, provider: Provider, name: str) -> str:
    """Where a model is asked: the spec's address, the environment's, or the provider's own."""
    url = given or os.environ.get(provider.base_url_variable) or provider.base_url
    if urlsplit(url).scheme not in ("http", "https"):
        raise RefBenchError(f"the address {url!r} of {name} is no URL: write it as http://host:8000/v1")
    return url.rstrip("/")


def key_of(variables: Sequence[str], name: str, *, needed: bool) -> str | None:
    """The key in the first of the variables that is set; a missing one is said before anything is spent."""
    for variable in variables:
        if os.environ.get(variable):
            return os.environ[variable]
    if needed:
        raise RefBenchError(f"{name} needs a key: set {' or '.join(variables)} in the environment")
    return None


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
        self.base_url = self.endpoint = base_url_of(options["base_url"], provider, spec.name)
        own_server = self.base_url != provider.base_url
        self._key_variables = (options["key_env"],) if options["key_env"] else provider.key_variables
        self._key = key_of(self._key_variables, spec.name, needed=not own_server or options["key_env"] is not None)
        self.parameters = parameters_of(options.others)
        if provider.kind == "openai" and not own_server:
            self.parameters.setdefault("tokens_field", "max_completion_tokens")
        self.max_tokens: int | None = options["max_tokens"]
        self.price = price_of(provider.kind, self.model, options["price"], own_server=own_server)

    @property
    def headers(self) -> Mapping[str, str]:
        """Those that hold the key."""
        return self.provider.headers(self._key)

    def canonical(self, request: ChatRequest, repeat: int) -> dict[str, Any]:
        # A limit of the spec shapes all replies, like any other parameter of it.
        limit = {"max_tokens": self.max_tokens} if self.max_tokens else {}
        endpoint = f"{self.provider.kind} {self.base_url}"
        return self._limited(request).canonical(endpoint, self.model, repeat, {**self.parameters, **limit})

    def input_tokens(self, request: ChatRequest, pictures: Pictures) -> int:
        sizes = [(pictures[p.sha256].width, pictures[p.sha256].height) for p in request.pictures]
        return request_tokens(self.provider.kind, self.model, request.text_length, sizes)

    def worst_cost(self, request: ChatRequest, pictures: Pictures) -> float | None:
        if self.price is None:
            return None
        most = self._limited(request).max_tokens or self.provider.most_tokens
        return self.price.cost(self.input_tokens(request, pictures), most)

    async def ask(self, request: ChatRequest, pictures: Pictures, repeat: int) -> Evidence:
        canonical = self.canonical(request, repeat)
        body = body_of(self.provider, self.model, self._limited(request), self.parameters, pictures)
        call = Call(
            endpoint=self.base_url,
            url=self.provider.url(self.base_url, self.model),
            headers={"Content-Type": "application/json", **self.headers},
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
        return self._evidence(canonical, self.read(answer.status, answer.body), answer.attempts)

    def batches(self) -> HttpVLM:
        return self

    def body(self, request: ChatRequest, pictures: Pictures) -> bytes:
        """The whole body of a request, for a batch."""
        return b"".join(body_of(self.provider, self.model, self._limited(request), self.parameters, pictures))

    def read(self, status: int, body: bytes) -> Reply:
        """What an answer means. What no request of this run will fare better with ends the run, with the remedy."""
        if status == 200:
            try:
                answer: Any = orjson.loads(body)
                return self.provider.read(answer)
            except orjson.JSONDecodeError:
                return Reply(None, Failure(kind="api_error", detail=f"the reply is not JSON: {body[:100]!r}"))
            except (AttributeError, TypeError, KeyError, IndexError) as error:
                return Reply(None, Failure(kind="api_error", detail=f"the reply has an unknown shape ({error})"))
        problem = read_error(status, body, self._key)
        if not problem.refused:
            where = f"judge {self.name} ({self.provider.kind} {self.base_url})"
            problem.stop_if_key_refused(where, self._key_variables)
            if status == 404:
                raise RefBenchError(f"{where} does not know the model {self.model!r} or the address ({problem.words})")
        return Reply(None, problem.failure)

    def evidence(self, request: Mapping[str, Any], reply: Reply, attempt: Attempt, price_share: float) -> Evidence:
        """What is recorded of a reply in a batch, at a share of the list price."""
        live = self._evidence(request, reply, (attempt,))
        cost = None if live.cost_usd is None else price_share * live.cost_usd
        return live.model_copy(
            update={"cost_usd": cost, "provenance": f"batch, {live.provenance}" if live.provenance else "batch"}
        )

    def _evidence(self, request: Mapping[str, Any], reply: Reply, attempts: tuple[Attempt, ...]) -> Evidence:
        cost = None
        if self.price is not None and reply.input_tokens is not None:
            cost = self.price.cost(reply.input_tokens, reply.output_tokens or 0)
        return Evidence(
            kind="chat",
            request=dict(request),
            reply=reply.text,
            failure=reply.failure,
            attempts=attempts,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cost_usd=cost,
            provenance="cut off at the limit of tokens" if reply.cut_off else "",
        )

    def _limited(self, request: ChatRequest) -> ChatRequest:
        return request.model_copy(update={"max_tokens": self.max_tokens}) if self.max_tokens else request
