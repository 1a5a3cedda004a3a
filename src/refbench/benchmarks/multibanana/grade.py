"""One reply to five scores, in either protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from refbench.benchmarks.multibanana.details import CRITERIA, Criterion
from refbench.benchmarks.multibanana.replies import Mark, read_corrected, read_paper
from refbench.case import AnyCase
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score

ProtocolName = Literal["paper", "corrected"]

PART = "all"
"""One call gives all five marks."""


def read_scores(case: AnyCase, purpose: Purpose, evidence: Evidence, *, protocol: ProtocolName) -> list[Score]:
    """A score for each criterion, each in a state of its own."""
    marks = read_marks(evidence, protocol)
    return [Score.of(purpose, criterion, protocol, mark) for criterion, mark in marks.items()]


def read_marks(evidence: Evidence, protocol: ProtocolName) -> Mapping[Criterion, Mark]:
    """The marks in the reply; in `paper` a reply that lacks one of them has none."""
    if evidence.reply is None:
        return dict.fromkeys(CRITERIA, evidence.failure or Failure(kind="missing_reply"))
    if protocol == "corrected":
        return read_corrected(evidence.reply)
    marks = read_paper(evidence.reply)
    return dict.fromkeys(CRITERIA, marks) if isinstance(marks, Failure) else marks
