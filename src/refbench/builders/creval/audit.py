"""The audit: the questions asked of the unedited source, as a judge would get them for a model that did nothing.

An IF question that is answered Yes there cannot tell an edit from none; a VC question that is not answered Yes asks for
something that the original does not have.
"""

from __future__ import annotations

from collections.abc import Sequence

from refbench.benchmarks.creval.details import Metric, Question
from refbench.benchmarks.creval.replies import read_corrected
from refbench.benchmarks.creval.requests import PLACEHOLDER, own_wording, question_block
from refbench.builders.creval.item import ItemQuestion
from refbench.failure import Failure

AUDITED: tuple[Metric, ...] = ("IF", "VC")
"""Quality questions are about the edit's workmanship: of a picture without one they tell nothing."""


def audit_prompt(questions: Sequence[ItemQuestion]) -> str:
    """The words of our own rubric: the audit is a judgement of the copy that edits nothing."""
    wording = own_wording()
    return f"{wording.system}\n\n{wording.template.replace(PLACEHOLDER, question_block(_asked(questions)))}"


def read_audit(reply: str, metric: Metric, questions: Sequence[ItemQuestion]) -> tuple[bool, ...] | Failure:
    """For each question whether it is flagged; a question without an answer makes the audit be asked for again."""
    readings = read_corrected(reply, _asked(questions))
    if isinstance(readings, Failure):
        return readings
    missing = [f"Q{n}" for n, reading in enumerate(readings, 1) if reading.said is None]
    if missing:
        return Failure(kind="unparsable", detail=f"no one answer to {', '.join(missing)}")
    if metric == "IF":
        return tuple(reading.choice == "yes" for reading in readings)
    return tuple(reading.choice != "yes" for reading in readings)  # "not applicable" is no thing that could be kept


def _asked(questions: Sequence[ItemQuestion]) -> list[Question]:
    return [
        Question(id=f"Q{n}", text=one.question, choices=("Yes", "No"), reference="Yes", weight=one.weight)
        for n, one in enumerate(questions, 1)
    ]
