"""Provider: a wire format as pure functions. What differs between OpenAI, Gemini and Anthropic is all here."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import orjson
import pybase64

from refbench.chat.pictures import SentPicture
from refbench.chat.vlm import ChatPicture, ChatRequest, ChatText, Pictures, Reply
from refbench.record import RefBenchError


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
