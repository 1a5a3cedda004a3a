"""Adjudication: the items on which raters disagree go to one person, who sees nothing of what they said."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from refbench.studies.items import entries_of
from refbench.studies.reading import read

if TYPE_CHECKING:
    from refbench.studies.study import Study


def disputed(study: Study) -> list[str]:
    """Items that somebody should decide, by the raters who are not left out: marks as many steps apart as the design
    says, yes against no, one side of a pair against the other, or different decisions of a review."""
    said: dict[str, dict[str, set[float | str]]] = defaultdict(lambda: defaultdict(set))
    out = read(study).left_out
    for mark in study.marks.given():
        if mark.occasion or study.items[mark.item].use != "item" or not study.counts(mark.rater) or mark.rater in out:
            continue
        for name, value in mark.values.items():
            if isinstance(value, int | float | str):
                said[mark.item][name].add(value)
    return [name for name in study.items if name in said and _in_dispute(study, name, said[name])]


def _in_dispute(study: Study, name: str, said: dict[str, set[float | str]]) -> bool:
    for entry in entries_of(study.items[name], study.design):
        values = said.get(entry.name, set())
        if entry.kind == "choice":
            sides = {"0", "1"} if study.items[name].screen == "pair" else {"accept", "edit", "reject"}
            if len(values & sides) > 1:
                return True
            continue
        numbers = [value for value in values if isinstance(value, int | float)]
        step = entry.marks[1] - entry.marks[0] if len(entry.marks) > 1 else 1.0
        least = step if entry.kind == "yes_no" else study.design.dispute * step
        if numbers and max(numbers) - min(numbers) >= least - 1e-9:
            return True
    return False
