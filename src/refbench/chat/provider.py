"""Provider: a wire format as pure functions. What differs between OpenAI, Gemini and Anthropic is all here."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pybase64

from refbench.chat.request import ChatRequest
from refbench.chat.vlm import Pictures
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


def assemble(
    provider: Provider, model: str, request: ChatRequest, parameters: Mapping[str, Any], pictures: Pictures
) -> bytes:
    """The body's bytes. Base64 needs no escaping, so pictures are put in after the JSON is made: copying them
    through a JSON encoder is what makes client libraries slow."""
    nonce = secrets.token_hex(8)
    order: list[str] = []

    def put(sha256: str) -> str:
        order.append(sha256)
        return f"@{nonce}@"

    text = orjson.dumps(provider.shape(model, request, parameters, put, pictures))
    pieces = text.split(f"@{nonce}@".encode())
    body = [pieces[0]]
    for sha256, piece in zip(order, pieces[1:], strict=True):
        body.append(pybase64.b64encode(pictures[sha256].path.read_bytes()))
        body.append(piece)
    return b"".join(body)
