"""Raters made of numbers: they answer a study through the methods that its server uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count

from refbench.studies.items import Item
from refbench.studies.marks import Value
from refbench.studies.raters import Rater
from refbench.studies.shown import Acknowledgement, Shown
from refbench.studies.study import Study

_numbers = count()
Answer = Callable[[Item, Shown], Mapping[str, Value]]
"""What a rater says of an item, by the owner's names of outputs."""


def item_of(study: Study, rater: Rater, shown: Shown) -> Item:
    """What the owner knows about an item that a rater sees."""
    study.leases.refresh()
    name = next(
        lease.item
        for lease in study.leases.all.values()
        if lease.rater == rater.id
        and study.raters.opaque("item", rater.id, lease.item, str(lease.occasion)) == shown.item
    )
    return study.items[name]


def answer_one(study: Study, rater: Rater, answer: Answer, active: float = 5.0) -> Acknowledgement | None:
    """Answer the item that is shown next; None where there is none."""
    shown = next(iter(study.next_items(rater)), None)
    if shown is None:
        return None
    values = dict(answer(item_of(study, rater, shown), shown))
    sent = {
        "id": f"browser-{next(_numbers):08d}",
        "item": shown.item,
        "values": values,
        "active": active,
        "wall": active,
    }
    told = study.take(rater, sent)
    assert isinstance(told, Acknowledgement), told
    return told


def answer_all(study: Study, rater: Rater, answer: Answer, active: float = 5.0) -> int:
    """Answer all that there is for a rater; returns how many."""
    study.consent(rater)
    given = 0
    while answer_one(study, rater, answer, active) is not None:
        given += 1
    return given


def marks_by(quality: Callable[[Item], float]) -> Answer:
    """A rater who gives every criterion the quality of the item, in [0, 1], and knows gold when it is shown."""

    def answer(item: Item, shown: Shown) -> dict[str, Value]:
        said: dict[str, Value] = {}
        for entry in shown.entries:
            # In a set the exchanged output may stand in any place: whoever marks all of them low is right about it.
            right = next(iter(item.allowed.values()), None) if item.screen == "set" else item.allowed.get(entry.name)
            place = round(quality(item) * (len(entry.marks) - 1))
            if right is not None:
                place = 0 if right.high is not None else len(entry.marks) - 1
            said[entry.name] = entry.marks[min(max(place, 0), len(entry.marks) - 1)]
        return said

    return answer
