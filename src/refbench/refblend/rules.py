"""Rules: which types of references may come together in one sample, as data, and the verdict on a set of types.

Nothing of any paper is in the code: types, matrix, dependencies, sources and exceptions come from TOML (presets.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from refbench.record import Record
from refbench.refblend.types import TYPES, Type, TypeSet, set_of

Cell = Literal["possible", "impossible", "undefined"]
Group = Literal["local", "global", "semantic", "appearance"]
SIZES = (2, 3, 4)
"""How many types the paper says a sample has."""


class TypeRule(Record):
    """How one type is called in instructions and files."""

    group: Group
    path_key: str
    """Its key under `conditions` of the official JSON."""
    placeholder: str = ""
    """Without the angle brackets; "" for what is said in words, the caption."""
    numbered: str = ""
    """The placeholder of each of several references, with `{n}` for its number from 1; "" where one is all there is."""

    def tokens(self, count: int) -> tuple[str, ...]:
        """The placeholders of so many references of this type."""
        if count == 1 or not self.numbered:
            return (self.placeholder,)
        return tuple(self.numbered.format(n=number) for number in range(1, count + 1))


class Need(Record):
    """What a type cannot do without."""

    mode: Literal["any", "all"]
    of: TypeSet

    def met_by(self, types: Iterable[Type]) -> bool:
        there = set(self.of) & set(types)
        return bool(there) if self.mode == "any" else len(there) == len(self.of)


class Rules(Record):
    """A rule book. `matrix` is symmetric; its diagonal says whether several references of a type may be given."""

    name: str
    about: str = ""
    sizes: tuple[int, ...] = SIZES
    use: TypeSet = set_of(TYPES)
    """Types that samples may have at all."""
    types: Mapping[Type, TypeRule]
    matrix: Mapping[Type, Mapping[Type, Cell]]
    needs: Mapping[Type, Need] = {}
    sources: Mapping[str, TypeSet] = {}
    """What each source of pictures offers: a set must come from one of them. Without any, everything is offered."""
    allow: tuple[TypeSet, ...] = ()
    """Sets that are allowed whatever the rest says (but for their size and the types in use)."""
    deny: tuple[TypeSet, ...] = ()
    """Sets that are forbidden, exactly these: larger ones around them are not."""
    proportions: Mapping[TypeSet, float] = {}
    """How often each set is wanted, in relation to the others; without any, all equally often."""

    def several(self, kind: Type) -> bool:
        """Whether one sample may have several references of this type."""
        return self.matrix[kind][kind] == "possible" and bool(self.types[kind].numbered)

    def restricted(self, types: Iterable[Type] | None = None, sizes: Iterable[int] | None = None) -> Rules:
        """The same rules for fewer types or other sizes; proportions keep their relation."""
        use = self.use if types is None else set_of(set(self.use) & set(types))
        wanted = self.sizes if sizes is None else tuple(sorted(set(sizes)))
        return self.model_copy(update={"use": use, "sizes": wanted})


Kind = Literal["size", "unused", "pair", "need", "deny", "source"]


@dataclass(frozen=True)
class Objection:
    """One thing that speaks against a set: a pair, a type without what it needs, or the set as a whole."""

    kind: Kind
    types: TypeSet


@dataclass(frozen=True)
class Verdict:
    """Whether a set is allowed, what speaks against it, and the sources that offer it."""

    types: TypeSet
    objections: tuple[Objection, ...]
    excepted: bool
    """On the allow list: only its size or types not in use can forbid it."""
    sources: tuple[str, ...]

    @property
    def allowed(self) -> bool:
        binding = ("size", "unused") if self.excepted else None
        return not any(binding is None or objection.kind in binding for objection in self.objections)


def verdict(rules: Rules, types: Iterable[Type]) -> Verdict:
    """Everything that the rules say about a set, not only the first objection."""
    asked = set_of(types)
    found = [Objection("size", asked)] if len(asked) not in rules.sizes else []
    found += [Objection("unused", (kind,)) for kind in asked if kind not in rules.use]
    found += [Objection("pair", (a, b)) for a, b in combinations(asked, 2) if rules.matrix[a][b] != "possible"]
    found += [
        Objection("need", (kind,)) for kind in asked if kind in rules.needs and not rules.needs[kind].met_by(asked)
    ]
    if asked in rules.deny:
        found.append(Objection("deny", asked))
    sources = tuple(name for name, offered in rules.sources.items() if set(asked) <= set(offered))
    if rules.sources and not sources:
        found.append(Objection("source", asked))
    return Verdict(asked, tuple(found), asked in rules.allow, sources)


def allowed_sets(rules: Rules) -> tuple[TypeSet, ...]:
    """Every set that the rules allow, small ones first, then by name."""
    return tuple(
        found
        for size in sorted(rules.sizes)
        for found in combinations(sorted(rules.use), size)
        if verdict(rules, found).allowed
    )


def share_of(rules: Rules, allowed: Iterable[TypeSet]) -> Mapping[TypeSet, float]:
    """How often each allowed set is wanted; all equally often where the rules have no proportions."""
    return {one: rules.proportions.get(one, 0.0) if rules.proportions else 1.0 for one in allowed}
