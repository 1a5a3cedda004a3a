"""Answers to scores: the gates of one call, the mean of the three calls, and which questions failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from refbench.benchmarks.benchmark import Derived
from refbench.benchmarks.ideabench.details import CALLS, PARTS, QUESTIONS, IdeaCase, part
from refbench.benchmarks.ideabench.replies import read_corrected, read_paper
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score

ProtocolName = Literal["paper", "corrected"]

SCORE, FAILURE_RATE = "score", "failure_rate"
NO_QUESTIONS = "the case has no six questions for a judge"
NO_OUTPUT = "there was no output to ask about"
NEVER_ASKED = frozenset({"missing_output", "undefined"})
"""Failures of the model under test, not of the judge: no question was put."""


def read_scores(case: IdeaCase, purpose: Purpose, evidence: Evidence, *, protocol: ProtocolName) -> list[Score]:
    """The answer to one question in one call."""
    if purpose.part not in PARTS:
        return []
    if evidence.reply is None:
        said: float | Failure = evidence.failure or Failure(kind="missing_reply")
    else:
        said = read_paper(evidence.reply) if protocol == "paper" else read_corrected(evidence.reply)
    return [Score.of(purpose, purpose.part, protocol, said)]


def gated(answers: Sequence[float | None]) -> list[float | None]:
    """The six answers of one call behind the gates; None where an answer is missing and counts.

    Unless the first two are both earned, the other four count as 0; unless the next two are, so do the last two.
    A gate that a missing answer leaves open or shut, nobody knows, makes what is behind it unknown.
    """
    first, second, third = answers[:2], answers[2:4], answers[4:]
    opened = _opens(first)
    second = _behind(opened, second)
    opened = False if opened is False else _opens(second) if opened else None
    return [*first, *second, *_behind(opened, third)]


def _opens(answers: Sequence[float | None]) -> bool | None:
    if any(answer == 0 for answer in answers):
        return False
    return None if None in answers else True


def _behind(opened: bool | None, answers: Sequence[float | None]) -> list[float | None]:
    if opened is None:
        return [None] * len(answers)
    return list(answers) if opened else [0.0] * len(answers)


def call_score(answers: Sequence[float | None], protocol: ProtocolName) -> float | None:
    """A sixth of the sum behind the gates. In `paper` all six answers must be there, as the released scorer wants;
    in `corrected` only those that count: what is behind a shut gate is 0 whatever the judge said."""
    if protocol == "paper" and None in answers:
        return None
    counted = [answer for answer in gated(answers) if answer is not None]
    return sum(counted) / QUESTIONS if len(counted) == QUESTIONS else None


def derived(case: IdeaCase, protocol: str, scores: Mapping[str, Score]) -> dict[str, Derived]:
    """The case's score, the mean of the calls that have one, and its share of questions that no call answered."""
    if not case.details.judged:
        return {}
    name: ProtocolName = "paper" if protocol == "paper" else "corrected"
    calls = [[scores[part(q, call)] for q in range(1, QUESTIONS + 1)] for call in range(1, CALLS + 1)]
    answers = [score for call in calls for score in call]
    if any(answer.not_asked for answer in answers):
        return {SCORE: None, FAILURE_RATE: None}
    values = [call_score([score.value for score in call], name) for call in calls]
    known = [value for value in values if value is not None]
    return {SCORE: sum(known) / len(known) if known else _why(answers), FAILURE_RATE: failure_share(calls)}


def _why(answers: Sequence[Score]) -> Failure | str:
    """Why no call has a score: the judge's first failure, or, where no question concerns the model, why not.

    `missing_output`, which `paper` makes a 0, is kept for cases without any picture: of an incomplete set some
    questions were answered, and the released scorer refuses it.
    """
    failures = [score.failure for score in answers if score.failure is not None]
    if not failures:
        return next((score.not_applicable for score in answers if score.not_applicable is not None), NO_OUTPUT)
    others = [failure for failure in failures if failure.kind not in NEVER_ASKED]
    if others or len(failures) == len(answers):
        return (others or failures)[0]
    return Failure(kind="missing_reply", detail=f"not every question could be asked: {failures[0].detail}")


def failure_share(calls: Sequence[Sequence[Score]]) -> float | Failure | str:
    """Table 11: of the six questions, those of which no reply was 0 or 1; a text where none could be asked."""
    states = [failed_question(question) for question in zip(*calls, strict=True)]
    if open_still := [state for state in states if isinstance(state, Failure)]:
        return open_still[0]
    asked = [state for state in states if isinstance(state, bool)]
    if asked:
        return sum(asked) / len(asked)
    return next((score.not_applicable for call in calls for score in call if score.not_applicable), NO_OUTPUT)


def failed_question(replies: Sequence[Score]) -> bool | Failure | Literal["to be asked"] | None:
    """Whether no reply was 0 or 1; None where it could not be asked, a Failure where that is not settled yet."""
    if any(reply.value in (0.0, 1.0) for reply in replies):
        return False
    if any(reply.not_asked for reply in replies):
        return "to be asked"
    concerned = [reply for reply in replies if reply.not_applicable is None]
    failures = [reply.failure for reply in concerned if reply.failure is not None]
    if not concerned or (failures and all(f.kind in NEVER_ASKED or f.by_model for f in failures)):
        return None
    # An endpoint that could not be reached has not failed to answer: the next run asks again.
    return next((failure for failure in failures if failure.transient), True)


def not_applicable(case: IdeaCase) -> dict[str, str]:
    """Nothing concerns a case that has questions for people only."""
    return {} if case.details.judged else dict.fromkeys((*PARTS, SCORE, FAILURE_RATE), NO_QUESTIONS)
