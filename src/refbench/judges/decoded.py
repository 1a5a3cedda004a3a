"""JSON objects in a reply: decoded where a decoder takes them, and the text around them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from refbench.judges.values import Pairs

_FAILED_DECODINGS = 200
"""Attempts at decoding an object, so that a reply of unclosed braces costs linear and not quadratic time."""

_DECODER = json.JSONDecoder(object_pairs_hook=Pairs, strict=False)


def decoded_places(reply: str) -> Iterator[tuple[int, int, Pairs]]:
    """The outermost decodable objects with their places in the reply, strings and nesting respected."""
    at, failed = 0, 0
    while failed < _FAILED_DECODINGS and (start := reply.find("{", at)) >= 0:
        try:
            value, end = _DECODER.raw_decode(reply, start)
        except (ValueError, RecursionError):
            failed += 1
            at = start + 1
            continue
        at = end
        yield start, end, value


def decoded(reply: str) -> tuple[list[Pairs], list[str]]:
    """The outermost decodable objects, and the pieces of text between them."""
    found: list[Pairs] = []
    around: list[str] = []
    seen_to = 0
    for start, end, value in decoded_places(reply):
        found.append(value)
        around.append(reply[seen_to:start])
        seen_to = end
    around.append(reply[seen_to:])
    return found, around


def entries(value: Any) -> Iterator[tuple[str, Any]]:
    """The keys of an object with what is behind them, and those inside, in the order of the text."""
    waiting: list[Any] = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, tuple):
            yield here
            here = [here[1]]
        if isinstance(here, list):  # an object is a list of pairs
            waiting.extend(reversed(here))


def objects(value: Any) -> Iterator[Pairs]:
    """The object itself, then those inside it."""
    waiting: list[Any] = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, Pairs):
            yield here
            waiting.extend(item for _, item in reversed(here))
        elif isinstance(here, list):
            waiting.extend(reversed(here))
