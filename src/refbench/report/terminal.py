"""Tables for a person at a terminal: the leaderboard, what failed, and what the corrections changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from refbench.benchmarks import PublishedValue
from refbench.benchmarks.kit.published import table_said
from refbench.record import RefBenchError
from refbench.report.leaderboard import (
    INTERVAL,
    Leaderboard,
    Line,
    best_lines,
    direction,
    interval_remarks,
    leaderboards,
    left_out,
    size,
)
from refbench.tables.result import Result
from refbench.tables.table import OVERALL
from refbench.text.console import console, printable

_APART = "  "
"""Between two columns."""
_WORDS = re.compile(r"[^\W_]+")
_MOST_COLUMNS = 8
"""Measures that stand beside each other; more have a table with a row for each."""


def print_result(result: Result, *, by: str = "overall", out: Console | None = None) -> None:
    """Print the leaderboard (and one for each slice of the level `by`), failures, changes and notes."""
    out = out or console()
    check_level(result, by)
    stamps = f"fingerprint {result.table.fingerprint}, digest {result.table.digest}"
    _print(Text.assemble((result.bench.title, "bold"), f": {size(result)}; {stamps}"), out)
    boards = leaderboards(result, by)
    labels = Labels.for_boards(boards)
    for board in boards:
        if board.where != OVERALL:
            out.print()
        out.print(Text(board.title, "italic"), soft_wrap=True)
        _print_board(board, result.bench.scoring.lower, labels, out)
        for sentence in [*map(Text, board.not_ranked()), *_published(result, board)]:
            _print(sentence, out)
    for board in boards:
        if board.where == OVERALL:
            if out.is_terminal and best_lines(board.lines, board.lines[0].main.metric, result.bench.scoring.lower):
                out.print(Text("Bold: the best value of each measure.", "dim"))
            for note in (*direction(result, board), *interval_remarks(board), *left_out(result, board)):
                _print(note, out)
    _print_changes(result, out)
    for note in result.notes:
        _print(f"Note: {note}.", out)
    for card in result.cards:
        _print(printable(f"Judge card of {card.judge}: {card.said} ({card.path}).", line=True), out)


def check_level(result: Result, by: str) -> None:
    """Before anything is printed: a level that the table does not have is a mistake in typing."""
    levels = list(dict.fromkeys(row.slice["level"] for row in result.table.rows))
    if by not in levels:
        raise RefBenchError(f"--by {by}: this table has the levels {', '.join(levels)}")


def _print(text: str | Text, out: Console) -> None:
    """A sentence: as one line where nobody's screen is to be filled."""
    out.print(text if isinstance(text, Text) else Text(text), soft_wrap=not out.is_terminal)


def _print_tables(tables: Sequence[Sequence[Text]], out: Console) -> None:
    for table in tables:
        for line in table:
            out.print(line, soft_wrap=True)


@dataclass(frozen=True)
class Labels:
    """Short labels for what is too long for a narrow terminal, the same in all tables of a result."""

    of: Mapping[str, str]
    explained: set[str] = field(default_factory=set)

    @classmethod
    def for_boards(cls, boards: Sequence[Leaderboard]) -> Labels:
        """Initials for measures of several words, where they tell them apart; numbers for models."""
        measures = list(dict.fromkeys(name for board in boards for name in board.measures))
        short = {name: "".join(word[0] for word in _WORDS.findall(name)).upper() for name in measures}
        initials = Counter([*measures, *short.values()])
        of = {name: label for name, label in short.items() if len(label) > 1 and initials[label] == 1}
        models = dict.fromkeys(line.model for board in boards for line in board.lines)
        return cls(of | {model: f"#{n}" for n, model in enumerate(models, start=1)})

    def __call__(self, name: str) -> str:
        return self.of.get(name, name)

    def legend(self, names: Iterable[str]) -> list[str]:
        """Lines that explain the labels of these names, each once."""
        new = [name for name in dict.fromkeys(names) if name in self.of and name not in self.explained]
        self.explained.update(new)
        return [f"{self.of[name]} = {printable(name, line=True)}" for name in new]


