"""One reply to the one score that a judge gives, in either protocol."""

from __future__ import annotations

from typing import Literal

from refbench.benchmarks.icebench.details import ICECase
from refbench.benchmarks.icebench.replies import read_corrected, read_paper
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score

ProtocolName = Literal["paper", "corrected"]


def read_scores(case: ICECase, purpose: Purpose, evidence: Evidence, *, protocol: ProtocolName) -> list[Score]:
    """Whether the judge finds that the output is what was asked for: 1 or 0."""
    value: float | Failure
    if evidence.reply is None:
        value = evidence.failure or Failure(kind="missing_reply")
    else:
        value = read_paper(evidence.reply) if protocol == "paper" else read_corrected(evidence.reply)
    return [Score.of(purpose, purpose.part, protocol, value)]
