"""The table of a paper before it is written in any language: columns, blocks of rows (by open and closed weights, and
what papers have printed), and which cells are marked.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Literal

from refbench.benchmarks import PublishedValue
from refbench.record import RefBenchError
from refbench.report.leaderboard import Line, leaderboard, remarks, titled_slices
from refbench.score import digits_of
from refbench.tables.result import Result
from refbench.tables.table import OVERALL, Row, ranked

Kind = Literal["open", "closed"]
Measures = Literal["summary", "all"]
Mark = Literal["best", "second", ""]
Place = tuple[str, str, tuple[tuple[str, str], ...]]
"""Protocol, metric and slice."""

UNRANKED = frozenset({"fid"})
"""Neither more nor less of it is better: what MultiRef-Bench calls FID is a number of single pictures."""


@dataclass(frozen=True)
class Openness:
    """Open or closed weights, by what the user says and by a list of families; what neither knows stays unknown."""

    open: Sequence[str] = ()
    closed: Sequence[str] = ()

    def __post_init__(self) -> None:
        both = sorted({*self.open} & {*self.closed})
        if both:
            raise RefBenchError(f"--open {both[0]} and --closed {both[0]}: a model is one of them")

    def check(self, names: Sequence[str]) -> None:
        """A name that is in no row is a mistake in typing."""
        for option, given in (("--open", self.open), ("--closed", self.closed)):
            for name in given:
                if name not in names:
                    raise RefBenchError(f"{option} {name}: the table has {', '.join(dict.fromkeys(names))}")

    def of(self, name: str) -> tuple[Kind | None, str]:
        """Open, closed or unknown, and by what: the user's word or the family's name."""
        if name in self.open:
            return "open", "--open"
        if name in self.closed:
            return "closed", "--closed"
        return family_openness(name)


def family_openness(name: str) -> tuple[Kind | None, str]:
    """By the longest family that the name begins with. A name of several models (A + B) needs all to be alike."""
    found = [_of_part(part) for part in re.split(r"\s*\+\s+|\s+\+\s*|(?<=\w)\+(?=\w)", name) if part.strip()]
    kinds = {kind for kind, _ in found}
    if len(kinds) != 1 or kinds == {None}:
        return None, ""
    return found[0][0], " + ".join(family for _, family in found)


def _of_part(name: str) -> tuple[Kind | None, str]:
    plain = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
    families = [family for family in _families() if _begins(plain, family)]
    if not families:
        return None, ""
    longest = max(families, key=len)
    return _families()[longest], longest


def _begins(name: str, family: str) -> bool:
    rest = name.removeprefix(family)
    if rest == name:
        return False
    return not rest or (not rest[0].isalpha() and not (rest[0].isdigit() and family[-1].isdigit()))


@lru_cache(maxsize=1)
def _families() -> Mapping[str, Kind]:
    kinds = tomllib.loads(resources.files("refbench.report.latex").joinpath("openness.toml").read_text("utf-8"))
    return {**dict.fromkeys(kinds["open"], "open"), **dict.fromkeys(kinds["closed"], "closed")}


@dataclass(frozen=True)
class Column:
    """One measure on one slice under one protocol."""

    title: str
    metric: str
    protocol: str
    where: Mapping[str, str]
    lower: bool
    summary: bool
    """Whether it is the measure that the table is about; such cells have intervals."""
    group: str = ""
    """What stands above it and its neighbours: the slice, where each measure has a column on it."""

    @property
    def whole(self) -> bool:
        """Whether it is the number of all cases that the table is about."""
        return self.summary and dict(self.where) == OVERALL

    @property
    def place(self) -> Place:
        return self.protocol, self.metric, tuple(sorted(self.where.items()))


@dataclass(frozen=True)
class Cell:
    """A number of the table: the row it comes from, or the one that a paper prints."""

    value: float | None
    row: Row | None = None
    mark: Mark = ""


@dataclass(frozen=True)
class Entry:
    """One line of the table. `printed` names the table of the paper that it comes from; empty for our own. `differs`
    says what it was measured with that ours were not."""

    name: str
    judge: str
    cells: tuple[Cell, ...]
    main: Row | None = None
    printed: str = ""
    differs: str = ""


@dataclass(frozen=True)
class Block:
    """Rows that belong together: open models, closed ones, those of which neither is known, printed ones (by what
    differs)."""

    name: Literal["open", "closed", "models", "published"]
    entries: tuple[Entry, ...]

    @property
    def differs(self) -> str:
        return self.entries[0].differs


@dataclass(frozen=True)
class PaperTable:
    """All that a table for a paper says."""

    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    known_by: Mapping[str, str]
    """For each model in the open or closed block: the option or family that put it there."""

    @property
    def entries(self) -> list[Entry]:
        return [entry for block in self.blocks for entry in block.entries]

    def digits(self, column: int) -> int:
        """Of the numbers in a column, whoever's they are."""
        return digits_of(entry.cells[column].value for entry in self.entries)


