"""Gold and training items without anybody's labour: outputs of other cases, whose marks must be low, and golden
pictures, whose marks must be high; and explicit checks, which say what to choose. Where there are variants of the judge
audit, its exchanges come first: it has measured that the pictures do not look alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from refbench.builders.audit.variants import VariantRow, Variants
from refbench.studies.criteria import words
from refbench.studies.design import Criterion
from refbench.studies.items import PREFERENCE, Allowed, Item, ItemOutput, ItemPicture

_OTHER_OUTPUT, _OTHER_REFERENCES = "1:other_output", "2:other_references"
"""Variants whose right mark is known whatever the model can: other damages make marks fall, nobody knows how far."""


def with_exchanges(
    items: Sequence[Item],
    criteria: Sequence[Criterion],
    wanted: Mapping[str, int],
    targets: Mapping[str, ItemPicture],
    variants: Variants | None = None,
) -> list[Item]:
    """Gold items, then training items, as many as wanted and possible. None is made from what it is about: the output
    shown is always that of another case. Training shows also golden pictures, so that not every answer is low."""
    made = of_audit(items, criteria, variants) if variants is not None else []
    cases = {item.case for item in made}
    pairs = [pair for pair in _partners(items) if pair[0].case not in cases]
    made += [one for item, other in pairs if (one := _exchanged(item, other, criteria)) is not None]
    gold = [item.model_copy(update={"use": "gold", "id": f"gold {item.id}"}) for item in made[: wanted["gold"]]]
    # Training takes others than gold: what was explained is not asked about again. Where each case is gold already, it
    # is shown with yet another case's output.
    low = _unlike(gold, made[wanted["gold"] :], items, criteria, wanted["training"])
    high = [one for item in items if item.case in targets and (one := _golden(item, targets[item.case], criteria))]
    mixed = [*high[: wanted["training"] // 2], *low][: wanted["training"]]
    training = [
        item.model_copy(update={"use": "training", "id": f"training {n} {item.id}"}) for n, item in enumerate(mixed, 1)
    ]
    return [*gold, *training]


def _unlike(
    gold: Sequence[Item], left: Sequence[Item], items: Sequence[Item], criteria: Sequence[Criterion], n: int
) -> list[Item]:
    """What is left after gold, or more exchanges, none of which shows what a gold item shows; n where there are."""
    found = {_shows(item): item for item in left}
    taken = {_shows(item) for item in gold}
    for step in range(1, len({item.case for item in items})):
        for item, other in _partners(items, step):
            if len(found) >= n:
                return list(found.values())
            made = _exchanged(item, other, criteria)
            if made is not None and _shows(made) not in taken:
                found.setdefault(_shows(made), made)
    return list(found.values())


_CHOSEN = 3.0
"""The mark that an explicit check asks for, where the scales have it."""


def explicit_checks(items: Sequence[Item], criteria: Sequence[Criterion], n: int) -> list[Item]:
    """Items that ask for one answer whatever they show, from the end of the list: gold begins at its front."""
    last = {item.case: item for item in items}
    made = [one for item in reversed(last.values()) if (one := _explicit(item, criteria)) is not None]
    return [item.model_copy(update={"use": "attention", "id": f"attention {item.id}"}) for item in made[:n]]


def _explicit(item: Item, criteria: Sequence[Criterion]) -> Item | None:
    """The item with a request for one answer to all of its questions; None where no answer is one to all."""
    if item.screen == "pair":
        return item.model_copy(
            update={"attention": words("attention_tie"), "allowed": {PREFERENCE: Allowed(words=("tie",))}}
        )
    if item.screen == "questions":
        yes = {f"Q{number}": Allowed(low=1) for number in range(1, len(item.questions) + 1)}
        return item.model_copy(update={"attention": words("attention_yes"), "allowed": yes})
    asked = [criterion for criterion in criteria if item.stratum not in criterion.not_for]
    kinds = {criterion.kind for criterion in asked}
    common = sorted(set.intersection(*({*c.marks} for c in asked))) if len(kinds) == 1 else []
    if not common:
        return None
    mark = 1.0 if "yes_no" in kinds else _CHOSEN if _CHOSEN in common else common[len(common) // 2]
    places = [f"{output}." for output in range(len(item.outputs))] if item.screen == "set" else [""]
    right = {f"{place}{c.name}": Allowed(low=mark, high=mark) for place in places for c in asked}
    told = words("attention_yes") if "yes_no" in kinds else words("attention")
    said = {language: text.replace("{mark}", f"{mark:g}") for language, text in told.items()}
    return item.model_copy(update={"attention": said, "allowed": right})


def of_audit(items: Sequence[Item], criteria: Sequence[Criterion], variants: Variants) -> list[Item]:
    """Each case's first item as a variant of the audit, where it has one that was made: every third with other
    references, which only a rater sees who looks at them, the others with another output."""
    made: list[Item] = []
    first: dict[str, Item] = {}
    for item in items:
        first.setdefault(item.case, item)
    for item in first.values():
        kinds = (_OTHER_OUTPUT, _OTHER_REFERENCES) if len(made) % 3 < 2 else (_OTHER_REFERENCES, _OTHER_OUTPUT)
        rows = (variants.rows.get((item.case, kind)) for kind in kinds)
        changed = (_varied(item, row, criteria, variants) for row in rows if row is not None and row.state == "made")
        made += [one for one in changed if one is not None][:1]
    return made


def _varied(item: Item, row: VariantRow, criteria: Sequence[Criterion], variants: Variants) -> Item | None:
    """The item with the pictures of a variant, and what may be said of it."""

    def picture(role: str, name: str) -> ItemPicture:
        return ItemPicture(role=role, file=str(variants.path(name).absolute()), sha256=name.partition(".")[0])

    if not item.outputs:
        return None
    shown = item.outputs[0].model_copy(update={"pictures": tuple(picture("output", one) for one in row.outputs)})
    with_output = item.model_copy(update={"outputs": (shown,)})
    if row.variant == _OTHER_OUTPUT:
        return _exchanged(item, with_output, criteria)
    asked = [c for c in criteria if c.gold and c.ability == "RC" and item.stratum not in c.not_for]
    if item.screen != "rate" or not asked:
        return None
    inputs = tuple(
        picture(old.role, row.inputs[place]) if place in row.inputs else old for place, old in enumerate(item.inputs)
    )
    low = {criterion.name: Allowed(high=criterion.low_enough) for criterion in asked}
    return with_output.model_copy(update={"inputs": inputs, "allowed": low, "why": words("training_references")})


def _shows(item: Item) -> tuple[tuple[str, str], ...]:
    """What two items have in common that look the same."""
    return tuple((picture.role, picture.sha256) for picture in item.pictures)


def _partners(items: Sequence[Item], step: int | None = None) -> Iterator[tuple[Item, Item]]:
    """An item of each case with one of another case, half the list away, or so many cases; models take turns."""
    of_case: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        of_case[item.case].append(item)
    cases = list(of_case.values())
    away = max(1, len(cases) // 2) if step is None else step
    for place, mine in enumerate(cases):
        others = cases[(place + away) % len(cases)]
        if others is not mine:
            yield mine[place % len(mine)], others[place % len(others)]


def _exchanged(item: Item, other: Item, criteria: Sequence[Criterion]) -> Item | None:
    """The item with an output (or reference) of another one, and what may be said of it."""
    asked = [criterion for criterion in criteria if criterion.gold and item.stratum not in criterion.not_for]
    low = {criterion.name: Allowed(high=criterion.low_enough) for criterion in asked}
    why = words("training")
    if item.screen == "rate" and low:
        return item.model_copy(update={"outputs": other.outputs, "allowed": low, "why": why})
    if item.screen == "set" and low:
        of_first = {f"0.{name}": allowed for name, allowed in low.items()}
        outputs = (other.outputs[0], *item.outputs[1:])
        return item.model_copy(update={"outputs": outputs, "allowed": of_first, "why": why})
    if item.screen == "pair":
        right = {PREFERENCE: Allowed(words=("0",))}
        outputs = (item.outputs[0], _of_same_name(other.outputs[0], item.outputs[1]))
        return item.model_copy(update={"outputs": outputs, "allowed": right, "why": words("training_pair")})
    if item.screen == "questions":
        return item.model_copy(update={"outputs": other.outputs, "most": 0.5, "why": why})
    if item.screen == "reference" and low and item.stratum == other.stratum and len(item.inputs) == len(other.inputs):
        exchanged = {"inputs": (item.inputs[0], *other.inputs[1:]), "text": other.text}
        return item.model_copy(update={**exchanged, "allowed": low, "why": why})
    return None


def _golden(item: Item, target: ItemPicture, criteria: Sequence[Criterion]) -> Item | None:
    """The item with the golden picture in the place of the output."""
    high = {c.name: Allowed(low=c.high_enough) for c in criteria if c.gold and item.stratum not in c.not_for}
    if item.screen != "rate" or not high:
        return None
    shown = ItemOutput(model="", pictures=(target.model_copy(update={"role": "output"}),))
    return item.model_copy(update={"outputs": (shown,), "allowed": high, "why": words("training_good")})


def _of_same_name(shown: ItemOutput, name: ItemOutput) -> ItemOutput:
    """An output under another's name: sides are balanced by names."""
    return shown.model_copy(update={"model": name.model})