def _print_board(board: Leaderboard, lower: Collection[str], labels: Labels, out: Console) -> None:
    """The tables of a slice; where they do not fit beside each other, with short labels and a legend below."""
    long = [line.model for line in board.lines if cell_len(line.model) > out.width // 2]
    named = Labels({name: labels(name) for name in long})
    whole = tables(board, lower, out.width, named)
    shorter = Labels({name: labels(name) for name in (*long, *board.measures)})
    short = tables(board, lower, out.width, shorter)
    fewer = len(short) < len(whole)
    _print_tables(short if fewer else whole, out)
    for line in labels.legend([*long, *(board.measures if fewer else [])]):
        out.print(Text(line, "dim"), soft_wrap=True)


def tables(board: Leaderboard, lower: Collection[str], width: int, labels: Labels) -> list[list[Text]]:
    """The leaderboard; of many measures, first the summary and then a table with a row for each measure."""
    if len(board.measures) <= _MOST_COLUMNS:
        return _panels_of(board, lower, width, labels)
    summary = replace(board, lines=tuple(replace(line, others=()) for line in board.lines))
    rows = [[measure, *(_measured(line, measure) for line in board.lines)] for measure in board.measures]
    best = {
        (n, column + 1)
        for n, measure in enumerate(board.measures)
        for column in best_lines(board.lines, measure, lower)
    }
    several = board.several_judges
    names = [
        f"{labels(line.model)} ({line.judge or 'no judge'})" if several else labels(line.model) for line in board.lines
    ]
    return _panels_of(summary, lower, width, labels) + panels(["measure", *names], rows, width, bold=best)


def _panels_of(board: Leaderboard, lower: Collection[str], width: int, labels: Labels) -> list[list[Text]]:
    first = len(board.headings) - len(board.measures)
    titles = [*board.headings[:first], *map(labels, board.measures)]
    rows = [[labels(row[0]), *row[1:]] for row in board.rows]
    names = board.headings.index(INTERVAL) - 1
    shown = {names: board.lines[0].main.metric, **dict(enumerate(board.measures, start=first))}
    best = {(n, column) for column, measure in shown.items() for n in best_lines(board.lines, measure, lower)}
    return panels(titles, rows, width, names=names, bold=best)


def panels(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    names: int = 1,
    bold: Collection[tuple[int, int]] = (),
) -> list[list[Text]]:
    """Rows as aligned lines under their titles, in as many tables as it takes to stay within the width.

    Nothing is wrapped or cut inside a cell, so that no digit is lost. The first `names` columns stand in each table,
    and an interval beside its number. Only a table of one column that does not fit is wider. `bold` names cells by
    row and column.
    """
    titles, *rows = [[printable(cell, line=True) for cell in row] for row in (titles, *rows)]
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
    marked = [dict.fromkeys((c for r, c in bold if r == n), "bold") for n in range(len(rows))]
    styles = [dict.fromkeys(range(len(titles)), "bold"), *marked]
    return [
        [
            _aligned(row, [*range(names), *block], widths, names, style)
            for row, style in zip((titles, *rows), styles, strict=True)
        ]
        for block in blocks
    ]


def _aligned(
    row: Sequence[str], columns: Sequence[int], widths: Sequence[int], names: int, styles: Mapping[int, str]
) -> Text:
    line = Text()
    for place, c in enumerate(columns):
        space = " " * (widths[c] - cell_len(row[c]))
        cell = Text(row[c], styles.get(c, ""))
        line.append_text(Text(_APART if place else ""))
        line.append_text(cell.append(space) if c < names else Text(space).append_text(cell))
    line.rstrip()
    return line


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
        tables = ", ".join(dict.fromkeys(table_said(value.table) for value in beside))
        same = "the same judge and wording; it belongs beside"
        found.append(f"published: {tables} of {paper}, {same} {measure} (paper)")
    alike: dict[tuple[str, str, str], list[PublishedValue]] = {}
    for differs, value in [*(("", value) for value in beside if value.model is None), *result.published_apart()]:
        if shown(value):
            alike.setdefault((differs, value.table, value.judge), []).append(value)
    for (differs, table, judge), values in alike.items():
        heading = f"published, with {differs}: not the same measurement" if differs else "published"
        # A judge that is another one is in the heading already.
        by = f", judge {judge}" if judge and f"judge {judge}" not in differs else ""
        numbers = ", ".join(f"{value.label} {value.value:g}" for value in values)
        found.append(f"{heading} ({table_said(table)} of {paper}{by}): {numbers}")
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
