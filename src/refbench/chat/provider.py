"""Provider: a wire format as pure functions. What differs between OpenAI, Gemini and Anthropic is all here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pybase64

from refbench.chat.pictures import SentPicture
from refbench.chat.vlm import ChatRequest, Pictures
from refbench.failure import Failure


@dataclass(frozen=True)
class Said:
    """A reply as the provider tells it: the text or a failure, and what it used."""

    text: str | None
    failure: Failure | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cut_off: bool = False
    """Whether the reply ended at the limit of tokens."""


@dataclass(frozen=True)
class Provider:
    """One wire format. `shape` lays a request out as JSON; `put(sha256)` is where a picture's base64 will stand."""

    kind: str
    base_url: str
    base_url_variable: str
    key_variables: tuple[str, ...]
    url: Callable[[str, str], str]
    headers: Callable[[str | None], dict[str, str]]
    shape: Callable[[str, ChatRequest, Mapping[str, Any], Callable[[str], str], Pictures], dict[str, Any]]
    read: Callable[[Any], Said]
    most_tokens: int
    """What a reply may have when the request does not say."""


# Where a picture will stand in the JSON. Random, so that no text of a user or a model can contain it.
_PLACE = f"@{secrets.token_hex(16)}@"


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


def body_of(
    provider: Provider, model: str, request: ChatRequest, parameters: Mapping[str, Any], pictures: Pictures
) -> Body:
    """The body of a request as the provider wants it."""
    order: list[SentPicture] = []

    def put(sha256: str) -> str:
        order.append(pictures[sha256])
        return _PLACE

    text = orjson.dumps(provider.shape(model, request, parameters, put, pictures))
    return Body(tuple(text.split(_PLACE.encode())), tuple(order))


def assemble(
    provider: Provider, model: str, request: ChatRequest, parameters: Mapping[str, Any], pictures: Pictures
) -> bytes:
    """The body's bytes all at once, for a batch."""
    return b"".join(body_of(provider, model, request, parameters, pictures))
