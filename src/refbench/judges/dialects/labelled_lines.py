"""A line for each criterion: its label, a colon, its value."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from refbench.judges.criteria import Criterion, Reading
from refbench.judges.dialects.dialect import Dialect
from refbench.judges.dialects.json_object import read_objects, words
from refbench.judges.labels import labelled


def _fields(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f"{c.label}: <{words(c)}{', if there is one' if c.optional else ''}>" for c in criteria)


def _read(reply: str, criteria: Sequence[Criterion], *, unread: bool = False) -> list[tuple[str, Reading]]:
    """From the lines; what they lack, from JSON, for the judge that gave that instead."""
    found = list(labelled(reply, criteria, final=True, unread=unread))
    said = {name for name, _ in found}
    return found + [(name, value) for name, value in read_objects(reply, criteria, unread=unread) if name not in said]


LABELLED_LINES = Dialect("labelled_lines", _fields, _read, lambda criteria: "", in_order=partial(_read, unread=True))
