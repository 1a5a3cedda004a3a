"""Numbers that were published: the metric means of the paper's Tables 3 to 8, and the scores that follow from them.

The paper prints no task score; those are our `paper` aggregate on its means.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources

from refbench.benchmarks.icebench.aggregate import PAPER, SCORE
from refbench.benchmarks.icebench.details import ICECase, ICEDetails
from refbench.benchmarks.icebench.load import groups_of
from refbench.benchmarks.icebench.tasks import PARTS, QA, TASKS
from refbench.benchmarks.published import PublishedValue
from refbench.case import Request
from refbench.failure import Failure
from refbench.score import Score
from refbench.table import tabulate

DERIVED = "3-8 by the released formulas"
_JUDGE = "Qwen2-VL-72B"
_SIMILARITIES = frozenset({"l1_pose", "l1_canny", "l1_depth", "l1_colorize"})
"""Printed as distances, stored by the released code, and tabled here, as 1 - L1."""


def published() -> list[PublishedValue]:
    """Every printed mean, and the task and overall scores derived from them. No model's files were released."""
    return [*printed(), *derived()]


@lru_cache(maxsize=1)
def printed() -> tuple[PublishedValue, ...]:
    """The cells of Tables 3 to 8, by the name of their task: Table 8 swaps the numbers 21 and 22."""
    text = resources.files("refbench.benchmarks.icebench").joinpath("published.csv").read_text("utf-8")
    return tuple(
        PublishedValue(
            model=None,
            label=row["model"],
            judge=row["judge"],
            metric=row["metric"],
            slice={"level": "task", "number": str(TASKS[row["task"]].number), "task": row["task"]},
            value=round(1 - float(row["value"]), 6) if row["metric"] in _SIMILARITIES else float(row["value"]),
            table=row["table"],
        )
        for row in csv.DictReader(text.splitlines())
    )


@lru_cache(maxsize=1)
def derived() -> tuple[PublishedValue, ...]:
    """Scores of every task and overall, by the aggregate of `paper`, to the four decimals that the means allow."""
    return tuple(
        PublishedValue(
            model=None,
            label=row.model,
            # A score is the judge's too wherever its answers are a part of it.
            judge=_JUDGE if row.slice["level"] == "overall" or QA in TASKS[row.slice["task"]].scored else "",
            metric=SCORE,
            slice=row.slice,
            value=round(row.value, 4),
            table=DERIVED,
        )
        for row in tabulate("paper", PAPER, _scores(printed()), _cases(), draws=0)
        if row.metric == SCORE and row.value is not None and row.slice["level"] in ("overall", "task")
    )


def _cases() -> list[ICECase]:
    """One case for each task, whose scores are the task's means."""
    details = ICEDetails()
    return [
        ICECase(
            id=name,
            request=Request(instruction=""),
            groups=groups_of(task, details),
            cluster=name,
            stratum=name,
            details=details,
        )
        for name, task in TASKS.items()
    ]


def _scores(values: Sequence[PublishedValue]) -> list[Score]:
    cells = {(value.label, value.slice["task"], value.metric): value.value for value in values}
    found = []
    for label in dict.fromkeys(value.label for value in values):
        for name, task in TASKS.items():
            for part in PARTS:
                value = cells.get((label, name, part))
                absent = Failure(kind="missing_output", detail="the tables have no number")
                applies = part in task.parts
                found.append(
                    Score(
                        case=name,
                        model=label,
                        metric=part,
                        protocol="paper",
                        value=value if applies else None,
                        failure=absent if applies and value is None else None,
                        not_applicable=None if applies else f"no part of {name}",
                    )
                )
    return found
