"""Numbers that were published, and how the averages among them follow from the cells they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from refbench.benchmarks.ideabench.aggregate import BY_GROUPS, HUMAN, PAPER, PER_CENT
from refbench.benchmarks.ideabench.details import (
    CATEGORIES,
    LISTED,
    QUESTIONS,
    Category,
    IdeaCase,
    IdeaDetails,
    Question,
)
from refbench.benchmarks.ideabench.grade import FAILURE_RATE, NO_OUTPUT, SCORE
from refbench.benchmarks.published import PublishedValue, published_values
from refbench.case import Request
from refbench.failure import Failure
from refbench.score import Score
from refbench.table import Aggregate, Row, tabulate

Cells = Mapping[tuple[str, str], float]
"""(label, column) to the printed number; what is not there was printed as a dash."""

_NAMES = {"overall": (), "category": ("category",), "group": ("category", "group")}


def published() -> list[PublishedValue]:
    """All cells with a number. No model's pictures or replies were released, so none has a `model`."""
    return published_values("refbench.benchmarks.ideabench", _NAMES)


def category_from_groups(cells: Cells, category: Category, groups: Sequence[str]) -> dict[str, float]:
    """A category of the human tables from its groups, by our aggregate of people's marks: each group is one case."""
    cases = [_case(category, group, group) for group in groups]
    return _values(_rows(HUMAN, cases, cells), BY_GROUPS, {"level": "category", "category": category})


def overall_from_categories(cells: Cells) -> dict[str, float]:
    """The overall number from five categories, by the aggregate of `paper`: each category is one case of a listed
    task, and a category without a number is one without outputs."""
    cases = [_case(name, name, name) for name in CATEGORIES]
    return _values(_rows(PAPER, cases, cells), SCORE, {"level": "overall"})


def _case(category: Category, group: str, name: str) -> IdeaCase:
    questions = tuple(Question(text="") for _ in range(QUESTIONS))
    return IdeaCase(
        id=name,
        request=Request(instruction=""),
        groups={"category": category, "group": group, "task": name},
        cluster=name,
        stratum=category,
        details=IdeaDetails(uid=min(LISTED[category]), auto=questions),
    )


def _rows(aggregate: Aggregate, cases: Sequence[IdeaCase], cells: Cells) -> list[Row]:
    absent = Failure(kind="missing_output", detail="the table has no number")
    scores = []
    for label in dict.fromkeys(label for label, _ in cells):
        for case in cases:
            printed = cells.get((label, case.id))
            state = {"failure": absent} if printed is None else {"value": printed / PER_CENT}
            place = {"case": case.id, "model": label, "protocol": "paper"}
            scores.append(Score.model_validate({**place, "metric": SCORE, **state}))
            scores.append(Score.model_validate({**place, "metric": FAILURE_RATE, "not_applicable": NO_OUTPUT}))
    return tabulate("paper", aggregate, scores, cases, draws=0)


def _values(rows: Iterable[Row], metric: str, where: Mapping[str, str]) -> dict[str, float]:
    mine = (row for row in rows if row.metric == metric and dict(row.slice) == dict(where))
    return {row.model: row.value for row in mine if row.value is not None}
