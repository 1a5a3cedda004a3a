"""Answers to scores. The paper's grading and ours differ by a list of named fixes, each of which can be
switched on alone: `corrected` is all of them, `paper` is none, and what each changes can be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from refbench.benchmarks.creval.details import CREvalCase, Metric, Question
from refbench.benchmarks.creval.replies import NOT_FOUND, Reading, read_choice, read_corrected, read_paper
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score


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


FIXES = {
    Fix.ANSWERS: "answers that the released script cannot read are read",
    Fix.REFERENCES: "references with mark-up around them count as the Yes or No they are",
    Fix.BLANKS: "empty questions are not scored",
    Fix.DUPLICATES: "the second copy of a question is not scored",
    Fix.ERRORS: "replies that failed are failures, not zeros",
    Fix.WEIGHTS: "weights that the release lost are taken from the question writer's text",
    Fix.ABSTENTIONS: "answers that are neither yes nor no leave their question out",
    Fix.UNANSWERED: "an item with an answer missing is a failure, not partly wrong",
}
ALL_FIXES = frozenset(Fix)
NO_FIXES: frozenset[Fix] = frozenset()

# What the released script gives zero points: whatever made it store an error instead of answers.
SCORED_ZERO = ("api_error", "timeout", "refused", "empty_reply", "unparsable")


Answers = Sequence[str | None]
"""What the judge said to each question: Yes or No, other words, or None (or the paper's marker) for nothing."""


def read_scores(
    case: CREvalCase, purpose: Purpose, evidence: Evidence, fixes: frozenset[Fix], protocol: str
) -> list[Score]:
    """The score of one (case, metric) as graded with the given fixes."""
    metric: Metric = purpose.part  # type: ignore[assignment]
    questions = case.details.questions[metric]
    answers = read_answers(evidence, questions, fixes)
    result = answers if isinstance(answers, Failure) else grade(questions, answers, fixes)
    return [Score.of(purpose, metric, protocol, result, () if isinstance(answers, Failure) else tuple(answers))]


def read_answers(evidence: Evidence, questions: Sequence[Question], fixes: frozenset[Fix]) -> Answers | Failure:
    """The answers in the reply, one for each question, or why there are none."""
    if evidence.reply is None:
        return evidence.failure or Failure(kind="missing_reply")
    if Fix.ANSWERS not in fixes:
        return read_paper(evidence.reply, questions)
    readings = read_corrected(evidence.reply, questions)
    return readings if isinstance(readings, Failure) else [_words(reading) for reading in readings]


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


def _words(reading: Reading) -> str | None:
    """Yes or No in one spelling; other words as they are."""
    return reading.choice.capitalize() if reading.choice else reading.said
