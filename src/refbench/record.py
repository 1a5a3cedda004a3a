"""What every noun shares: frozen records, canonical JSON, content keys, counts in words, the one error users see."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field

Whole = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
"""A whole number from somebody's file that JSON can keep."""


class RefBenchError(Exception):
    """Wrong usage or bad input, said in one sentence that names the file or option and the remedy."""


class Record(BaseModel):
    """A frozen value whose fields are all there is to it; equal content has an equal key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def key(self) -> str:
        return content_key(self.model_dump(mode="json"))


def canonical_json(value: Any) -> bytes:
    """The one spelling of a JSON value that keys are taken of: sorted keys, no white space, UTF-8."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def content_key(value: Any) -> str:
    """SHA-256 of the canonical JSON, as 64 hexadecimal digits; the same on every machine and version."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def clean_text(text: str) -> str:
    """Text that any encoder accepts: bytes that were no UTF-8 (lone surrogates) become U+FFFD."""
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def counted(n: int, noun: str) -> str:
    """A number of things: 1 case, 2 cases."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
