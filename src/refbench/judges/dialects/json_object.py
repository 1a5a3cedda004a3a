"""One JSON object with a key for each criterion."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from refbench.judges.criteria import Criterion, Reading, Scale, Text, YesNo, letters
from refbench.judges.dialects.dialect import Dialect, closed_object
from refbench.judges.labels import labelled, quoted
from refbench.judges.values import Pairs, decoded, entries, read_item


def _fields(criteria: Sequence[Criterion]) -> str:
    return "\n".join(f'"{c.name}": {words(c)}{" or null" if c.optional else ""}' for c in criteria)


def words(criterion: Criterion) -> str:
    """What stands behind the key; what a text is to say is not among the criteria, so it is said here."""
    about = f" ({criterion.description})" if isinstance(criterion.kind, Text) and criterion.description else ""
    return f"{criterion.kind.words()}{about}"


def _schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    return closed_object({c.name: value_schema(c) for c in criteria})


def value_schema(criterion: Criterion) -> dict[str, Any]:
    """The schema of one answer. Optional ones may be null: providers want every key to be required."""
    kind = criterion.kind
    if isinstance(kind, Scale):
        found: dict[str, Any] = {"type": "integer" if kind.whole else "number"}
        found |= {"minimum": kind.low, "maximum": kind.high}
    elif isinstance(kind, YesNo):
        found = {"type": "string", "enum": ["Yes", "No"]}
    else:
        found = {"type": "string"}
    if criterion.optional:
        found["type"] = [found["type"], "null"]
        if "enum" in found:
            found["enum"] = [*found["enum"], None]
    return found


def read_objects(reply: str, criteria: Sequence[Criterion], *, unread: bool = False) -> list[tuple[str, Reading]]:
    """From decoded objects and broken ones; where neither says anything, from labelled lines around them."""
    keys = {letters(c.name): c for c in criteria}
    values, around = decoded(reply)
    found: list[tuple[str, Reading]] = []
    # Text and objects take turns, so what is found stands in the order of the reply.
    for text, value in zip(around, [*values, Pairs()], strict=True):
        found += quoted(text, criteria, unread=unread)
        for key, item in entries(value):
            criterion = keys.get(letters(key))
            if criterion and not (item is None and criterion.optional):
                found.append((criterion.name, read_item(item, criterion.kind)))
    said = {name for name, _ in found}
    for text in around:
        found += [(name, value) for name, value in labelled(text, criteria, unread=unread) if name not in said]
    return found


JSON_OBJECT = Dialect(
    "json_object", _fields, read_objects, lambda criteria: "", _schema, in_order=partial(read_objects, unread=True)
)
