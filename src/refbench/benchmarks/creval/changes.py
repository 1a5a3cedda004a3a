"""What each fix does to each model's score: the way from the paper's number to the corrected one, step by step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refbench.benchmarks.creval.aggregate import WEIGHTS
from refbench.benchmarks.creval.details import METRICS, Question
from refbench.benchmarks.creval.grade import FIXES, SCORED_ZERO, Answers, Fix, grade, read_answers
from refbench.case import AnyCase
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure

_STEPS = [frozenset(list(Fix)[:n]) for n in range(len(Fix) + 1)]


def explain_changes(cases: Sequence[AnyCase], evidence: Iterable[tuple[Purpose, Evidence]]) -> list[dict[str, Any]]:
    """Overall scores after each fix in turn, with the difference it made and the items it touched.

    The steps add up: the first row's `before` is the paper's number, the last row's `after` the corrected one.
    """
    by_id = {case.id: case for case in cases}
    values: dict[tuple[str, str], dict[str, list[list[float | None]]]] = defaultdict(
        lambda: {metric: [] for metric in METRICS}
    )
    for purpose, act in evidence:
        questions = by_id[purpose.case].details.questions[purpose.part]
        values[purpose.model, purpose.judge][purpose.part].append(_values(questions, act))
    return [row for system, items in sorted(values.items()) for row in _rows(system, items)]


def _values(questions: Sequence[Question], evidence: Evidence) -> list[float | None]:
    """The item's score after no fix, the first, the first two, ...; None where it is not scored."""
    read: dict[bool, Answers | Failure] = {}
    found = []
    for fixes in _STEPS:
        recovered = Fix.ANSWERS in fixes
        if recovered not in read:
            read[recovered] = read_answers(evidence, questions, fixes)
        answers = read[recovered]
        result = answers if isinstance(answers, Failure) else grade(questions, answers, fixes)
        if isinstance(result, Failure):
            zero = Fix.ERRORS not in fixes and result.kind in SCORED_ZERO
            found.append(0.0 if zero else None)
        else:
            found.append(result)
    return found


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
    means: dict[str, float | None] = {}
    for metric in METRICS:
        scored = [item[step] for item in items[metric] if item[step] is not None]
        means[metric] = round(100 * sum(v for v in scored if v is not None) / len(scored), 9) if scored else None
    parts = [(weight, means[metric]) for metric, weight in WEIGHTS.items()]
    whole = [weight * mean for weight, mean in parts if mean is not None]
    means["avg"] = round(sum(whole), 9) if len(whole) == len(parts) else None
    return means


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else round(after - before, 9)
