"""Numbers that were published: the paper's Table S1, and the released item scores of eight models."""

from __future__ import annotations

import csv
from importlib import resources

from refbench.benchmarks.creval.details import DIMENSIONS
from refbench.benchmarks.creval.load import paper874_excluded
from refbench.benchmarks.published import PublishedValue
from refbench.case import AnyCase, Request
from refbench.score import Score


def published() -> list[PublishedValue]:
    """Table S1, judged by GPT-4o on 874 items."""
    found = []
    for row in _rows("published.csv"):
        names = {level: row[level] for level in ("category", "dimension") if row[level]}
        found.append(
            PublishedValue(
                model=row["model"] or None,
                label=row["label"],
                judge=row["judge"],
                metric=row["metric"],
                slice={"level": row["level"], **names},
                value=float(row["value"]),
                table=row["table"],
                subset="paper874",
            )
        )
    return found


def released_scores(subset: str | None = None) -> tuple[list[AnyCase], list[Score]]:
    """What GPT-4o gave eight models on 904 items, as the paper's protocol scored it (6 digits), with cases that
    have groups but no questions: enough to table them without the dataset."""
    excluded = paper874_excluded() if subset == "paper874" else frozenset()
    cases: list[AnyCase] = []
    scores: list[Score] = []
    for row in _rows("item_scores.csv"):
        if row["item"] in excluded:
            continue
        category, dimension = DIMENSIONS[int(row["class_id"])]
        cases.append(
            AnyCase(
                id=row["item"],
                request=Request(instruction=""),
                groups={"category": category, "dimension": dimension},
                cluster=row["item"],
                stratum=dimension,
                details=None,
            )
        )
        for column, value in row.items():
            model, bar, metric = column.rpartition("|")
            if bar:
                scores.append(
                    Score(
                        case=row["item"],
                        model=model,
                        judge="gpt-4o",
                        metric=metric,
                        protocol="paper",
                        value=float(value),
                    )
                )
    return cases, scores


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("refbench.benchmarks.creval").joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
