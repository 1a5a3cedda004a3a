"""Tables for a person at a terminal: the leaderboard, what failed, and what the corrections changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from refbench.benchmarks import PublishedValue
from refbench.record import RefBenchError
from refbench.report.leaderboard import (
    INTERVAL,
    Line,
    called,
    cells,
    headings,
    leaderboard,
    left_out,
    lower_said,
    not_ranked,
    slice_titles,
    slices_of,
)
from refbench.tables.result import Result
from refbench.tables.table import OVERALL

_APART = "  "
"""Between two columns."""
_MOST_COLUMNS = 8
"""Measures that stand beside each other; more have a table with a row for each."""


def console(*, stderr: bool = False) -> Console:
    """A console that does not cut tables when its output goes to a file."""
    plain = Console(stderr=stderr)
    return plain if plain.is_terminal else Console(stderr=stderr, width=132)


def print_result(result: Result, *, by: str = "overall", out: Console | None = None) -> None:
    """Print the leaderboard (and one for each slice of the level `by`), failures, changes and notes."""
    out = out or console()
    check_level(result, by)
    subset = f", subset {result.table.parts['subset']}" if result.table.parts.get("subset") else ""
    stamps = f"fingerprint {result.table.fingerprint}, digest {result.table.digest}"
    head = f": {len(result.cases)} cases{subset}; {result.measured_by()}; {stamps}"
    _print(Text.assemble((result.bench.title, "bold"), head), out)
    lines = _print_slice(result, OVERALL, "overall", out)
    if by != "overall":
        slices = slices_of(result.table.rows, by)
        for title, where in zip(slice_titles(slices, by), slices, strict=True):
            _print_slice(result, where, title, out)
    for sentence in (*lower_said(result, lines), *left_out(result, lines)):
        _print(sentence, out)
    _print_changes(result, out)
    for note in result.notes:
        _print(f"Note: {note}.", out)


def check_level(result: Result, by: str) -> None:
    """Before anything is printed: a level that the table does not have is a mistake in typing."""
    levels = list(dict.fromkeys(row.slice["level"] for row in result.table.rows))
    if by not in levels:
        raise RefBenchError(f"--by {by}: this table has the levels {', '.join(levels)}")


def _print(text: str | Text, out: Console, style: str = "") -> None:
    """A sentence: as one line where nobody's screen is to be filled."""
    out.print(text if isinstance(text, Text) else Text(text), style=style or None, soft_wrap=not out.is_terminal)


def _print_slice(result: Result, where: Mapping[str, str], title: str, out: Console) -> list[Line]:
    lines = leaderboard(result, dict(where))
    if not lines:
        return []
    if where != OVERALL:
        out.print()
    out.print(Text(title, "italic"), soft_wrap=True)
    for table in tables(lines, out.width):
        for number, text in enumerate(table):
            out.print(Text(text, "" if number else "bold"), soft_wrap=True)
    for sentence in not_ranked(lines):
        _print(sentence, out)
    _print_published(result, where, lines, out)
    return lines


def tables(lines: Sequence[Line], width: int) -> list[list[str]]:
    """The leaderboard; of many measures, first the summary and then a table with a row for each measure."""
    few = len({row.metric for line in lines for row in line.others}) <= _MOST_COLUMNS
    shown = lines if few else [replace(line, others=()) for line in lines]
    titles = headings(shown)
    found = panels(titles, [cells(line, shown) for line in shown], width, names=titles.index(INTERVAL) - 1)
    if not few:
        measures = dict.fromkeys(row.metric for line in lines for row in line.others)
        rows = [[measure, *(_measured(line, measure) for line in lines)] for measure in measures]
        found += panels(["measure", *(called(line, lines) for line in lines)], rows, width)
    return found


def panels(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, names: int = 1) -> list[list[str]]:
    """Rows as aligned lines under their titles, in as many tables as it takes to stay within the width.

    Nothing is wrapped or cut inside a cell, so that no digit is lost. The first `names` columns stand in each table,
    and an interval beside its number. Only a table of one column that does not fit is wider.
    """
    widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
    room = width - sum(size + len(_APART) for size in widths[:names])
    blocks: list[list[int]] = []
    used = 0
    for c in range(names, len(titles)):
        size = widths[c] + len(_APART)
        if not blocks or (used + size > room + len(_APART) and titles[c] != INTERVAL):
            blocks.append([])
            used = 0
        blocks[-1].append(c)
        used += size
    return [[_aligned(row, [*range(names), *block], widths, names) for row in (titles, *rows)] for block in blocks]


def _aligned(row: Sequence[str], columns: Sequence[int], widths: Sequence[int], names: int) -> str:
    found = []
    for c in columns:
        space = " " * (widths[c] - cell_len(row[c]))
        found.append(row[c] + space if c < names else space + row[c])
    return _APART.join(found).rstrip()


def _measured(line: Line, measure: str) -> str:
    row = next((row for row in line.others if row.metric == measure), None)
    if row is None or row.value is None:
        return "-"
    return f"{row.value:.{line.digits}f} ({row.n_scored}/{row.n_expected})"


def _print_published(result: Result, where: Mapping[str, str], lines: Sequence[Line], out: Console) -> None:
    """What papers have for the same measure and slice: beside the table only what was measured in the same way."""
    measure = lines[0].main.metric
    beside = [p for p in result.published() if p.metric == measure and dict(p.slice) == where]
    if any(line.published is not None for line in lines):
        tables = ", ".join(dict.fromkeys(p.table for p in beside))
        said = f"published: Table {tables} of {result.bench.paper}, the same judge and wording; it belongs beside"
        _print(f"{said} {measure} (paper)", out, "dim")
    values: dict[tuple[str, str, str], list[PublishedValue]] = {}
    for differs, p in [*(("", p) for p in beside if p.model is None), *result.published_apart()]:
        if p.metric == measure and dict(p.slice) == where:
            values.setdefault((differs, p.table, p.judge), []).append(p)
    for (differs, table, judge), found in values.items():
        head = f"published, with {differs}: not the same measurement" if differs else "published"
        # A judge that is another one is in the heading already.
        by = f", judge {judge}" if judge and f"judge {judge}" not in differs else ""
        numbers = ", ".join(f"{p.label} {p.value:g}" for p in found)
        _print(f"{head} (Table {table} of {result.bench.paper}{by}): {numbers}", out, "dim")


def _print_changes(result: Result, out: Console) -> None:
    if not any(change["items"] for change in result.changes):
        return
    names = {change["change"]: change["what"] for change in result.changes}
    systems = list(dict.fromkeys((change["model"], change["judge"]) for change in result.changes))
    several = len({judge for _, judge in systems}) > 1
    rows = []
    for model, judge in systems:
        mine = [c for c in result.changes if (c["model"], c["judge"]) == (model, judge)]
        deltas = [c["delta"]["avg"] for c in mine]
        total = None if None in deltas else sum(deltas)
        rows.append([f"{model} ({judge})" if several else model, *(_signed(delta) for delta in [*deltas, total])])
    out.print(Text("\nfrom paper to corrected: change of avg by cause", "italic"), soft_wrap=True)
    for table in panels(["model", *names, "total"], rows, out.width):
        for number, text in enumerate(table):
            out.print(Text(text, "" if number else "bold"), soft_wrap=True)
    for name, what in names.items():
        _print(f"  {name}: {what}", out, "dim")


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return "." if abs(value) < 0.005 else f"{value:+.2f}"
