"""One list of numbers in square brackets, a number for each criterion in their order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from refbench.judges.criteria import Criterion, Reading, Scale
from refbench.judges.dialects.dialect import Dialect
from refbench.judges.labels import labelled
from refbench.judges.values import MARKDOWN, value_at

_LIST = re.compile(r"\[([^\[\]]{1,2000})\]")
_LONGEST_BARE = 2000
"""A whole reply may be the numbers alone, `7, 8`; nothing longer is tried."""


def _fits(criteria: Sequence[Criterion]) -> str:
    return "" if all(isinstance(c.kind, Scale) for c in criteria) else "a list of numbers has only marks on a scale"


def _fields(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f"{n}. {c.label}: {c.kind.words()}" for n, c in enumerate(criteria, 1))


def _read(reply: str, criteria: Sequence[Criterion]) -> list[tuple[str, Reading]]:
    """From every list that has as many numbers as were asked for; other lists are talk."""
    text = reply.translate(MARKDOWN)
    inside = [match[1] for match in _LIST.finditer(text)]
    if not inside and len(text.strip()) <= _LONGEST_BARE:
        inside = [text.strip()]
    found = [said for numbers in inside for said in _numbers(numbers, criteria)]
    return found or list(labelled(reply, criteria))


def _numbers(text: str, criteria: Sequence[Criterion]) -> list[tuple[str, Reading]]:
    items = [item.strip() for item in text.strip().removesuffix(",").split(",")]
    if len(items) != len(criteria):
        return []
    found: list[tuple[str, Reading]] = []
    for item, criterion in zip(items, criteria, strict=True):
        value = value_at(item, 0, criterion.kind)
        if value is None or item[value[1] :].strip("\"'”’ "):
            return []
        found.append((criterion.name, value[0]))
    return found


NUMBER_LIST = Dialect("number_list", _fields, _read, _fits, in_order=_read)
