"""Tables for a person at a terminal: the leaderboard, what failed, and what the corrections changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from refbench.benchmarks import PublishedValue
from refbench.record import RefBenchError
from refbench.report.leaderboard import INTERVAL, Leaderboard, Line, direction, leaderboards, left_out, size
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
    stamps = f"fingerprint {result.table.fingerprint}, digest {result.table.digest}"
    _print(Text.assemble((result.bench.title, "bold"), f": {size(result)}; {stamps}"), out)
    boards = leaderboards(result, by)
    for board in boards:
        if board.where != OVERALL:
            out.print()
        out.print(Text(board.title, "italic"), soft_wrap=True)
        _print_tables(tables(board, out.width), out)
        for sentence in [*map(Text, board.not_ranked()), *_published(result, board)]:
            _print(sentence, out)
    for board in boards:
        if board.where == OVERALL:
            for note in (*direction(result, board), *left_out(result, board)):
                _print(note, out)
    _print_changes(result, out)
    for note in result.notes:
        _print(f"Note: {note}.", out)


def check_level(result: Result, by: str) -> None:
    """Before anything is printed: a level that the table does not have is a mistake in typing."""
    levels = list(dict.fromkeys(row.slice["level"] for row in result.table.rows))
    if by not in levels:
        raise RefBenchError(f"--by {by}: this table has the levels {', '.join(levels)}")


def _print(text: str | Text, out: Console) -> None:
    """A sentence: as one line where nobody's screen is to be filled."""
    out.print(text if isinstance(text, Text) else Text(text), soft_wrap=not out.is_terminal)


def _print_tables(tables: Sequence[Sequence[str]], out: Console) -> None:
    for table in tables:
        for number, line in enumerate(table):
            out.print(Text(line, "" if number else "bold"), soft_wrap=True)


def tables(board: Leaderboard, width: int) -> list[list[str]]:
    """The leaderboard; of many measures, first the summary and then a table with a row for each measure."""
    if len(board.measures) <= _MOST_COLUMNS:
        return _panels_of(board, width)
    summary = replace(board, lines=tuple(replace(line, others=()) for line in board.lines))
    rows = [[measure, *(_measured(line, measure) for line in board.lines)] for measure in board.measures]
    return _panels_of(summary, width) + panels(["measure", *board.names], rows, width)


def _panels_of(board: Leaderboard, width: int) -> list[list[str]]:
    return panels(board.headings, board.rows, width, names=board.headings.index(INTERVAL) - 1)


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


def _published(result: Result, board: Leaderboard) -> list[Text]:
    """What papers have for the same measure and slice: beside the table only what was measured in the same way."""
    measure, paper = board.lines[0].main.metric, result.bench.paper

    def shown(value: PublishedValue) -> bool:
        return value.metric == measure and dict(value.slice) == board.where

    found = []
    beside = [value for value in result.published() if shown(value)]
    if any(line.published is not None for line in board.lines):
        tables = ", ".join(dict.fromkeys(value.table for value in beside))
        same = "the same judge and wording; it belongs beside"
        found.append(f"published: Table {tables} of {paper}, {same} {measure} (paper)")
    alike: dict[tuple[str, str, str], list[PublishedValue]] = {}
    for differs, value in [*(("", value) for value in beside if value.model is None), *result.published_apart()]:
        if shown(value):
            alike.setdefault((differs, value.table, value.judge), []).append(value)
    for (differs, table, judge), values in alike.items():
        heading = f"published, with {differs}: not the same measurement" if differs else "published"
        # A judge that is another one is in the heading already.
        by = f", judge {judge}" if judge and f"judge {judge}" not in differs else ""
        numbers = ", ".join(f"{value.label} {value.value:g}" for value in values)
        found.append(f"{heading} (Table {table} of {paper}{by}): {numbers}")
    return [Text(line, "dim") for line in found]


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
    _print_tables(panels(["model", *names, "total"], rows, out.width), out)
    for name, what in names.items():
        _print(Text(f"  {name}: {what}", "dim"), out)


def _signed(value: float | None) -> str:
    if value is None:
        return "-"
    return "." if abs(value) < 0.005 else f"{value:+.2f}"
