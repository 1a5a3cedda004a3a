"""Who is left out, by rules that were fixed before the start. Marks are never deleted: the rules are applied when they
are read, and tables are given with and without."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refbench.record import Record
from refbench.stats.correlation import pearson
from refbench.studies.design import Exclusion

LEAST_GOLD, LEAST_ATTENTION, LEAST_MARKS, LEAST_SHARED, LEAST_TIMED, LEAST_REPEATED = 4, 2, 30, 10, 5, 8
"""Gold items, explicit checks, marks, points shared with others, timed items and repeated marks from which a rule says
anything: of two repeated marks an honest rater's lie 1.5 steps apart in one study of twenty."""


@dataclass(frozen=True)
class Answer:
    """One rater's answer to one entry of an item; the value None where the rater could not say."""

    rater: str
    item: str
    entry: str
    value: float | None
    occasion: int = 0
    step: float = 1.0
    """Between neighbouring marks of its scale."""


class RaterFacts(Record):
    """What the rules look at; None where there is not enough to say."""

    rater: str
    marks: int
    gold_right: int = 0
    gold_seen: int = 0
    attention_right: int = 0
    attention_seen: int = 0
    seconds: float | None = None
    """Median active time of an item."""
    same: float | None = None
    """Share of the most frequent mark."""
    repeats: float | None = None
    """Steps between both marks of repeated items, on average."""
    correlation: float | None = None
    """With the mean of the others."""


class Fallen(Record):
    """A rater who is left out, and by which rules."""

    rater: str
    rules: tuple[str, ...]


def facts_of(
    answers: Sequence[Answer],
    gold: Mapping[str, Sequence[bool]],
    seconds: Mapping[str, Sequence[float]],
    attention: Mapping[str, Sequence[bool]] | None = None,
) -> list[RaterFacts]:
    """What is known of each rater. `gold` and `attention` are right or wrong for each of these items seen, `seconds`
    the time of each item proper."""
    checks = attention or {}
    first: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    again: dict[str, list[float]] = defaultdict(list)
    for one in answers:
        if one.occasion == 0 and one.value is not None:
            first[one.rater][one.item, one.entry] = one.value
    for one in answers:
        before = first[one.rater].get((one.item, one.entry))
        if one.occasion and one.value is not None and before is not None:
            again[one.rater].append(abs(one.value - before) / one.step)
    sums: dict[tuple[str, str], float] = defaultdict(float)
    counts: Counter[tuple[str, str]] = Counter()
    for of_rater in first.values():
        for place, value in of_rater.items():
            sums[place] += value
            counts[place] += 1
    names = dict.fromkeys([*(one.rater for one in answers), *gold, *checks, *seconds])
    return [
        RaterFacts(
            rater=name,
            marks=len(first[name]),
            gold_right=sum(gold.get(name, ())),
            gold_seen=len(gold.get(name, ())),
            attention_right=sum(checks.get(name, ())),
            attention_seen=len(checks.get(name, ())),
            seconds=_median(seconds.get(name, ())),
            same=_same(list(first[name].values())),
            repeats=float(np.mean(again[name])) if len(again[name]) >= LEAST_REPEATED else None,
            correlation=_with_others(first[name], sums, counts),
        )
        for name in names
    ]


def fallen(facts: Sequence[RaterFacts], rules: Exclusion) -> list[Fallen]:
    """Who falls to which rules, all of them applied at once to what everybody said."""
    timed = [one.seconds for one in facts if one.seconds is not None]
    middle = float(np.median(timed)) if len(timed) > 1 else None
    found = []
    for one in facts:
        said = []
        if rules.gold is not None and one.gold_seen >= LEAST_GOLD and one.gold_right < rules.gold * one.gold_seen:
            said.append(f"gold: {one.gold_right} of {one.gold_seen} right")
        few = one.attention_seen < LEAST_ATTENTION
        if rules.attention is not None and not few and one.attention_right < rules.attention * one.attention_seen:
            said.append(f"attention: {one.attention_right} of {one.attention_seen} right")
        if rules.time is not None and one.seconds is not None and middle and one.seconds < rules.time * middle:
            said.append(f"time: {one.seconds:.1f} s an item, the median is {middle:.1f} s")
        if rules.same is not None and one.same is not None and one.same > rules.same:
            said.append(f"same: {100 * one.same:.0f} % of {one.marks} marks are one and the same")
        if rules.repeats is not None and one.repeats is not None and one.repeats > rules.repeats:
            said.append(f"repeats: {one.repeats:.1f} steps apart on average")
        if rules.correlation is not None and one.correlation is not None and one.correlation < rules.correlation:
            said.append(f"correlation: {one.correlation:.2f} with the others")
        if said:
            found.append(Fallen(rater=one.rater, rules=tuple(said)))
    return found


def _median(seconds: Sequence[float]) -> float | None:
    known = [one for one in seconds if one > 0]
    return float(np.median(known)) if len(known) >= LEAST_TIMED else None


def _same(values: Sequence[float]) -> float | None:
    return Counter(values).most_common(1)[0][1] / len(values) if len(values) >= LEAST_MARKS else None


def _with_others(
    mine: Mapping[tuple[str, str], float],
    sums: Mapping[tuple[str, str], float],
    counts: Mapping[tuple[str, str], int],
) -> float | None:
    shared = [place for place in mine if counts[place] > 1]
    if len(shared) < LEAST_SHARED:
        return None
    others = [(sums[place] - mine[place]) / (counts[place] - 1) for place in shared]
    return pearson([mine[place] for place in shared], others)
