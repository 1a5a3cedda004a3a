"""Where people marked clean outputs too: the judge's marks on people's scale, and how far off they may be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from refbench.analysis.audit.estimates import mean_over_cases
from refbench.analysis.audit.marks import Criterion, Marks
from refbench.analysis.audit.records import WithPeople
from refbench.stats import Array, mean_of_those_there
from refbench.stats.isotonic import conformal_width, isotonic_map, out_of_fold

FEWEST_RATED = 20
"""Cases with people's marks below which nothing is fitted."""


class PeopleMark(NamedTuple):
    """People's mean mark of a clean output, on the criterion's scale and in its direction."""

    case: str
    criterion: str
    mark: float
    model: str = ""


def with_people(marks: Marks, people: Iterable[PeopleMark]) -> list[WithPeople]:
    """One row for each criterion that people marked on 20 cases or more."""
    by_criterion: dict[str, dict[tuple[str, str], float]] = {}
    for one in people:
        by_criterion.setdefault(one.criterion, {})[one.case, one.model] = one.mark
    return [
        row
        for criterion in marks.criteria
        if (row := _row(marks, criterion, by_criterion.get(criterion.name, {}))) is not None
    ]


def _row(marks: Marks, criterion: Criterion, people: dict[tuple[str, str], float]) -> WithPeople | None:
    merit = mean_of_those_there(marks.clean(criterion.name), axis=1)
    judge = criterion.low + merit if criterion.better == "higher" else criterion.high - merit
    theirs = np.array([people.get(output, np.nan) for output in marks.outputs])
    both = np.isfinite(judge) & np.isfinite(theirs)
    if len(np.unique(marks.case[both])) < FEWEST_RATED:
        return None
    x, y, case = judge[both], theirs[both], marks.case[both]
    residuals: Array = y - out_of_fold(x, y, case)
    levels, values = isotonic_map(x, y)
    return WithPeople(
        criterion=criterion.name,
        n=int(both.sum()),
        before=mean_over_cases(np.abs(y - x), case).figure(),
        after=mean_over_cases(np.abs(residuals), case).figure(),
        half_width=conformal_width(residuals),
        map=tuple(zip(levels.tolist(), values.tolist(), strict=True)),
    )
