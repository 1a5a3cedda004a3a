"""The leaderboard: one line for each model, best first, whatever it is printed as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from refbench.result import Result
from refbench.score import digits_of
from refbench.table import Ranked, Row, ranked

__all__ = [
    "INTERVAL",
    "JUDGE",
    "Line",
    "Ranked",
    "called",
    "cells",
    "headings",
    "interval",
    "leaderboard",
    "not_ranked",
    "number",
    "ranked",
    "slice_titles",
    "slices_of",
]

JUDGE = "judge"
"""The column that says whose marks a line has, where there are several judges."""
INTERVAL = "95 % interval"


@dataclass(frozen=True)
class Line:
    """One model (and judge) on one slice, under the first protocol of the table."""

    model: str
    judge: str | None
    main: Row
    """The row of the summary measure."""
    others: tuple[Row, ...]
    other_protocols: tuple[Row, ...]
    """The summary measure under the table's other protocols."""
    published: float | None
    digits: int = 2
    place: Ranked | None = None
    """Where the line stands among those of its judge; its rank is None where it has no value or too few cases."""

    @property
    def rank(self) -> int | None:
        return self.place.rank if self.place else None


def leaderboard(result: Result, where: dict[str, str]) -> list[Line]:
    """Lines of the slice, judge by judge, ranked by the summary measure; those without a rank come last. Measures in
    which no model has a value are left out: the notes say why they have none."""
    rows = [row for row in result.table.rows if dict(row.slice) == where]
    protocols = list(dict.fromkeys(row.protocol for row in rows))
    summary = result.summary(protocols[0], where)
    valued = {row.metric for row in rows if row.value is not None} | {summary}
    rows = [row for row in rows if row.metric in valued]
    published = [p for p in result.published() if p.metric == summary and dict(p.slice) == where]
    of_summary = [row for row in rows if row.metric == summary]
    digits = digits_of(value for row in of_summary for value in (row.value, *(row.bounds or ())))
    lines = []
    for model, judge in dict.fromkeys((row.model, row.judge) for row in rows):
        mine = [row for row in rows if (row.model, row.judge) == (model, judge)]
        first = [row for row in mine if row.protocol == protocols[0]]
        main = next((row for row in first if row.metric == summary), None)
        if main is None:
            continue
        lines.append(
            Line(
                model=model,
                judge=judge,
                main=main,
                others=tuple(row for row in first if row.metric != summary),
                other_protocols=tuple(row for row in mine if row.protocol != protocols[0] and row.metric == summary),
                published=next(
                    (p.value for p in published if p.model == model and result.same_judge(judge, p.judge)), None
                ),
                digits=digits,
            )
        )
    by_row = {id(line.main): line for line in lines}
    order = ranked([line.main for line in lines], result.bench.lower)
    return [replace(by_row[id(place.row)], place=place) for place in order]


def not_ranked(lines: Sequence[Line]) -> list[str]:
    """Which lines have no rank and why, one sentence each."""
    return [f"{called(line, lines)} is {line.place.why_not}." for line in lines if line.place and line.place.why_not]


def called(line: Line, lines: Sequence[Line]) -> str:
    """The model, with its judge where the lines have several."""
    return line.model if not _several_judges(lines) else f"{line.model} ({line.judge or 'no judge'})"


def slices_of(rows: Sequence[Row], level: str) -> list[dict[str, str]]:
    """The slices of a level in the order of the table."""
    found = {tuple(row.slice.items()): dict(row.slice) for row in rows if row.slice["level"] == level}
    return list(found.values())


def slice_titles(slices: Sequence[Mapping[str, str]], level: str) -> list[str]:
    """What to call the slices of a level: by the level's own name where that tells them apart, else by all names."""
    short = [where.get(level, level) for where in slices]
    if len(set(short)) == len(short):
        return short
    return [", ".join(value for key, value in where.items() if key != "level") for where in slices]


def headings(lines: Sequence[Line]) -> list[str]:
    """Column titles for `cells`."""
    first = lines[0]
    titles = ["model", *([JUDGE] if _several_judges(lines) else [])]
    titles += [f"{first.main.metric} ({first.main.protocol})", INTERVAL]
    titles += [*_measures(lines), "scored"]
    titles += [f"{row.metric} ({row.protocol})" for row in first.other_protocols]
    return [*titles, "published"] if _with_published(lines) else titles


def cells(line: Line, lines: Sequence[Line]) -> list[str]:
    """The line as text, one cell for each of the headings of all lines."""
    digits = line.digits
    others = {row.metric: row.value for row in line.others}
    return [
        line.model,
        *([line.judge or "none"] if _several_judges(lines) else []),
        number(line.main.value, digits),
        interval(line.main, digits),
        *(number(others.get(name), digits) for name in _measures(lines)),
        f"{line.main.n_scored}/{line.main.n_expected}",
        *(number(row.value, digits) for row in line.other_protocols),
        *([number(line.published, digits)] if _with_published(lines) else []),
    ]


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def interval(row: Row, digits: int) -> str:
    return f"{row.ci95[0]:.{digits}f} to {row.ci95[1]:.{digits}f}" if row.ci95 else "-"


def _measures(lines: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(row.metric for line in lines for row in line.others))


def _several_judges(lines: Sequence[Line]) -> bool:
    return len({line.judge for line in lines}) > 1


def _with_published(lines: Sequence[Line]) -> bool:
    return any(line.published is not None for line in lines)
