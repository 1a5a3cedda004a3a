"""Tables for a person at a terminal: the leaderboard, what failed, and what the corrections changed."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from refbench.record import RefBenchError
from refbench.report.leaderboard import JUDGE, Line, called, cells, headings, leaderboard, slices_of
from refbench.result import Result
from refbench.table import Row


def console(*, stderr: bool = False) -> Console:
    """A console that does not cut tables when its output goes to a file."""
    plain = Console(stderr=stderr)
    return plain if plain.is_terminal else Console(stderr=stderr, width=132)


def print_result(result: Result, *, by: str = "overall", out: Console | None = None) -> None:
    """Print the leaderboard (and one for each slice of the level `by`), failures, changes and notes."""
    out = out or console()
    check_level(result, by)
    judges = ", ".join(result.table.parts.get("judges", [])) or "none"
    subset = f", subset {result.table.parts['subset']}" if result.table.parts.get("subset") else ""
    out.print(
        f"[bold]{result.bench.title}[/bold]: {len(result.cases)} cases{subset}, judge {judges}, "
        f"fingerprint {result.table.fingerprint}"
    )
    lines = leaderboard(result, {"level": "overall"})
    for part in grids(lines, "overall"):
        out.print(part)
    if by != "overall":
        for where in slices_of(result.table.rows, by):
            lines_here = leaderboard(result, where)
            for part in grids(lines_here, where.get(by, by)):
                out.print(part)
            if lines_here:
                _print_others(result, where, lines_here[0].main.metric, out)
    _print_published(result, lines, out)
    _print_failures(lines, out)
    _print_changes(result, out)
    for note in result.notes:
        out.print(Text(f"Note: {note}."))


def check_level(result: Result, by: str) -> None:
    """Before anything is printed: a level that the table does not have is a mistake in typing."""
    levels = list(dict.fromkeys(row.slice["level"] for row in result.table.rows))
    if by not in levels:
        raise RefBenchError(f"--by {by}: this table has the levels {', '.join(levels)}")


_MOST_COLUMNS = 8


def grids(lines: list[Line], title: str) -> list[Grid]:
    """The leaderboard; of many measures, first the summary and then a table with a row for each measure."""
    if not lines:
        return []
    if len(lines[0].others) <= _MOST_COLUMNS:
        return [grid(lines, title)]
    found = Grid(header_style="bold", box=None, pad_edge=False)
    found.add_column("measure")
    for line in lines:
        found.add_column(Text(called(line, lines)), justify="right", overflow="fold")
    names = list(dict.fromkeys(row.metric for line in lines for row in line.others))
    for name in names:
        rows = [next((row for row in line.others if row.metric == name), None) for line in lines]
        found.add_row(name, *(Text(_measured(row, line.digits)) for row, line in zip(rows, lines, strict=True)))
    return [grid([replace(line, others=()) for line in lines], title), found]


def _measured(row: Row | None, digits: int) -> str:
    if row is None or row.value is None:
        return "-"
    return f"{row.value:.{digits}f} ({row.n_scored}/{row.n_expected})"


def grid(lines: list[Line], title: str) -> Grid:
    """The leaderboard as a table for the terminal."""
    titles = headings(lines)
    found = Grid(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for heading in titles:
        found.add_column(heading, justify="left" if heading in ("model", JUDGE) else "right", overflow="fold")
    for line in lines:
        found.add_row(*(Text(cell) for cell in cells(line, titles)))
    return found


def _print_published(result: Result, lines: list[Line], out: Console) -> None:
    tables = sorted({value.table for value in result.published()})
    if tables and any(line.published is not None for line in lines):
        out.print(
            f"published: Table {', '.join(tables)} of {result.bench.paper}; compare it with the paper protocol, "
            "on the subset the paper is about",
            style="dim",
        )


def _print_others(result: Result, where: dict[str, str], measure: str, out: Console) -> None:
    """What the paper has for the same slice, for models whose pictures nobody else has."""
    values = [p for p in result.published() if p.model is None and p.metric == measure and dict(p.slice) == where]
    if values:
        said = ", ".join(f"{p.label} {p.value:g} ({p.judge}, Table {p.table})" for p in values)
        out.print(Text(f"published: {said}"), style="dim")


def _print_failures(lines: list[Line], out: Console) -> None:
    for line in lines:
        row, name, digits = line.main, called(line, lines), line.digits
        said = [r for r in (row.remark or "").split("; ") if r and not r.startswith(("small n", "no interval"))]
        if said:
            out.print(Text(f"{name}: {row.metric} is about less than all: {'; '.join(said)}."))
        if not row.failures:
            continue
        kinds = ", ".join(f"{n} {kind}" for kind, n in row.failures.items())
        bounds = (
            f"; whatever they score, {row.metric} lies in {row.bounds[0]:.{digits}f} to {row.bounds[1]:.{digits}f}"
            if row.bounds
            else ""
        )
        out.print(Text(f"{name}: {row.n_expected - row.n_scored} of {row.n_expected} cases failed ({kinds}){bounds}."))


def _print_changes(result: Result, out: Console) -> None:
    if not any(change["items"] for change in result.changes):
        return
    names = {change["change"]: change["what"] for change in result.changes}
    found = Grid(
        title="\nfrom paper to corrected: change of avg by cause",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    found.add_column("model", overflow="fold")
    for name in [*names, "total"]:
        found.add_column(name, justify="right")
    systems = list(dict.fromkeys((change["model"], change["judge"]) for change in result.changes))
    several = len({judge for _, judge in systems}) > 1
    for model, judge in systems:
        mine = [c for c in result.changes if (c["model"], c["judge"]) == (model, judge)]
        deltas = [c["delta"]["avg"] for c in mine]
        total = None if None in deltas else sum(deltas)
        found.add_row(Text(f"{model} ({judge})" if several else model), *(_signed(delta) for delta in [*deltas, total]))
    out.print(found)
    for name, what in names.items():
        out.print(Text(f"  {name}: {what}"), style="dim")


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return "." if abs(value) < 0.005 else f"{value:+.2f}"
