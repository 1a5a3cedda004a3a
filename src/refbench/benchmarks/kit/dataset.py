"""Dataset: the cases read from one place on disk, and what is odd about them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.case import AnyCase, Picture
from refbench.failure import Failure
from refbench.pictures import read_facts
from refbench.record import Record, RefBenchError

PICTURE_ANOMALIES = {
    "missing_picture": "the picture is not there: the case cannot be run",
    "unreadable_picture": "the picture cannot be read: the case cannot be run",
}


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
    """The names of pictures in the cases start from here."""
    cases: tuple[AnyCase, ...]
    subset: str | None = None
    outside: frozenset[str] = frozenset()
    """Ids of cases that are in the data but not in the subset."""

    def path(self, picture: Picture) -> Path:
        return self.picture_root / picture.name

    def by_id(self) -> Mapping[str, AnyCase]:
        return {case.id: case for case in self.cases}

    def lacking(self, cases: Sequence[AnyCase] | None = None) -> str:
        """Which of the cases have a picture that is not there, in words; empty when all are."""
        chosen = self.cases if cases is None else cases
        gone = {
            case.id: picture.name
            for case in chosen
            for picture in reversed((*case.request.pictures, *case.targets))
            if not self.path(picture).is_file()
        }
        return unjudged({case: f"{name} is not there" for case, name in gone.items()})


def check_subset(title: str, subset: str | None, subsets: Iterable[str] = ()) -> None:
    """Raises where a benchmark has no such subset."""
    there = tuple(subsets)
    if subset is not None and subset not in there:
        names = f"the subsets {', '.join(there)}" if there else "no subsets"
        raise RefBenchError(f"--subset {subset}: {title} has {names}")


def folders_in(place: Path) -> list[str]:
    """The names of the folders in a directory, hidden ones left out; none where there is no directory."""
    try:
        with os.scandir(place) as entries:
            return sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RefBenchError(f"{place} cannot be read: {error.strerror}") from error


def ordered_counts(values: Iterable[str], order: Iterable[str] | None = None) -> dict[str, int]:
    """How often each value is there, in the order given or else sorted, numbers by size; zeros are left out."""
    counts = Counter(values)
    by_size = sorted(counts, key=lambda value: (int(value) if value.isdecimal() else 0, value))
    return {name: counts[name] for name in (by_size if order is None else order) if counts[name]}


def unjudged(why: Mapping[str, str]) -> str:
    """A sentence about cases that cannot be judged for what is wrong with their own pictures."""
    if not why:
        return ""
    case, reason = next(iter(why.items()))
    if len(why) == 1:
        return f"1 case cannot be judged: of {case}, the picture {reason}"
    return f"{len(why)} cases cannot be judged for their own pictures: of {case}, {reason}, and {len(why) - 1} more"


def picture_anomalies(dataset: Dataset) -> list[Anomaly]:
    """Pictures that are not there or cannot be read, in the order of the cases."""
    found = []
    for case in dataset.cases:
        for picture in (*case.request.pictures, *case.targets):
            path = dataset.path(picture)
            if not path.is_file():
                found.append(Anomaly(kind="missing_picture", case=case.id, part=picture.role, detail=picture.name))
            elif isinstance(facts := read_facts(path), Failure):
                detail = f"{picture.name}: {facts.detail}"
                found.append(Anomaly(kind="unreadable_picture", case=case.id, part=picture.role, detail=detail))
    return found
