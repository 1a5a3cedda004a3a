"""The leaderboard: one line for each model, best first, whatever it is printed as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from refbench.scoring import Result
from refbench.table import Row


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


def leaderboard(result: Result, where: dict[str, str]) -> list[Line]:
    """Lines of the slice, sorted by the summary measure (the benchmark's last one); the unscored come last."""
    rows = [row for row in result.table.rows if dict(row.slice) == where]
    protocols = list(dict.fromkeys(row.protocol for row in rows))
    summary = result.bench.protocols[protocols[0]].aggregate.measures[-1].name
    published = {
        (p.model, p.judge.casefold()): p.value
        for p in result.published()
        if p.metric == summary and dict(p.slice) == where
    }
    lines = []
    for model, judge in dict.fromkeys((row.model, row.judge) for row in rows):
        mine = [row for row in rows if (row.model, row.judge) == (model, judge)]
        first = [row for row in mine if row.protocol == protocols[0]]
        lines.append(
            Line(
                model=model,
                judge=judge,
                main=next(row for row in first if row.metric == summary),
                others=tuple(row for row in first if row.metric != summary),
                other_protocols=tuple(row for row in mine if row.protocol != protocols[0] and row.metric == summary),
                published=published.get((model, (judge or "").casefold())),
            )
        )
    return sorted(lines, key=lambda line: -(line.main.value if line.main.value is not None else float("-inf")))


def slices_of(rows: Sequence[Row], level: str) -> list[dict[str, str]]:
    """The slices of a level in the order of the table."""
    found = {tuple(row.slice.items()): dict(row.slice) for row in rows if row.slice["level"] == level}
    return list(found.values())


def headings(lines: Sequence[Line]) -> list[str]:
    """Column titles for `cells`."""
    first = lines[0]
    titles = ["model", f"{first.main.metric} ({first.main.protocol})", "95 % interval"]
    titles += [row.metric for row in first.others]
    titles += ["scored"]
    titles += [f"{row.metric} ({row.protocol})" for row in first.other_protocols]
    if any(line.published is not None for line in lines):
        titles.append("published")
    return titles


def cells(line: Line, titles: Sequence[str]) -> list[str]:
    """The line as text, one cell for each title."""
    interval = line.main.ci95
    found = [
        line.model,
        number(line.main.value),
        f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else "-",
        *(number(row.value) for row in line.others),
        f"{line.main.n_scored}/{line.main.n_expected}",
        *(number(row.value) for row in line.other_protocols),
    ]
    if "published" in titles:
        found.append(number(line.published))
    return found


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
