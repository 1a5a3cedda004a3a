"""Scores as bytes, to be kept with what was derived from a run; they are unpacked when somebody looks at them.

Not pickled: reading bytes must not run any. Each field is a list of numbers into its distinct contents, since most
scores share judge, model, case and state with many others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import orjson
from pydantic import TypeAdapter

from refbench.failure import Failure
from refbench.score import Score

_SCORES = TypeAdapter(tuple[Score, ...])


class PackedScores(Sequence[Score]):
    """Scores that were packed: the same to whoever reads them as a tuple of them."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    @cached_property
    def _scores(self) -> tuple[Score, ...]:
        return _unpacked(self.packed)

    @overload
    def __getitem__(self, place: int) -> Score: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Score]: ...
    def __getitem__(self, place: int | slice) -> Score | Sequence[Score]:
        return self._scores[place]

    def __len__(self) -> int:
        return len(self._scores)

    def __iter__(self) -> Iterator[Score]:
        return iter(self._scores)

    def __eq__(self, other: object) -> bool:
        return self._scores == (tuple(other) if isinstance(other, PackedScores) else other)

    def __hash__(self) -> int:
        return hash(self._scores)


def packed(scores: Sequence[Score]) -> bytes | None:
    """The scores as bytes; None where they would not come back exactly as they are."""
    if isinstance(scores, PackedScores):
        return scores.packed
    columns: dict[str, Any] = {}
    for name in Score.model_fields:
        column = [getattr(score, name) for score in scores]
        if name == "value":  # 0.0 and -0.0 are equal, and are two values
            columns[name] = column
            continue
        places: dict[Any, int] = {}
        at = [places.setdefault(one, len(places)) for one in column]
        distinct = [one.model_dump() if isinstance(one, Failure) else one for one in places]
        columns[name] = [distinct, at]
        if _restored(name, orjson.loads(orjson.dumps(distinct))) != list(places):
            return None
    return orjson.dumps(columns)


def _unpacked(data: bytes) -> tuple[Score, ...]:
    columns = orjson.loads(data)
    lists = {"value": columns.pop("value")}
    for name, (distinct, at) in columns.items():
        restored = _restored(name, distinct)
        lists[name] = [restored[place] for place in at]
    rows = zip(*lists.values(), strict=True)
    return _SCORES.validate_python(tuple(dict(zip(lists, row, strict=True)) for row in rows))


def _restored(name: str, distinct: list[Any]) -> list[Any]:
    """The distinct contents of a field, as JSON has them, in their own types."""
    if name == "failure":
        return [told and Failure(**told) for told in distinct]
    return list(map(tuple, distinct)) if name == "answers" else distinct
