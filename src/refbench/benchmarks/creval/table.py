"""Answers to scores, scores to the table, and what each fix does to a model's score on the way from the paper's number.

The paper's grading and ours differ by a list of named fixes, each of which can be switched on alone: `corrected` is all
of them, `paper` is none. Dimension and overall are means over items, a category is the mean of its dimensions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np

from refbench.benchmarks.creval.cases import DIMENSIONS, METRICS, CREvalCase, Metric, Question, paper874_excluded
from refbench.benchmarks.creval.replies import NOT_FOUND, Answers, read_choice, read_corrected, read_paper
from refbench.benchmarks.kit.aggregate import TableRules, Total, macro_slice, value_slices
from refbench.benchmarks.kit.published import PublishedValue, published_values
from refbench.benchmarks.kit.rows import csv_rows, toml_data
from refbench.case import AnyCase, Request
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score
from refbench.tables.table import Slice


class Fix(StrEnum):
    """A fault of the released data or code that `corrected` is free of. The order is that of the report."""

    ANSWERS = "answers"
    REFERENCES = "references"
    BLANKS = "blanks"
    DUPLICATES = "duplicates"
    ERRORS = "errors"
    WEIGHTS = "weights"
    ABSTENTIONS = "abstentions"
    UNANSWERED = "unanswered"


FIXES = toml_data(__package__, "fixes.toml")
ALL_FIXES = frozenset(Fix)
NO_FIXES: frozenset[Fix] = frozenset()

# What the released script gives zero points: whatever made it store an error instead of answers.
SCORED_ZERO = ("api_error", "timeout", "refused", "empty_reply", "unparsable")


def read_scores(
    case: CREvalCase, purpose: Purpose, evidence: Evidence, fixes: frozenset[Fix], protocol: str
) -> list[Score]:
    """The score of one (case, metric) as graded with the given fixes."""
    metric: Metric = purpose.part  # type: ignore[assignment]
    questions = case.details.questions[metric]
    answers = read_answers(evidence, questions, fixes)
    result = answers if isinstance(answers, Failure) else grade(questions, answers, fixes)
    return [Score.of(purpose, metric, protocol, result, () if isinstance(answers, Failure) else answers)]


def read_answers(evidence: Evidence, questions: Sequence[Question], fixes: frozenset[Fix]) -> Answers | Failure:
    """The answers in the reply, one for each question, or why there are none."""
    if evidence.reply is None:
        return evidence.failure or Failure(kind="missing_reply")
    return (read_corrected if Fix.ANSWERS in fixes else read_paper)(evidence.reply, questions)


def grade(questions: Sequence[Question], answers: Answers, fixes: frozenset[Fix]) -> float | Failure:
    """Share of the weight whose answer matched the reference."""
    earned = possible = 0
    unread = []
    seen: set[str] = set()
    for question, answer in zip(questions, answers, strict=True):
        blank = not question.text.strip()
        repeated = question.id in seen
        if not blank:
            seen.add(question.id)
        if (Fix.BLANKS in fixes and blank) or (Fix.DUPLICATES in fixes and repeated):
            continue
        if Fix.REFERENCES in fixes and not blank and read_choice(question.reference) is None:
            continue
        if answer in (None, "", NOT_FOUND):
            unread.append(question.id)
        elif Fix.ABSTENTIONS in fixes and read_choice(answer) is None:
            continue
        weight = question.written_weight if Fix.WEIGHTS in fixes and question.written_weight else question.weight
        possible += weight
        earned += weight * _matches(answer, question.reference, fixes)
    if Fix.UNANSWERED in fixes and unread:
        return Failure(kind="unparsable", detail=f"no answer to {', '.join(unread)}")
    if possible == 0:
        return Failure(kind="undefined", detail="no question of this item can be scored")
    return earned / possible


def _matches(answer: str | None, reference: str, fixes: frozenset[Fix]) -> bool:
    if answer is None:
        return False
    if Fix.REFERENCES in fixes:
        return read_choice(answer) is not None and read_choice(answer) == read_choice(reference)
    return answer.lower() == reference.strip().lower()


WEIGHTS = {"IF": 0.4, "VC": 0.4, "VQ": 0.2}
"""The paper's 4:4:2, chosen there by comparing rankings with human scores."""


def slices(cases: Sequence[AnyCase]) -> list[Slice]:
    """Overall, then each category, then each dimension, in the order of the class ids."""
    names = {name: {"category": category, "dimension": name} for category, name in DIMENSIONS.values()}
    dimensions = value_slices(cases, "dimension", names)
    categories = [
        macro_slice("category", {"category": name}, [d for d in dimensions if d.names["category"] == name])
        for name in dict.fromkeys(d.names["category"] for d in dimensions)
    ]
    return [Slice("overall", {}, np.ones(len(cases), dtype=np.bool_)), *categories, *dimensions]


_RULES = TableRules(
    dict.fromkeys(METRICS, (0.0, 1.0)),
    total=Total("weighted_mean", weights=WEIGHTS, name="avg", of_means=True),
    slices=slices,
    scale=100.0,
)
CORRECTED = _RULES.aggregate()
PAPER = replace(_RULES, imputed=dict.fromkeys(SCORED_ZERO, 0.0)).aggregate()


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
    return [row for system, items in sorted(values.items()) for row in _steps_of_system(system, items)]


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


def _steps_of_system(system: tuple[str, str], items: Mapping[str, list[list[float | None]]]) -> list[dict[str, Any]]:
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


def published() -> list[PublishedValue]:
    """Table S1, judged by GPT-4o on 874 items."""
    levels = {"overall": (), "category": ("category",), "dimension": ("category", "dimension")}
    return published_values(__package__, levels, "paper874")


def released_scores(subset: str | None = None) -> tuple[list[AnyCase], list[Score]]:
    """What GPT-4o gave eight models on 904 items, as the paper's protocol scored it (6 digits), with cases that
    have groups but no questions: enough to table them without the dataset."""
    cases, scores = _released(subset)
    return [*cases], [*scores]


@lru_cache(maxsize=2)  # a comparison reads them once for each of its models
def _released(subset: str | None) -> tuple[list[AnyCase], list[Score]]:
    excluded = paper874_excluded() if subset == "paper874" else frozenset()
    cases: list[AnyCase] = []
    scores: list[Score] = []
    for row in csv_rows(__package__, "item_scores.csv"):
        if row["item"] in excluded:
            continue
        category, dimension = DIMENSIONS[int(row["class_id"])]
        cases.append(
            AnyCase(
                id=row["item"],
                request=Request(instruction=""),
                groups={"category": category, "dimension": dimension},
                cluster=row["item"],
                stratum=dimension,
                details=None,
            )
        )
        place = {"case": row["item"], "judge": "gpt-4o", "protocol": "paper"}
        for column, value in row.items():
            model, bar, metric = column.rpartition("|")
            if bar:
                scores.append(Score(**place, model=model, metric=metric, value=float(value)))
    return cases, scores
