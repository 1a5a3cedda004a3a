"""What stands beside a table: numbers from papers (published.csv), faults of the release (faults.toml), and how often a
judge failed to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from refbench.benchmarks.kit.rows import csv_rows, toml_data
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


def table_said(table: str) -> str:
    """A table by its number, `Table S1`, or what else numbers were printed in as it is called: `project page`."""
    numbered = " " not in table and any(character.isdigit() for character in table)
    return f"Table {table}" if numbered else table


def published_values(
    package: str, names: Mapping[str, Sequence[str]], subset: str | None = None, file: str = "published.csv"
) -> list[PublishedValue]:
    """All numbers of a package's file; `names` says which columns name a slice of each level."""
    levels = tuple((level, tuple(columns)) for level, columns in names.items())
    return [*_published_values(package, levels, subset, file)]


@cache
def _published_values(
    package: str, levels: tuple[tuple[str, tuple[str, ...]], ...], subset: str | None, file: str
) -> tuple[PublishedValue, ...]:
    names = dict(levels)
    return tuple(
        PublishedValue(
            model=row.get("model") or None,
            label=row["label"],
            judge=row["judge"],
            metric=row["metric"],
            slice={"level": row["level"], **{name: row[name] for name in names[row["level"]]}},
            value=float(row["value"]),
            table=row["table"],
            subset=subset,
        )
        for row in csv_rows(package, file)
    )


_COLUMNS = frozenset({"model", "label", "judge", "metric", "level", "value", "table"})


def published_rows(package: str) -> list[PublishedValue]:
    """All numbers of a package's published.csv; its further columns name the slice, where they are not empty."""
    return [
        PublishedValue(
            model=row.get("model") or None,
            label=row["label"],
            judge=row["judge"],
            metric=row["metric"],
            slice={"level": row["level"], **{name: row[name] for name in row if name not in _COLUMNS and row[name]}},
            value=float(row["value"]),
            table=row["table"],
        )
        for row in csv_rows(package, "published.csv")
    ]


class Fault(Record):
    """One thing that the released code or data gets wrong, and what the two protocols do about it."""

    fault: str
    paper: str
    corrected: str


def read_faults(package: str) -> list[Fault]:
    """The faults in a package's faults.toml, in the order of the benchmark's docs page."""
    return [Fault.model_validate(entry) for entry in toml_data(package, "faults.toml")["faults"]]


class FailureRate(Record):
    """Of so many questions that a judge was asked, those that it gave no usable answer to."""

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


TOTAL = "Total"
"""The model of a row over all models."""


def with_totals(rows: Sequence[FailureRate]) -> list[FailureRate]:
    """The rows of each judge, then the total of that judge."""
    found = []
    for judge in dict.fromkeys(row.judge for row in rows):
        mine = [row for row in rows if row.judge == judge]
        sums = {name: sum(getattr(row, name) for row in mine) for name in ("questions", "failed", "open")}
        found += [*mine, FailureRate(judge=judge, model=TOTAL, **sums)]
    return found
