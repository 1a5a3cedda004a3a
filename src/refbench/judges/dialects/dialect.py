"""Dialect: both ends of one form of reply, as plain functions of the criteria."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from refbench.judges.criteria import Criterion, Reading

Statements = Iterable[tuple[str, Reading]]
"""(criterion, value) for everything a reply says, repeats included: the contract settles them."""


@dataclass(frozen=True)
class Dialect:
    """One form of reply. `fields` fills the format text in formats/<name>.txt."""

    name: str
    fields: Callable[[Sequence[Criterion]], str]
    read: Callable[[str, Sequence[Criterion]], Statements]
    fits: Callable[[Sequence[Criterion]], str]
    """What is wrong with asking for these criteria so; empty when nothing is."""
    schema: Callable[[Sequence[Criterion]], dict[str, Any]] | None = None
    """The JSON schema of a reply, for dialects that are JSON."""
    in_order: Callable[[str, Sequence[Criterion]], Statements] | None = None
    """Reads as well, in the order of the reply and with what was begun and cannot be read, so that one is the last."""


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object with these keys, all of them and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
