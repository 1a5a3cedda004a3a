"""Open or closed weights, by what the user says and by a list of families; what neither knows stays unknown."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Literal

from refbench.record import RefBenchError

Kind = Literal["open", "closed"]


@dataclass(frozen=True)
class Openness:
    """What the user says of models by name; the list of families is asked for the others."""

    open: Sequence[str] = ()
    closed: Sequence[str] = ()

    def __post_init__(self) -> None:
        both = sorted({*self.open} & {*self.closed})
        if both:
            raise RefBenchError(f"--open {both[0]} and --closed {both[0]}: a model is one of them")

    def check(self, names: Sequence[str]) -> None:
        """A name that is in no row is a mistake in typing."""
        for option, said in (("--open", self.open), ("--closed", self.closed)):
            for name in said:
                if name not in names:
                    raise RefBenchError(f"{option} {name}: the table has {', '.join(dict.fromkeys(names))}")

    def of(self, name: str) -> tuple[Kind | None, str]:
        """Open, closed or unknown, and by what: the user's word or the family's name."""
        if name in self.open:
            return "open", "--open"
        if name in self.closed:
            return "closed", "--closed"
        return family_openness(name)


def family_openness(name: str) -> tuple[Kind | None, str]:
    """By the longest family that the name begins with. A name of several models (A + B) needs all to be alike."""
    found = [_of_part(part) for part in re.split(r"\s*\+\s+|\s+\+\s*|(?<=\w)\+(?=\w)", name) if part.strip()]
    kinds = {kind for kind, _ in found}
    if len(kinds) != 1 or kinds == {None}:
        return None, ""
    return found[0][0], " + ".join(family for _, family in found)


def _of_part(name: str) -> tuple[Kind | None, str]:
    plain = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
    families = [family for family in _families() if _begins(plain, family)]
    if not families:
        return None, ""
    longest = max(families, key=len)
    return _families()[longest], longest


def _begins(name: str, family: str) -> bool:
    rest = name.removeprefix(family)
    if rest == name:
        return False
    return not rest or (not rest[0].isalpha() and not (rest[0].isdigit() and family[-1].isdigit()))


@lru_cache(maxsize=1)
def _families() -> Mapping[str, Kind]:
    said = tomllib.loads(resources.files("refbench.report").joinpath("openness.toml").read_text("utf-8"))
    return {**dict.fromkeys(said["open"], "open"), **dict.fromkeys(said["closed"], "closed")}
