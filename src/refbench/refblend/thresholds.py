"""Thresholds: rules for references that are too poor to give (no edges, a mask of everything), as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from refbench.record import Record, RefBenchError
from refbench.refblend.types import Type, read_type

_SHIPPED = Path(__file__).with_name("data") / "thresholds.toml"


class Limits(Record):
    """A fact's range; None where it has no end."""

    least: float | None = None
    most: float | None = None


Thresholds: TypeAlias = Mapping[Type, Mapping[str, Limits]]


def load_thresholds(path: Path | None = None) -> Thresholds:
    """The shipped thresholds, with those of a user's TOML file in their place, fact by fact; `{}` takes one away."""
    found = _read(_SHIPPED)
    if path is not None:
        for kind, facts in _read(path).items():
            for fact in facts:
                if fact not in found.get(kind, {}):
                    known = ", ".join(found.get(kind, {})) or "nothing"
                    raise RefBenchError(f"{path}: {kind}.{fact} is not measured: of {kind} there is {known}")
            found[kind] = {**found.get(kind, {}), **facts}
    return found


def too_poor(kind: Type, facts: Mapping[str, float], thresholds: Thresholds) -> tuple[str, str] | None:
    """The reason and its figures where a reference is outside a threshold; None where it may be given."""
    for fact, limits in thresholds.get(kind, {}).items():
        value = facts.get(fact)
        if value is None:
            continue
        if limits.least is not None and value < limits.least:
            return f"{kind}: {fact} below {limits.least:g}", f"{fact} {value:g}"
        if limits.most is not None and value > limits.most:
            return f"{kind}: {fact} above {limits.most:g}", f"{fact} {value:g}"
    return None


def _read(path: Path) -> dict[Type, Mapping[str, Limits]]:
    try:
        said = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RefBenchError(f"--thresholds {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RefBenchError(f"{path} is not valid TOML: {error}") from error
    return {read_type(word, str(path)): _limits(path, word, facts) for word, facts in said.items()}


def _limits(path: Path, word: str, facts: Any) -> dict[str, Limits]:
    if not isinstance(facts, dict):
        raise RefBenchError(f"{path}: {word}: give a table of facts")
    found = {}
    for fact, ends in facts.items():
        right = isinstance(ends, dict) and set(ends) <= {"least", "most"}
        if not right or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends.values()):
            raise RefBenchError(f"{path}: {word}.{fact}: give least, most or both, as numbers")
        found[fact] = Limits(**ends)
    return found
