"""Rules: which types of references may come together in one sample, as data, and the verdict on a set of types, with
its reasons in plain sentences.

Nothing of any paper is in the code: types, matrix, dependencies, sources and exceptions come from TOML (presets.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from refbench.builders.refblend.types import TYPES, Type, TypeSet, joined, name_of, set_of
from refbench.record import Record

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
    """Without the angle brackets; empty for the caption, which is given in words."""
    numbered: str = ""
    """The placeholder of each of several references, `{n}` being its number from 1; empty for types that come once."""

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


class Objection(NamedTuple):
    """One thing that speaks against a set: a pair, a type without what it needs, or the set as a whole."""

    kind: Kind
    types: TypeSet


class SetVerdict(NamedTuple):
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


def verdict(rules: Rules, types: Iterable[Type]) -> SetVerdict:
    """Everything that the rules say about a set, not only the first objection."""
    asked = set_of(types)
    objections = [Objection("size", asked)] if len(asked) not in rules.sizes else []
    objections += [Objection("unused", (kind,)) for kind in asked if kind not in rules.use]
    objections += [Objection("pair", (a, b)) for a, b in combinations(asked, 2) if rules.matrix[a][b] != "possible"]
    objections += [
        Objection("need", (kind,)) for kind in asked if kind in rules.needs and not rules.needs[kind].met_by(asked)
    ]
    if asked in rules.deny:
        objections.append(Objection("deny", asked))
    sources = tuple(name for name, offered in rules.sources.items() if set(asked) <= set(offered))
    if rules.sources and not sources:
        objections.append(Objection("source", asked))
    return SetVerdict(asked, tuple(objections), asked in rules.allow, sources)


def allowed_sets(rules: Rules) -> tuple[TypeSet, ...]:
    """Every set that the rules allow, small ones first, then by name."""
    return tuple(
        types
        for size in sorted(rules.sizes)
        for types in combinations(sorted(rules.use), size)
        if verdict(rules, types).allowed
    )


def share_of(rules: Rules, allowed: Iterable[TypeSet]) -> Mapping[TypeSet, float]:
    """How often each allowed set is wanted; all equally often where the rules have no proportions."""
    return {one: rules.proportions.get(one, 0.0) if rules.proportions else 1.0 for one in allowed}


def explain(rules: Rules, types: Sequence[Type]) -> tuple[bool, list[str]]:
    """Whether the types may come together, and why; a type that is named twice stands for two references of it."""
    judged = verdict(rules, types)
    repeated = sorted(kind for kind, count in Counter(types).items() if count > 1)
    single = [kind for kind in repeated if not rules.several(kind)]
    allowed = judged.allowed and not single
    sentences = [_several(rules, kind) for kind in repeated]
    against = [_sentence(rules, objection) for objection in judged.objections]
    if judged.excepted and against:
        sentences += [f"The list of exceptions of {rules.name} allows it, although:", *against]
    else:
        sentences += against or ([] if single else _in_favour(rules, judged))
    head = (
        f"{name_of(types)} is {'allowed' if allowed else 'forbidden'} by {rules.name} ({rules.about or 'own rules'})."
    )
    return allowed, [head, *sentences]


def _sentence(rules: Rules, objection: Objection) -> str:
    types = objection.types
    if objection.kind == "size":
        sizes = joined([str(size) for size in rules.sizes], "or")
        return f"It has {len(types)} type{'s' * (len(types) != 1)}; samples have {sizes}."
    if objection.kind == "unused":
        return f"{types[0]} is not among the types in use."
    if objection.kind == "pair":
        return _pair(rules, *types)
    if objection.kind == "need":
        return f"{types[0]} needs {_needed(rules.needs[types[0]])} beside it, which the set does not have."
    if objection.kind == "deny":
        return f"{name_of(types)} is on the list of sets that are denied."
    return _no_source(rules, types)


def _no_source(rules: Rules, types: TypeSet) -> str:
    """The types that only some sources offer, with the sources: where they part is why none has them all."""
    parts = []
    for kind in types:
        names = [name for name, offered in rules.sources.items() if kind in offered]
        if len(names) < len(rules.sources):
            parts.append(f"{kind} comes from {', '.join(names) or 'none'}")
    return f"No source of pictures offers all of it: {'; '.join(parts)}."


def _pair(rules: Rules, first: Type, second: Type) -> str:
    if rules.matrix[first][second] == "undefined":
        return f"{first} with {second} is undefined in the matrix: no source of the paper offers both."
    groups = {rules.types[first].group, rules.types[second].group}
    why = {
        frozenset({"global"}): "each fixes the structure of the whole picture",
        frozenset({"local"}): "each says where something is, and they may contradict each other",
        frozenset({"local", "global"}): "one fixes a part and the other the whole structure of the picture",
    }.get(frozenset(groups), "the matrix excludes the pair")
    return f"{first} and {second} exclude each other: {why}."


def _in_favour(rules: Rules, judged: SetVerdict) -> list[str]:
    types = judged.types
    pairs = len(types) * (len(types) - 1) // 2
    sentences = [f"{'Its pair is' if pairs == 1 else f'All {pairs} pairs are'} possible in the matrix."]
    for kind in types:
        if kind in rules.needs:
            there = [other for other in rules.needs[kind].of if other in types]
            sentences.append(f"{kind} needs {_needed(rules.needs[kind])}, and the set has {' and '.join(there)}.")
    if judged.sources:
        sentences.append(f"Offered by {', '.join(judged.sources)}.")
    share = rules.proportions.get(types)
    if share is not None:
        sentences.append(f"Its proportion is {share:g} of {sum(rules.proportions.values()):g}.")
    elif rules.proportions:
        sentences.append("It has no proportion, so a sampled plan does not draw it; an exhaustive one does.")
    return sentences


def _several(rules: Rules, kind: Type) -> str:
    if rules.several(kind):
        return f"A sample may have several {kind} references; the set counts {kind} once."
    return f"A sample may have one {kind} reference only."


def _needed(need: Need) -> str:
    return joined(need.of, "or") if need.mode == "any" else " and ".join(need.of)
