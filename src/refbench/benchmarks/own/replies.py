"""Replies about a user's own case to measures: the contract reads, the rubric says what the readings make."""

from __future__ import annotations

from refbench.benchmarks.own.cases import OwnCase
from refbench.failure import Failure
from refbench.judges import Rubric, combine
from refbench.judges.rubric import RubricPart


def measures_in(rubric: Rubric, case: OwnCase, part: RubricPart, reply: str) -> dict[str, float | Failure]:
    """Every measure of the part: a mark, the share of yes, or why there is none."""
    questions = case.details.questions if part.questions else ()
    marks = rubric.contract(part, questions).marks(reply)
    if part.questions:
        return {part.questions: _share_of_yes(marks)}
    if part.combine:
        weights = {c.name: weight for c, weight in zip(part.criteria, part.weights, strict=True)}
        marks[part.name] = combine(part.combine, list(marks.values()), [weights[name] for name in marks])
    return marks


def _share_of_yes(answers: dict[str, float | Failure]) -> float | Failure:
    """An unread answer makes the case a failure: a share of fewer questions would be another measure."""
    unread = {name: answer for name, answer in answers.items() if isinstance(answer, Failure)}
    if len(unread) == len(answers):
        return next(iter(unread.values()))
    if unread:
        return Failure(kind="unparsable", detail=f"no answer to {', '.join(unread)}")
    return sum(answer == 1 for answer in answers.values()) / len(answers)
