"""Why a set of types is allowed or forbidden, in plain sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from refbench.refblend.rules import Need, Objection, Rules, Verdict, verdict
from refbench.refblend.types import Type, TypeSet, name_of


def explain(rules: Rules, types: Sequence[Type]) -> tuple[bool, list[str]]:
    """Whether the types may come together, and why; a type that is named twice stands for two references of it."""
    found = verdict(rules, types)
    repeated = sorted(kind for kind, count in Counter(types).items() if count > 1)
    single = [kind for kind in repeated if not rules.several(kind)]
    allowed = found.allowed and not single
    sentences = [_several(rules, kind) for kind in repeated]
    against = [_sentence(rules, objection) for objection in found.objections]
    if found.excepted and against:
        sentences += [f"The list of exceptions of {rules.name} allows it, although:", *against]
    else:
        sentences += against or ([] if single else _in_favour(rules, found))
    head = (
        f"{name_of(types)} is {'allowed' if allowed else 'forbidden'} by {rules.name} ({rules.about or 'own rules'})."
    )
    return allowed, [head, *sentences]


def _sentence(rules: Rules, objection: Objection) -> str:
    types = objection.types
    if objection.kind == "size":
        sizes = _either([str(size) for size in rules.sizes])
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


def _in_favour(rules: Rules, found: Verdict) -> list[str]:
    types = found.types
    pairs = len(types) * (len(types) - 1) // 2
    sentences = [f"{'Its pair is' if pairs == 1 else f'All {pairs} pairs are'} possible in the matrix."]
    for kind in types:
        if kind in rules.needs:
            there = [other for other in rules.needs[kind].of if other in types]
            sentences.append(f"{kind} needs {_needed(rules.needs[kind])}, and the set has {' and '.join(there)}.")
    if found.sources:
        sentences.append(f"Offered by {', '.join(found.sources)}.")
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
    return _either(need.of) if need.mode == "any" else " and ".join(need.of)


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
