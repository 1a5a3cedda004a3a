"""A table for a paper in LaTeX, for booktabs: what is best, what is printed elsewhere, and what it all rests on."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal

from refbench import __version__
from refbench.benchmarks.kit.published import table_said
from refbench.record import counted
from refbench.report.latex.escape import WIDE, comment, is_wide, tex
from refbench.report.latex.table import Block, Cell, Column, Entry, Measures, Openness, PaperTable, missing, paper_table
from refbench.report.leaderboard import estimate_sentences, failure_sentences
from refbench.tables.result import Result
from refbench.tables.table import Row, ranked

Interval = Literal["range", "half", "none"]

_BLOCKS = {"open": "Open weights", "closed": "Closed models", "models": "Models", "published": "Published numbers"}
_COLUMN, _PAGE = 345.0, 505.0
"""Points: the text width of the plainest class, and that of two columns."""
_LETTER, _SMALL_LETTER, _BETWEEN = 4.6, 3.6, 8.0
"""Points: a letter of the table and of an interval, and the space between two columns. Columns that do not fit beside
each other go into another panel."""
_LONGEST = 44
"""Lines that fit on a page beside caption and footnote; more panels go into another float."""
_TITLE = 14
"""Characters in a line of a column's title."""


def to_latex(
    result: Result,
    *,
    by: str = "overall",
    published: Literal["run", "all", "none"] = "run",
    openness: Openness | None = None,
    interval: Interval | None = None,
    wide: bool = False,
    measures: Measures = "summary",
) -> str:
    """A `table` environment to \\input: everything in it is escaped, and the footnote says where it comes from.

    `interval`: the ends of the 95 % interval, half its width, or nothing; the ends by default where they fit.
    `wide` is a `table*` across both columns of a page. `measures="all"` has a column for every measure on each slice of
    `by`, where the summary measure alone has one otherwise.
    """
    table = paper_table(result, by=by, published=published, openness=openness or Openness(), measures=measures)
    line = _PAGE if wide else _COLUMN
    shown = interval or ("range" if len(_panels(table, "range", line)) == 1 else "half")
    what = "scores" if measures == "all" else table.columns[-1].metric
    about = f"{what} by {'model' if by == 'overall' else by}"
    name = "".join(sign if sign.isalnum() and sign.isascii() else "-" for sign in f"{result.bench.name}-{by}")
    floats: list[list[str]] = [[]]
    for panel in _panels(table, shown, line):
        body = _tabular(table, panel, shown)
        if floats[-1] and sum(one.count("\n") for one in (*floats[-1], body)) > _LONGEST:
            floats.append([])
        floats[-1].append(body)
    lines = _head(table, result)
    environment = "table*" if wide else "table"
    # A list of tables is set before the table defines how to print characters that pdflatex does not have.
    short = rf"[RefBench: {name}]" if is_wide(f"{result.bench.title}{about}") else ""
    for number, bodies in enumerate(floats):
        more = " (continued)" if number else ""
        lines += [
            rf"\begin{{{environment}}}[tp]",
            r"\centering\small\setlength{\tabcolsep}{4pt}",
            rf"\caption{short}{{{tex(f'{result.bench.title}: {about}{more}')}.}}",
            rf"\label{{tab:{name}{number + 1 if number else ''}}}",
            "\n\n\\medskip\n".join(bodies),
        ]
        if number == len(floats) - 1:
            notes = " ".join(_notes(result, table, shown))
            lines += ["", r"\smallskip", rf"\parbox{{\linewidth}}{{\footnotesize\raggedright {notes}}}"]
        lines += [rf"\end{{{environment}}}", ""]
    return "\n".join(lines)


