"""The list of outputs that people are asked to rate, with the chance that each had of being on it: written by
`refbench sample`, read by `refbench correct`."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from refbench.analysis.agree.people import columns_by_kind, filled_rows
from refbench.record import Record, RefBenchError
from refbench.text.console import csv_cell


class Place(NamedTuple):
    """A model's output for a case; without a seed, all its pictures of the case."""

    case: str
    model: str
    seed: int | None


class SampledOutput(Record):
    """One output on the list. `picture` is where it lies, from the directory that the list was made in; of several
    pictures the first."""

    case: str
    model: str
    seed: int
    probability: float
    stratum: str
    picture: str

    @property
    def place(self) -> Place:
        return Place(self.case, self.model, self.seed)


class Chance(NamedTuple):
    """Of being asked about, and the stratum it was drawn in."""

    probability: float
    stratum: str


@dataclass(frozen=True)
class DrawnList:
    """What was drawn for people to rate, whether or not they have done so."""

    chances: Mapping[Place, Chance]

    def rated(self, places: Collection[Place]) -> tuple[DrawnList, int]:
        """The list with the chances of what came back, and how many outputs did not: those that did stand for them, in
        their model and stratum."""
        drawn = Counter((place.model, chance.stratum) for place, chance in self.chances.items())
        back = Counter((place.model, chance.stratum) for place, chance in self.chances.items() if place in places)
        kept = {}
        for place, chance in self.chances.items():
            where = place.model, chance.stratum
            if back[where]:
                kept[place] = chance._replace(probability=chance.probability * back[where] / drawn[where])
        return DrawnList(kept), drawn.total() - back.total()


def list_csv(outputs: Sequence[SampledOutput]) -> str:
    """The list as CSV: a column `score` (and `rater`) beside it makes it a file that `correct --humans` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(SampledOutput.model_fields)
    writer.writerow(names)
    for output in outputs:
        writer.writerow([csv_cell(getattr(output, name)) for name in names])
    return text.getvalue()


def without_marks(path: Path) -> bool:
    """Whether a file is a list as `list_csv` writes it to which nobody has added anything but empty columns."""
    names = list(SampledOutput.model_fields)
    try:
        rows = filled_rows(path)
    except RefBenchError:
        return False
    return set(names) <= set(rows[0][1]) and not any(
        cell for _, cells in rows for name, cell in cells.items() if name not in names
    )


def read_list(path: Path, option: str) -> DrawnList | None:
    """The list in a CSV file, or the one that is in the columns of a file of people's scores; None where it has no
    column of probabilities."""
    rows = filled_rows(path)
    kinds = columns_by_kind(list(rows[0][1]))
    if "probability" not in kinds:
        return None
    lacking = [kind for kind in ("case", "model") if kind not in kinds]
    if lacking:
        raise RefBenchError(f"{option} {path}: it has no column {lacking[0]}; give the list that refbench sample wrote")
    stratum = next((name for name in rows[0][1] if name.casefold() == "stratum"), None)
    chances: dict[Place, Chance] = {}
    for line, cells in rows:
        seed = cells[kinds["repeat"]] if names_seeds(list(cells)) else ""
        place = Place(cells[kinds["case"]], cells[kinds["model"]], _seed(path, line, seed))
        chance = Chance(_probability(path, line, cells[kinds["probability"]]), cells[stratum] if stratum else "")
        if chances.setdefault(place, chance) != chance:
            raise RefBenchError(
                f"{path}, line {line}: {place.case} of {place.model} has another probability than before"
            )
    return DrawnList(chances)


def names_seeds(columns: Sequence[str]) -> bool:
    """Whether a file says which of a model's pictures a mark is about."""
    return columns_by_kind(columns).get("repeat", "").casefold() == "seed"


def _seed(path: Path, line: int, text: str) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise RefBenchError(f"{path}, line {line}: seed is {text[:40]!r}, not a whole number") from None


def _probability(path: Path, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise RefBenchError(f"{path}, line {line}: probability is {text[:40]!r}; it is more than 0 and at most 1")
    return value
