"""The table of the judge's failures, in the shape of the paper's Table 11: questions, failed ones and their share for
each judge and model, and over all models.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from refbench.benchmarks.ideabench.details import PARTS
from refbench.benchmarks.ideabench.grade import failed_question
from refbench.record import Record
from refbench.score import Score

TOTAL = "Total"


class FailureRate(Record):
    """Of so many questions that were asked, those of which none of the three replies was 0 or 1."""

    judge: str
    model: str
    questions: int
    failed: int
    open: int = 0
    """Questions that nobody can call failed yet: not asked so far, or the endpoint could not be reached."""

    @property
    def rate(self) -> float | None:
        """In per cent; None where nothing was asked."""
        return 100 * self.failed / self.questions if self.questions else None


def failure_table(scores: Iterable[Score], protocol: str = "paper") -> list[FailureRate]:
    """A row for each judge and model, then the total of the judge."""
    replies: dict[tuple[str, str, str, int, int], list[Score]] = defaultdict(list)
    for score in scores:
        if score.protocol == protocol and score.metric in PARTS and score.judge and score.not_applicable is None:
            question, _ = PARTS[score.metric]
            replies[score.judge, score.model, score.case, score.seed, question].append(score)
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for (judge, model, *_), said in replies.items():
        state = failed_question(said)
        if state is not None:
            place = counts[judge, model]
            place[0] += isinstance(state, bool)
            place[1] += state is True
            place[2] += not isinstance(state, bool)
    rows = [
        FailureRate(judge=judge, model=model, questions=asked, failed=failed, open=undecided)
        for (judge, model), (asked, failed, undecided) in counts.items()
    ]
    return [row for judge in dict.fromkeys(row.judge for row in rows) for row in _with_total(judge, rows)]


def _with_total(judge: str, rows: Sequence[FailureRate]) -> list[FailureRate]:
    mine = [row for row in rows if row.judge == judge]
    sums = {name: sum(getattr(row, name) for row in mine) for name in ("questions", "failed", "open")}
    return [*mine, FailureRate(judge=judge, model=TOTAL, **sums)]