def _head(table: PaperTable, result: Result) -> list[str]:
    """Comments: what the table needs, and which model was put into which block by what."""
    texts = [result.bench.title, *(text for column in table.columns for text in (column.title, column.group))]
    texts += [word for entry in table.entries for word in (entry.name, entry.judge)]
    texts += result.table.parts.get("judges", [])
    wide = list(dict.fromkeys(text for text in texts if is_wide(text)))
    lines = [
        f"% RefBench {__version__}, fingerprint {result.table.fingerprint}",
        r"% needs \usepackage{booktabs}",
    ]
    for block in table.blocks:
        if block.name in ("open", "closed"):
            names = "; ".join(f"{entry.name} by {table.known_by[entry.name]}" for entry in block.entries)
            lines.append(f"% {block.name}: {comment(names)}")
        elif block.name == "models":
            names = ", ".join(dict.fromkeys(entry.name for entry in block.entries))
            lines.append(f"% neither known to be open nor closed (say --open NAME or --closed NAME): {comment(names)}")
    if wide:
        lines.append(
            "% pdflatex has no letters for some names and prints their code points; xelatex and lualatex print them "
            r"with a font that has them, for example \setmainfont{Noto Serif CJK SC} from fontspec"
        )
        lines += [f"%   {comment(text)}" for text in wide]
        lines.append(WIDE)
    return lines


def _panels(table: PaperTable, interval: Interval, line: float) -> list[list[int]]:
    """Columns by panel, so that none is wider than a page. Of several the first begins with the number of all cases,
    which stands last in a table of one."""
    columns = range(len(table.columns))
    panels = _filled(table, list(columns), interval, line)
    if len(panels) == 1 or table.columns[0].group:
        return panels
    return _filled(table, sorted(columns, key=lambda c: not table.columns[c].whole), interval, line)


def _filled(table: PaperTable, order: Sequence[int], interval: Interval, line: float) -> list[list[int]]:
    names = max(len(entry.name) for entry in table.entries)
    judges = max(len(entry.judge) for entry in table.entries) if _with_judges(table) else 0
    room = line - sum(letters * _LETTER + _BETWEEN for letters in (names, judges, 7 * _with_coverage(table)) if letters)
    panels: list[list[int]] = [[]]
    used = 0.0
    groups = [list(those) for _, those in groupby(order, key=lambda c: table.columns[c].group or c)]
    for group in groups:  # the measures of one slice stay together
        width = sum(_width(table, c, interval) for c in group)
        if panels[-1] and used + width > room:
            panels.append([])
            used = 0.0
        panels[-1] += group
        used += width
    return panels


def _width(table: PaperTable, c: int, interval: Interval) -> float:
    """About how wide a column is, in points."""
    column = table.columns[c]
    number = table.digits(c) + 3
    beside = {"range": 2 * number + 4, "half": number + 2, "none": 0}[interval] if column.summary else 0
    title = max(map(len, _lines(column.title))) * _LETTER
    return max(number * _LETTER + beside * _SMALL_LETTER, title) + _BETWEEN


def _with_judges(table: PaperTable) -> bool:
    return len({entry.judge.casefold() for entry in table.entries}) > 1


def _with_coverage(table: PaperTable) -> bool:
    rows = [cell.row for entry in table.entries for cell in (*entry.cells, Cell(None, entry.main)) if cell.row]
    return any(row.n_scored < row.n_expected for row in rows)


