"""Numbers from papers' tables: what one is, and how those of a benchmark are read from its published.csv."""

from __future__ import annotations

import csv
import tomllib
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


# Faults of a released benchmark, as its `faults.toml` lists them, with what each protocol does about them.


class Fault(Record):
    """One thing that the released code or data gets wrong, and what the two protocols do about it."""

    fault: str
    paper: str
    corrected: str


def read_faults(package: str) -> list[Fault]:
    """The faults in a package's faults.toml, in the order of the benchmark's docs page."""
    text = resources.files(package).joinpath("faults.toml").read_text("utf-8")
    return [Fault.model_validate(entry) for entry in tomllib.loads(text)["faults"]]
