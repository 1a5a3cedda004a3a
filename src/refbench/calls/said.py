"""What a server said: its JSON without secrets, and typed lookups in it, so that no shape of it raises."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import orjson

from refbench.calls.keys import Secrets
from refbench.record import clean_text

_DEEPEST = 200
"""Levels of nesting that are kept; orjson writes 254."""
_ALWAYS = 8 << 20
"""Bytes, those of the largest reply of a chat model, that are read whatever is in them: in memory they may become some
fifty times as many (450 MiB of nothing but small objects)."""
_MOST_MARKS = 1 << 20
"""Commas and brackets of what is longer, which is long for its pictures: each may become an object of 250 bytes."""
_SHOWN = 4000
_MOST_USD = 10**6
_MOST_TOKENS = 10**9
"""Of one call. More is a mistake of the server's, and would not fit into a ledger's numbers much further up."""


def said(body: bytes, secrets: Secrets) -> Any:
    """The JSON of a body, or the beginning of its text where it is none (or none that anybody means).

    What RFC 8259 forbids and servers send is read too: NaN, a byte order mark, UTF-16, a stray byte. A reply that was
    paid for is not lost for it.
    """
    value: Any = None
    if len(body) <= _ALWAYS or sum(map(body.count, (b",", b"[", b"{"))) <= _MOST_MARKS:
        value = _json(body)
    if value is not None:
        return _clean(value, secrets)
    return secrets.cut_message(clean_text(body[: 1 << 20].decode("utf-8", "replace")))[:_SHOWN]


def _json(body: bytes) -> Any:
    with contextlib.suppress(orjson.JSONDecodeError):
        return orjson.loads(body)
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(body, parse_int=_whole)
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(body.decode("utf-8", "replace"), parse_int=_whole)
    return None


def _whole(digits: str) -> int | None:
    """A number that can be written again; Python itself refuses those of more than 4,300 digits."""
    return int(digits) if len(digits) < 20 else None


def _clean(value: Any, secrets: Secrets, depth: int = 0) -> Any:
    """The value with every text cut."""
    if isinstance(value, str):
        return secrets.cut(clean_text(value))
    if depth > _DEEPEST:
        return None
    if isinstance(value, dict):
        return {_clean(key, secrets): _clean(item, secrets, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, secrets, depth + 1) for item in value]
    return value


def at(value: Any, *names: str) -> Any:
    """What is at a path of names; None where the path ends early."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def table(value: Any, *names: str) -> dict[str, Any]:
    """The object at a path; an empty one where there is none."""
    there = at(value, *names)
    return there if isinstance(there, dict) else {}


def tables(value: Any, *names: str) -> list[dict[str, Any]]:
    """The objects in the list at a path; what else is in it is left out."""
    there = at(value, *names)
    return [item for item in there if isinstance(item, dict)] if isinstance(there, list) else []


class UnknownShapeError(Exception):
    """A reply is not laid out as its provider lays replies out: nothing in it can be told from nothing at all."""


def listed(value: Any, name: str) -> list[dict[str, Any]]:
    """The objects in the list of that name, which holds what a reply is about; none where there is no list."""
    there = at(value, name)
    if there is not None and not (isinstance(there, list) and all(isinstance(item, dict) for item in there)):
        raise UnknownShapeError(f"{name} is no list of objects")
    return there or []


def text(value: Any, *names: str) -> str:
    """The text at a path; "" where there is none."""
    there = at(value, *names)
    return there if isinstance(there, str) else ""


def count(value: Any, *names: str) -> int | None:
    """A number of tokens or things at a path. A fraction, a text, a negative number are none: the count is unknown."""
    there = at(value, *names)
    fits = isinstance(there, int) and not isinstance(there, bool) and 0 <= there <= _MOST_TOKENS
    return there if fits else None


def amount(value: Any, *names: str) -> float | None:
    """Dollars at a path; what is negative or no number is unknown."""
    there = at(value, *names)
    fits = isinstance(there, int | float) and not isinstance(there, bool) and 0 <= there <= _MOST_USD
    return float(there) if fits else None


def total(value: Any, *names: str) -> int | None:
    """The sum of the counts of these names, missing ones as none; unknown where one of them is no count."""
    counts = [count(value, name) for name in names if at(value, name) is not None]
    return None if None in counts else sum(number for number in counts if number is not None)
