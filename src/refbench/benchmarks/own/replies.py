"""Replies about a user's own case to measures: the contract reads, the rubric says what the readings make."""

from __future__ import annotations

from refbench.benchmarks.own.cases import OwnCase
from refbench.failure import Failure
from refbench.judges import Reading, Rubric, Text, combine
from refbench.judges.rubric import RubricPart


def measures_in(rubric: Rubric, case: OwnCase, part: RubricPart, reply: str) -> dict[str, float | Failure]:
    """Every measure of the part: a mark, the share of yes, or why there is none."""
    questions = case.details.questions if part.questions else ()
    readings = rubric.contract(part, questions).read(reply)
    if part.questions:
        return {part.questions: _share_of_yes(readings)}
    asked = [(c, weight) for c, weight in zip(part.criteria, part.weights, strict=True) if not isinstance(c.kind, Text)]
    found = {criterion.name: _mark(readings[criterion.name]) for criterion, _ in asked}
    if part.combine:
        found[part.name] = combine(part.combine, list(found.values()), [weight for _, weight in asked])
    return found


def _share_of_yes(readings: dict[str, Reading]) -> float | Failure:
    """An unread answer makes the case a failure: a share of fewer questions would be another measure."""
    unread = {name: said for name, said in readings.items() if isinstance(said, Failure)}
    if len(unread) == len(readings):
        return next(iter(unread.values()))
    if unread:
        return Failure(kind="unparsable", detail=f"no answer to {', '.join(unread)}")
    return sum(said is True for said in readings.values()) / len(readings)


def _mark(said: Reading) -> float | Failure:
    if isinstance(said, Failure):
        return said
    if said is None or isinstance(said, str):
        return Failure(kind="unparsable", detail="the judge gave no mark")
    return float(said)
