"""Own cases under a rubric, and benchmarks in one file: marks and metrics averaged over cases, a total by case."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from oracle.core import Book, Case, Draw, Mean, Measure, State, Where, failed, joined
from oracle.creval import SORRY

Ranges = Mapping[str, tuple[float, float]]


def slices(cases: Sequence[Case]) -> list[Where]:
    """All cases, each value of each group, each tag."""
    found = [Where({"level": "overall"}, tuple(case["id"] for case in cases))]
    for name in dict.fromkeys(name for case in cases for name in case["groups"]):
        for value in dict.fromkeys(case["groups"][name] for case in cases if name in case["groups"]):
            ids = tuple(case["id"] for case in cases if case["groups"].get(name) == value)
            found.append(Where({"level": name, name: value}, ids))
    tags = {tag: tuple(c["id"] for c in cases if tag in c["tags"]) for case in cases for tag in case["tags"]}
    return [*found, *(Where({"level": "tag", "tag": tag}, ids) for tag, ids in tags.items())]


def marks_in(reply: str, names: Sequence[str], ranges: Ranges) -> Draw:
    """Lines of JSON objects with a mark for each name; two lines that contradict each other say nothing."""
    if not reply.strip():
        return dict.fromkeys(names, failed("empty_reply"))
    if not reply.startswith("{"):
        return dict.fromkeys(names, failed("refused" if reply.startswith(SORRY) else "unparsable"))
    said: dict[str, set[float]] = {}
    for line in reply.splitlines():
        for key, value in json.loads(line).items():
            if not isinstance(value, str):
                said.setdefault(key, set()).add(value)
    found = {}
    for name in names:
        low, high = ranges[name]
        if len(said.get(name, ())) != 1:
            found[name] = failed("unparsable")
        else:
            (mark,) = said[name]
            found[name] = State(float(mark)) if low <= mark <= high else failed("out_of_range")
    return found


def book(
    parts: Mapping[str, Mapping[str, tuple[float, float]]],
    measured: Mapping[str, tuple[float, float]],
    total: str | None,
    over: Mapping[str, float],
    ends: tuple[float, float],
    *,
    minimum: bool = False,
    lower: frozenset[str] = frozenset(),
    away: Any = lambda case: set(),
) -> dict[str, Book]:
    """`parts` has the marks of each call, `over` the weights of the total, which is brought to the range `ends`.

    With `minimum`, a call also gives its own lowest mark under its own name.
    """
    ranges = {m: r for of_part in parts.values() for m, r in of_part.items()} | dict(measured)
    given = {part: (*of_part, *((part,) if minimum else ())) for part, of_part in parts.items()}
    ranges |= {part: next(iter(of_part.values())) for part, of_part in parts.items() if minimum}
    metrics = (*(m for of_part in given.values() for m in of_part), *measured)

    def read(case: Case, part: str, reply: str) -> Draw:
        found = marks_in(reply, list(parts[part]), ranges)
        return found | ({part: joined(list(found.values()), min)} if minimum else {})

    def combine(draw: Draw) -> Draw:
        if total is None:
            return {}
        concerned = [m for m in over if not draw[m].away]
        weights = [over[m] if total != "mean" else 1.0 for m in concerned]

        def rule(values: list[float]) -> float:
            marks = []
            for metric, value in zip(concerned, values, strict=True):
                low, high = ranges[metric]
                marks.append(ends[0] + (value - low) * (ends[1] - ends[0]) / (high - low))
            if total == "minimum":
                return min(marks)
            if total == "geometric_mean":
                return math.prod(mark ** (w / sum(weights)) for w, mark in zip(weights, marks, strict=True))
            return sum(w * mark for w, mark in zip(weights, marks, strict=True)) / sum(weights)

        return {"total": joined([draw[m] for m in over], rule)}

    def summarise(mean: Mean, where: Where, cases: Mapping[str, Case]) -> dict[str, float | None]:
        return {m: mean(m, where.cases) for m in (*metrics, *(("total",) if total else ()))}

    columns = [Measure(m, (m,), *ranges[m]) for m in metrics]
    columns += [Measure("total", tuple(over), *ends)] if total else []
    made = Book(
        metrics=metrics,
        measures=tuple(columns),
        slices=slices,
        read=read,
        parts=given,
        summarise=summarise,
        measured=frozenset(measured),
        away=away,
        combine=combine,
        ranges=ranges,
        lower=lower,
    )
    return {"corrected": made}
