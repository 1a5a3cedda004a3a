"""Numbers from papers' tables: what one is, and how those of a benchmark are read from its published.csv."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib import resources

from refbench.record import Record


class PublishedValue(Record):
    """A number from a paper's table. `model` is the name in released files, None where none were released.

    `judge` is empty for what is measured without one, "human" for people; `subset` names the cases it is about, where
    the benchmark has a name for them.
    """

    model: str | None
    label: str
    judge: str
    metric: str
    slice: Mapping[str, str]
    value: float
    table: str
    subset: str | None = None


def published_values(package: str, names: Mapping[str, Sequence[str]]) -> list[PublishedValue]:
    """All numbers of a package's published.csv; `names` says which columns name a slice of each level."""
    text = resources.files(package).joinpath("published.csv").read_text("utf-8")
    return [
        PublishedValue(
            model=row.get("model") or None,
            label=row["label"],
            judge=row["judge"],
            metric=row["metric"],
            slice={"level": row["level"], **{name: row[name] for name in names[row["level"]]}},
            value=float(row["value"]),
            table=row["table"],
        )
        for row in csv.DictReader(text.splitlines())
    ]
