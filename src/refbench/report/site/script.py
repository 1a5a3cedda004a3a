"""A chunk of data as a classic script. Whatever a judge or a file name says, it stays inside a JSON string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from refbench.record import clean_text

# A script ends at `</script` wherever it stands, and a line at U+2028 and U+2029: as escapes they are text.
_ESCAPES = {
    b"<": b"\\u003c",
    b">": b"\\u003e",
    b"&": b"\\u0026",
    "\u2028".encode(): b"\\u2028",
    "\u2029".encode(): b"\\u2029",
}


def script(name: str, value: Any) -> bytes:
    """`refbench.put("<name>", <JSON>)`."""
    return b"refbench.put(" + _json(name) + b", " + _json(value) + b");\n"


def _json(value: Any) -> bytes:
    try:
        data = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # a lone surrogate somewhere: rare, and looking for it is slow
        data = orjson.dumps(_clean(value), option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    # None of these bytes occurs in JSON outside of strings, nor inside of another character.
    for found, escape in _ESCAPES.items():
        data = data.replace(found, escape)
    return data


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_clean(item) for item in value]
    return value
