"""Dataset: the cases read from one place on disk, and what is odd about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from refbench.case import AnyCase, Picture
from refbench.record import Record


class Anomaly(Record):
    """One oddity of the data, where it is. What its kind does to scores is the benchmark's `anomaly_kinds`."""

    kind: str
    case: str
    part: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Dataset:
    """Cases with the directory their pictures lie in. Pictures are opened when they are needed, not before."""

    benchmark: str
    root: Path
    picture_root: Path
    cases: tuple[AnyCase, ...]
    subset: str | None = None
    outside: frozenset[str] = frozenset()
    """Ids of the cases that the data has and the subset has not."""

    def path(self, picture: Picture) -> Path:
        return self.picture_root / picture.name

    def by_id(self) -> Mapping[str, AnyCase]:
        return {case.id: case for case in self.cases}
