"""Reference types and sets of them: how they are spelled, ordered and named. The ten types are MultiRef-Bench's."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from refbench.benchmarks.multiref.cases import TYPES, Type, type_of
from refbench.record import RefBenchError

__all__ = ["TYPES", "Type", "TypeSet", "joined", "name_of", "read_set", "read_type", "set_of"]

TypeSet: TypeAlias = tuple[Type, ...]
"""Different types in alphabetical order, so that equal sets are equal tuples."""


def set_of(types: Iterable[Type]) -> TypeSet:
    return tuple(sorted(set(types)))


def name_of(types: Iterable[Type]) -> str:
    """`canny+caption`: the name of a set in files, tables and on the command line."""
    return "+".join(sorted(types))


def read_type(word: str, where: str) -> Type:
    """The type that a word means, also in the spellings of the released files; an error names `where` it stands."""
    kind = type_of(word)
    if kind is None:
        near = difflib.get_close_matches(word.strip().casefold(), TYPES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(TYPES))}"
        raise RefBenchError(f"{where}: {word.strip()!r} is no reference type: {hint}")
    return kind


def read_set(text: str, where: str) -> tuple[Type, ...]:
    """The types in `canny+sketch`, as often as they are named, in alphabetical order."""
    words = [word for word in text.split("+") if word.strip()]
    if not words:
        raise RefBenchError(f"{where}: name reference types joined by +, for example canny+caption")
    return tuple(sorted(read_type(word, where) for word in words))


def joined(words: Sequence[str], last: str = "and") -> str:
    """`one`, `one and two`, `one, two and three`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