def _tabular(table: PaperTable, panel: Sequence[int], interval: Interval) -> str:
    judges, coverage = _with_judges(table), _with_coverage(table)
    titles = ["model", *(["judge"] if judges else [])]
    # A number and its interval are two columns, so that numbers without one stand under the others.
    apart = [interval != "none" and table.columns[c].summary for c in panel]
    layout = "l" * len(titles) + "".join(r"r@{~}l" if both else "r" for both in apart) + ("r" if coverage else "")
    heads = [_title(table.columns[c], both) for c, both in zip(panel, apart, strict=True)]
    protocols = dict.fromkeys(column.protocol for column in table.columns)
    counted = next((c for c in panel if table.columns[c].summary), None)
    about = table.columns[counted].protocol if counted is not None else next(iter(protocols))
    scored = rf"\shortstack[r]{{scored \\ ({tex(about)})}}" if len(protocols) > 1 else "scored"
    heads += [scored] if coverage else []
    across = len(titles) + len(panel) + sum(apart) + coverage
    above = _groups(table, panel, apart, len(titles))
    lines = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", *above, " & ".join([*titles, *heads]) + r" \\"]
    for block in table.blocks:
        # Of a paper's rows only those that have a number in this panel.
        entries = [e for e in block.entries if not e.printed or any(e.cells[c].value is not None for c in panel)]
        if not entries:
            continue
        lines.append(r"\midrule")
        if len(table.blocks) > 1:
            lines.append(rf"\multicolumn{{{across}}}{{l}}{{{_heading(block, across)}}} \\")
        for entry in entries:
            cells = [_name(table, entry), *([tex(entry.judge) or "none"] if judges else [])]
            # Beside the other protocol's numbers alone stands its own count.
            row = entry.cells[counted].row if counted is not None and about != next(iter(protocols)) else entry.main
            for c, both in zip(panel, apart, strict=True):
                cells.append(_number(entry, entry.cells[c], table.digits(c), row))
                cells += [_beside(entry.cells[c], table.digits(c), interval)] if both else []
            if coverage:
                cells.append(f"{row.n_scored}/{row.n_expected}" if row else "")
            # A line that begins with a bracket or a star would be read as an argument of the line break before it.
            lines.append("{}" + " & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _groups(table: PaperTable, panel: Sequence[int], apart: Sequence[bool], before: int) -> list[str]:
    """The line above the titles with what groups of columns have in common, and the rules below it."""
    groups = [(name, list(those)) for name, those in groupby(zip(panel, apart, strict=True), _group_of(table))]
    if not any(name for name, _ in groups):
        return []
    cells, rules, first = [""] * before, [], before + 1
    for name, those in groups:
        span = sum(1 + both for _, both in those)
        cells.append(rf"\multicolumn{{{span}}}{{c}}{{{tex(name)}}}")
        rules.append(rf"\cmidrule(lr){{{first}-{first + span - 1}}}")
        first += span
    return [" & ".join(cells) + r" \\", "".join(rules)]


def _group_of(table: PaperTable) -> Callable[[tuple[int, bool]], str]:
    return lambda place: table.columns[place[0]].group


def _heading(block: Block, across: int) -> str:
    if block.name != "published":
        return rf"\textit{{{_BLOCKS[block.name]}}}"
    dagger = r"$^{\dagger}$"
    if not block.differs:
        return rf"\textit{{{_BLOCKS[block.name]}}}{dagger}"
    words = tex(f"Published, with {block.differs}: not the same measurement")
    # A heading may not widen the table: it wraps where the columns under it are few.
    return rf"\parbox[t]{{{across * 2.2:.1f}em}}{{\raggedright\textit{{{words}}}{dagger}\strut}}"


def _title(column: Column, both: bool) -> str:
    arrow = r" $\downarrow$" if column.lower else ""
    words = r" \\ ".join(tex(line) for line in _lines(column.title)) + arrow
    words = words if r" \\ " not in words else rf"\shortstack[r]{{{words}}}"
    return rf"\multicolumn{{2}}{{c}}{{{words}}}" if both else words


def _lines(title: str) -> list[str]:
    """The title in short lines, broken at spaces and after underscores."""
    lines: list[str] = [""]
    for word in re.findall(r"\s*[^\s_]+_*|_+", title):
        if lines[-1] and len(lines[-1] + word) > _TITLE:
            lines.append("")
        lines[-1] += word if lines[-1] else word.strip()
    return lines


def _name(table: PaperTable, entry: Entry) -> str:
    if entry.printed:
        return rf"\textit{{{tex(entry.name)}}}$^{{\dagger}}$"
    letter = _letters(table).get(missing(entry.main), "")
    return tex(entry.name) + (rf"$^{{{letter}}}$" if letter else "")


def _letters(table: PaperTable) -> dict[str, str]:
    """A letter for each thing that some model's number is not about."""
    texts = dict.fromkeys(missing(entry.main) for entry in table.entries)
    return {text: chr(ord("a") + n) for n, text in enumerate(filter(None, texts))}


def _number(entry: Entry, cell: Cell, digits: int, counted: Row | None) -> str:
    """The number, with its own count where it is about fewer cases than the count at the end of the line says, or is
    of another protocol with another count."""
    if cell.value is None:
        return "--"
    number = f"{cell.value:.{digits}f}"
    if entry.printed:
        return rf"\textit{{{number}}}"
    number = {"best": rf"\textbf{{{number}}}", "second": rf"\underline{{{number}}}", "": number}[cell.mark]
    row = cell.row
    if row and counted and (
        row.n_scored * counted.n_expected < counted.n_scored * row.n_expected
        or (row.protocol != counted.protocol and row.n_scored != counted.n_scored)
    ):  # fmt: skip
        number += rf" {{\tiny ({row.n_scored}/{row.n_expected})}}"
    return number


def _beside(cell: Cell, digits: int, interval: Interval) -> str:
    if cell.row is None or cell.row.ci95 is None:
        return ""
    low, high = cell.row.ci95
    if interval == "half":
        return rf"{{\scriptsize $\pm$\,{(high - low) / 2:.{digits}f}}}"
    return rf"{{\scriptsize [{low:.{digits}f}, {high:.{digits}f}]}}"


def _notes(result: Result, table: PaperTable, interval: Interval) -> list[str]:
    """The footnote, sentence by sentence."""
    notes = [tex(f"{text}.") for text in _sources(result, table)]
    marked = any(cell.mark for entry in table.entries for cell in entry.cells)
    if marked:
        each = ", for each judge" if len({e.judge for e in table.entries if not e.printed}) > 1 else ""
        notes.append(rf"\textbf{{Best}} and \underline{{second}} of the rows that were measured here{each}.")
    if any(column.lower for column in table.columns):
        notes.append(r"$\downarrow$: lower is better.")
    notes += _interval_notes(result, table, interval)
    notes += [tex(f"{text}.") for text in _coverage_notes(result, table)]
    if stop := result.stopped_said({entry.name for entry in table.entries if not entry.printed}):
        notes.append(tex(f"{stop[:1].upper()}{stop[1:]}."))
    for text, letter in _letters(table).items():
        notes.append(rf"$^{{{letter}}}${tex(f' Not about all: {text}.')}")
    return [*notes, *_published_note(result, table)]


def _interval_notes(result: Result, table: PaperTable, interval: Interval) -> list[str]:
    """How the intervals of the table were made, those of estimates from a part of the calls apart."""
    rows = [c.row for entry in table.entries for c in entry.cells if c.row and c.row.ci95] if interval != "none" else []
    if not rows:
        return []
    what = r"$\pm$: half the width of the 95\,\% interval" if interval == "half" else r"Brackets: 95\,\% interval"
    bounded = _with_two_ends(result, table)
    how = []
    if not all(row.sampled for row in rows):
        kind = "Korn and Graubard's" if bounded else "BCa, or Student's where there are fewer than five clusters"
        draws = result.table.parts.get("interval", {}).get("draws")
        how.append(f"{kind}, from {draws} bootstrap draws over clusters of cases")
    if any(row.sampled for row in rows):
        kind = "Korn and Graubard's" if bounded else "Student's"
        whose = "of estimates " if how else ""
        how.append(f"{whose}{kind}, from the standard error of the estimate and that between clusters of cases")
    return [f"{what} ({'; '.join(how)})."]


def _with_two_ends(result: Result, table: PaperTable) -> bool:
    """Whether all scales of the table have two ends, by which its intervals are made (`stats.interval_for`)."""
    places = {(column.protocol, column.metric) for column in table.columns if column.summary}
    measures = [m for p, name in places for m in result.bench.scoring.protocols[p].aggregate.measures if m.name == name]
    return all(measure.low is not None and measure.high is not None for measure in measures)


def _coverage_notes(result: Result, table: PaperTable) -> list[str]:
    """What was counted, and for whom the count is less than all: failures, with what they may have
    changed, what the aggregate puts in their place, what was not asked for yet, and who is not ranked for that."""
    rows = [entry.main for entry in table.entries if entry.main]
    notes = []
    seeds = max((row.n_seeds for row in rows), default=1)
    if seeds > 1:
        notes.append(f"Each case was painted with {seeds} seeds; counts are of pictures")
    imputed = {e.name: c.row.n_imputed for e in table.entries for c in e.cells if c.row and c.row.n_imputed}
    if _with_coverage(table):
        none = "" if imputed else "; failures are in no mean"
        notes.append(f"Scored: {'pictures' if seeds > 1 else 'cases'} with a value, of those expected{none}")
    if result.refusals != "conditional":
        too = ", and so does what it cannot take" if result.refusals.endswith("unsupported") else ""
        notes.append(f"A model's own failures count as the worst value (refusals: {result.refusals}){too}")
    names = [row.model for row in rows]
    for row in rows:
        name = row.model if names.count(row.model) == 1 else f"{row.model} ({row.judge})"
        if row.failures or row.n_not_asked or row.sampled:
            digits = table.digits(next(c for c, column in enumerate(table.columns) if column.summary))
            notes += [f"{name}: {sentence}" for sentence in estimate_sentences(row, digits)]
            said = failure_sentences(row, digits, result.refusals, stopped=row.model in result.stopped)
            notes += [f"{name}: {sentence}" for sentence in said]
    if imputed and result.refusals == "conditional":
        counts = ", ".join(f"{n} of {name}" for name, n in imputed.items())
        notes.append(f"The aggregate of the paper puts values in place of failures: {counts}")
    places = ranked(rows, result.bench.scoring.lower)
    notes += [f"{place.row.model} is {place.why_not}" for place in places if place.why_not]
    return notes


def _sources(result: Result, table: PaperTable) -> list[str]:
    parts, bench = result.table.parts, result.bench
    protocols = []
    for name in dict.fromkeys(column.protocol for column in table.columns):
        versions = ", ".join(f"{part} {n}" for part, n in parts.get("protocols", {}).get(name, {}).items())
        protocols.append(f"{name} ({versions})" if versions else name)
    paper = f" ({bench.paper})" if bench.paper else ""
    subset = f", subset {parts['subset']}" if parts.get("subset") else ""
    judges = result.judges_said()
    # What the cards say stays out of papers until the method is validated on real judges.
    cards = [f"Judge card of {card.judge}: kept in {card.path}" for card in result.cards]
    return [
        f"{bench.title}{paper}: {counted(len(result.cases), 'case')}{subset}",
        f"Protocol {', '.join(protocols)}",
        f"Judge {judges}, {result.wording}" if judges else "No judge",
        *cards,
        f"RefBench {__version__}, fingerprint {result.table.fingerprint}",
    ]


def _published_note(result: Result, table: PaperTable) -> list[str]:
    printed = [entry for entry in table.entries if entry.printed]
    if not printed:
        return []
    where = ", ".join(dict.fromkeys(table_said(entry.printed) for entry in printed)) + f" of {result.bench.paper}"
    judges = ", ".join(dict.fromkeys(entry.judge for entry in printed if entry.judge))
    where += f", judged by {judges}" if judges else ""
    differs = any(entry.differs for entry in printed)
    apart = ", and not the same measurement as ours where the heading says so" if differs else ""
    return [r"$^{\dagger}$" + tex(f" As printed in {where}: not measured here, not ranked{apart}.")]