def paper_table(
    result: Result,
    *,
    by: str = "overall",
    published: Literal["run", "all", "none"] = "run",
    openness: Openness,
    measures: Measures = "summary",
) -> PaperTable:
    """Measures across for the whole, or (`by` a level) the summary measure, or every one, on each of its slices."""
    lines = leaderboard(result, {"level": "overall"})
    if not lines:
        raise RefBenchError("there is no overall number yet: nothing to make a table of")
    if measures == "all" and by == "overall":
        raise RefBenchError("--measures all is about the slices of a level: add --by category, for example")
    columns = _columns(result, lines, by, measures)
    rows = {
        (row.model, row.judge, row.protocol, row.metric, tuple(sorted(row.slice.items()))): row
        for row in result.table.rows
    }
    ours = []
    for line in lines:
        found = [rows.get((line.model, line.judge, *column.place)) for column in columns]
        cells = tuple(Cell(row.value if row else None, row) for row in found)
        ours.append(Entry(line.model, line.judge or "", cells, main=line.main))
    printed = _printed(result, columns, published)
    digits = [digits_of(entry.cells[c].value for entry in (*ours, *printed)) for c in range(len(columns))]
    ours = _marked(ours, columns, digits)
    openness.check([entry.name for entry in ours])
    known = {entry.name: openness.of(entry.name) for entry in ours}
    blocks = [
        Block(name, tuple(entry for entry in ours if (known[entry.name][0] or "models") == name))
        for name in ("closed", "open", "models")
    ]
    blocks += [
        Block("published", tuple(entry for entry in printed if entry.differs == differs))
        for differs in sorted({entry.differs for entry in printed})
    ]
    return PaperTable(
        columns=columns,
        blocks=tuple(block for block in blocks if block.entries),
        known_by={name: by_what for name, (kind, by_what) in known.items() if kind},
    )


def _columns(result: Result, lines: Sequence[Line], by: str, measures: Measures) -> tuple[Column, ...]:
    main = lines[0].main
    lower = result.bench.scoring.lower

    def column(title: str, metric: str, protocol: str, where: Mapping[str, str]) -> Column:
        return Column(title, metric, protocol, where, metric in lower, metric == main.metric)

    overall = OVERALL
    whole = column(main.metric, main.metric, main.protocol, overall)
    protocols = dict.fromkeys(row.protocol for line in lines for row in line.other_protocols)
    others = [column(f"{main.metric} ({name})", main.metric, name, overall) for name in protocols]
    if by == "overall":
        names = dict.fromkeys(row.metric for line in lines for row in line.others)
        return (*(column(name, name, main.protocol, overall) for name in names), whole, *others)
    levels = list(dict.fromkeys(row.slice["level"] for row in result.table.rows))
    if by not in levels:
        raise RefBenchError(f"--by {by}: this table has the levels {', '.join(levels)}")
    # Not the same slices for every measure: MultiRef-Bench has no types in its real-world split.
    with_value = [row for row in result.table.rows if row.metric == main.metric and row.protocol == main.protocol]
    titled = titled_slices(with_value, by)
    if measures == "all":
        metrics = dict.fromkeys([*(row.metric for line in lines for row in line.others), main.metric])
        there = {
            (r.metric, tuple(sorted(r.slice.items()))) for r in result.rows(protocol=main.protocol) if r.n_expected
        }
        return tuple(
            replace(column(name, name, main.protocol, where), group=title)
            for title, where in (*titled, ("overall", overall))
            for name in metrics
            if (name, tuple(sorted(where.items()))) in there
        )
    found = [column(title, main.metric, main.protocol, where) for title, where in titled]
    return (*found, column("overall", main.metric, main.protocol, overall))


