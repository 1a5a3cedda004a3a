"""One reply to scores: three marks for the output as a whole, or one for the references of each type."""

from __future__ import annotations

from typing import Literal

from refbench.benchmarks.multiref.details import AXES, MultiRefCase
from refbench.benchmarks.multiref.measures import JUDGEABLE, judged
from refbench.benchmarks.multiref.replies import asked_types, read_overall, read_references
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score

OVERALL_PART, REFERENCES_PART = "overall", "references"


def read_scores(
    case: MultiRefCase, purpose: Purpose, evidence: Evidence, *, protocol: Literal["paper", "corrected"]
) -> list[Score]:
    """A score for every mark that the reply was asked for."""
    found: dict[str, float | Failure | str]
    lost = evidence.failure or Failure(kind="missing_reply")
    if purpose.part == OVERALL_PART:
        found = {**(dict.fromkeys(AXES, lost) if evidence.reply is None else read_overall(evidence.reply))}
    elif purpose.part == REFERENCES_PART:
        usable = [kind for kind in JUDGEABLE if any(r.usable for r in case.details.of_type(kind))]
        asked = asked_types(evidence.request, usable)
        marks = read_references(evidence.reply, asked) if evidence.reply is not None and asked else {}
        found = {judged(kind): marks.get(judged(kind), lost) for kind in asked}
        found |= {judged(kind): "the judge was not asked about it" for kind in usable if kind not in asked}
    else:
        found = {}
    return [Score.of(purpose, metric, protocol, mark) for metric, mark in found.items()]
