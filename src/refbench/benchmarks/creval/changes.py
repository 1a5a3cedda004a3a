"""What each fix does to each model's score: the way from the paper's number to the corrected one, step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from refbench.benchmarks.creval.aggregate import WEIGHTS
from refbench.benchmarks.creval.details import METRICS, Question
from refbench.benchmarks.creval.grade import FIXES, SCORED_ZERO, Answers, Fix, grade
from refbench.case import AnyCase
from refbench.score import Score

_STEPS = [frozenset(list(Fix)[:n]) for n in range(len(Fix) + 1)]


def explain_changes(cases: Sequence[AnyCase], scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Overall scores after each fix in turn, with the difference it made and the items it touched.

    Needs the scores of both protocols: they hold the answers as either reader found them. The steps add up: the
    first row's `before` is the paper's number, the last row's `after` the corrected one.
    """
    by_id = {case.id: case for case in cases}
    read = {(s.protocol, s.model, s.judge, s.case, s.seed, s.metric): s for s in scores}
    values: dict[tuple[str, str], dict[str, list[list[float | None]]]] = defaultdict(
        lambda: {metric: [] for metric in METRICS}
    )
    for paper in scores:
        if paper.protocol == "paper":
            corrected = read["corrected", paper.model, paper.judge, paper.case, paper.seed, paper.metric]
            questions = by_id[paper.case].details.questions[paper.metric]
            values[paper.model, paper.judge or ""][paper.metric].append(_values(questions, paper, corrected))
    return [row for system, items in sorted(values.items()) for row in _rows(system, items)]


def _values(questions: Sequence[Question], paper: Score, corrected: Score) -> list[float | None]:
    """The item's score after no fix, the first, the first two, ...; None where it is not scored."""
    same = paper.value is not None and paper.value == corrected.value and paper.answers == corrected.answers
    # A failure of both is no such case: the released script scores some kinds of it 0 until the errors are fixed.
    if same and not _odd(questions, paper.answers):
        return [paper.value] * len(_STEPS)
    found: list[float | None] = []
    for fixes in _STEPS:
        read = corrected if Fix.ANSWERS in fixes else paper
        # Without answers the reply could not be read, and the failure is the reader's.
        result = grade(questions, read.answers, fixes) if read.answers else read.failure
        if isinstance(result, float):
            found.append(result)
        else:
            zero = result is not None and Fix.ERRORS not in fixes and result.kind in SCORED_ZERO
            found.append(0.0 if zero else None)
    return found


def _odd(questions: Sequence[Question], answers: Answers) -> bool:
    """Whether any fix could make a difference here."""
    return (
        len({question.id for question in questions}) < len(questions)
        or any(q.written_weight or q.reference not in ("Yes", "No") or not q.text.strip() for q in questions)
        or any(answer not in ("Yes", "No") for answer in answers)
    )


def _rows(system: tuple[str, str], items: Mapping[str, list[list[float | None]]]) -> list[dict[str, Any]]:
    totals = [_totals(items, step) for step in range(len(_STEPS))]
    rows = []
    for step, fix in enumerate(Fix, 1):
        before, after = totals[step - 1], totals[step]
        rows.append(
            {
                "model": system[0],
                "judge": system[1],
                "change": fix.value,
                "what": FIXES[fix],
                "items": sum(item[step] != item[step - 1] for metric in items.values() for item in metric),
                "before": before,
                "after": after,
                "delta": {name: _difference(before[name], after[name]) for name in after},
            }
        )
    return rows


def _totals(items: Mapping[str, list[list[float | None]]], step: int) -> dict[str, float | None]:
    """Each metric over the items that have it, and `avg` over those that have all of them, as in the table."""
    columns: dict[str, list[float | None]] = {m: [item[step] for item in items[m]] for m in METRICS}
    means = {metric: _mean(column) for metric, column in columns.items()}
    whole = [marks for marks in zip(*(columns[metric] for metric in WEIGHTS), strict=True) if None not in marks]
    weighted = [sum(w * m for w, m in zip(WEIGHTS.values(), marks, strict=True) if m is not None) for marks in whole]
    return {**means, "avg": _mean(weighted)}


def _mean(column: Sequence[float | None]) -> float | None:
    scored = [value for value in column if value is not None]
    return round(100 * sum(scored) / len(scored), 9) if scored else None


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(after - before, 9)