def missing(row: Row | None) -> str:
    """What a number is not about, from its remark."""
    return "; ".join(remarks(row)) if row else ""


def _marked(entries: Sequence[Entry], columns: Sequence[Column], digits: Sequence[int]) -> list[Entry]:
    marks: dict[tuple[int, int], Mark] = {}
    for judge in dict.fromkeys(entry.judge for entry in entries):
        for c, column in enumerate(columns):
            theirs = [(e, entry.cells[c]) for e, entry in enumerate(entries) if entry.judge == judge]
            valued = [(e, cell) for e, cell in theirs if cell.value is not None]
            marks |= {(e, c): mark for e, mark in _marks(valued, column, digits[c]).items()}
    return [
        replace(entry, cells=tuple(replace(cell, mark=marks.get((e, c), "")) for c, cell in enumerate(entry.cells)))
        for e, entry in enumerate(entries)
    ]


def _marks(cells: Sequence[tuple[int, Cell]], column: Column, digits: int) -> dict[int, Mark]:
    """Best and second of one judge's numbers, those printed alike together. Numbers about different things are not
    ranked: one that lacks a part of a mean stands aside where others have all, and none is best where all lack some.
    """
    # One good picture of a thousand is not the best.
    order = ranked([cell.row for _, cell in cells if cell.row], {column.metric} if column.lower else ())
    enough = {id(place.row) for place in order if place.rank is not None}
    cells = [(e, cell) for e, cell in cells if id(cell.row) in enough]
    lacks = {e: missing(cell.row) for e, cell in cells}
    if len(set(lacks.values())) > 1:
        cells = [(e, cell) for e, cell in cells if not lacks[e]]
    if len(cells) < 2 or column.metric in UNRANKED:
        return {}
    shown = {e: round(cell.value or 0.0, digits) for e, cell in cells}
    ranks = sorted(set(shown.values()), reverse=not column.lower)
    if len(ranks) < 2:
        return {}
    found: dict[int, Mark] = {e: "best" for e, value in shown.items() if value == ranks[0]}
    if len(found) == 1:
        found |= {e: "second" for e, value in shown.items() if value == ranks[1]}
    return found


def _printed(result: Result, columns: Sequence[Column], which: Literal["run", "all", "none"]) -> list[Entry]:
    """The papers' rows that have a number in some column; a label has one row for each judge and table."""
    if which == "none":
        return []
    values: Sequence[PublishedValue] = result.bench.reporting.published()
    if which == "run":
        values = [*result.published(), *(value for _, value in result.published_apart())]
    first = columns[0].protocol
    places = {column.place[1:]: c for c, column in enumerate(columns) if column.protocol == first}
    found: dict[tuple[str, str, str, str], dict[int, float]] = {}
    for value in values:
        c = places.get((value.metric, tuple(sorted(value.slice.items()))))
        if c is not None:
            place = value.label, value.judge, value.table, result.differs(value, first)
            found.setdefault(place, {})[c] = value.value
    entries = [
        Entry(label, judge, tuple(Cell(cells.get(c)) for c in range(len(columns))), printed=table, differs=differs)
        for (label, judge, table, differs), cells in found.items()
    ]
    at = len(columns) - 1 if columns[-1].protocol == first else max(c for c in places.values())
    sign = 1 if columns[at].lower else -1
    return sorted(entries, key=lambda entry: (entry.cells[at].value is None, sign * (entry.cells[at].value or 0)))
