"""One table of models by benchmarks: each benchmark's own number under every protocol, and what papers have printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from refbench.benchmarks import PublishedValue
from refbench.benchmarks.kit.published import table_said
from refbench.judges.panel import MEAN
from refbench.report.latex.escape import WIDE, is_wide, tex
from refbench.report.latex.table import Cell, Column, Openness, PaperTable, paper_table
from refbench.report.paper.citations import citation, key
from refbench.score import digits_of
from refbench.tables.result import Result
from refbench.tables.table import OVERALL, Row, ranked

Published = Literal["run", "all", "none"]
_ACROSS = 4
"""Columns of numbers beside each other on a page; more go below, with the models again."""


@dataclass(frozen=True)
class Group:
    """A benchmark by one judge: a column for each protocol."""

    result: Result
    judge: str
    columns: tuple[Column, ...]
    cells: Mapping[str, tuple[Cell, ...]]
    """By model."""
    ranked: frozenset[str]
    """Models whose number is about enough of the cases to be ranked."""

    @property
    def title(self) -> str:
        cited = rf"~\cite{{{key(self.result.bench)}}}" if citation(self.result.bench) else ""
        return f"{tex(self.result.bench.title)}{cited}"

    @property
    def about(self) -> str:
        judges = self.result.judges_said() if self.judge == MEAN else self.judge
        lower = r" $\downarrow$" if self.columns[0].lower else ""
        return tex(self.columns[0].metric) + lower + (tex(f", {judges}") if judges else "")

    def digits(self, column: int) -> int:
        return digits_of(cells[column].value for cells in self.cells.values())


@dataclass(frozen=True)
class Printed:
    """A row of numbers that papers have printed, each in the column of its benchmark."""

    name: str
    differs: str
    numbers: Mapping[tuple[int, int], PublishedValue]
    """By group and column."""


def overview(results: Sequence[Result], *, published: Published = "run", openness: Openness | None = None) -> str:
    """The table as LaTeX, for booktabs; benchmarks that do not fit beside each other stand below."""
    groups = [group for result in results for group in groups_of(result, openness or Openness())]
    printed = printed_rows(groups, published) if published != "none" else []
    panels: list[list[int]] = [[]]
    for number, group in enumerate(groups):
        if panels[-1] and sum(len(groups[n].columns) for n in panels[-1]) + len(group.columns) > _ACROSS:
            panels.append([])
        panels[-1].append(number)
    bodies = [_tabular(groups, printed, panel) for panel in panels]
    wide = any(is_wide(word) for group in groups for word in (*group.cells, group.judge, group.result.bench.title))
    lines = [WIDE] if wide else []
    lines += [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}[!htp]",
        r"\centering\footnotesize\setlength{\tabcolsep}{4pt}",
        r"\caption[Models by benchmark]{Models by benchmark: the number that each benchmark ranks by.}",
        r"\label{tab:models}",
        "\n\n\\medskip\n".join(bodies),
        "",
        r"\smallskip",
        rf"\parbox{{\linewidth}}{{\scriptsize\raggedright {' '.join(_notes(groups, printed))}}}",
        r"\end{table*}",
        "",
    ]
    return "\n".join(lines)


def groups_of(result: Result, openness: Openness) -> list[Group]:
    """A group for each judge; for the mean of the judges alone where that is the benchmark's own number."""
    table = paper_table(result, published="none", openness=openness)
    whole = [c for c, column in enumerate(table.columns) if column.whole]
    judges = list(dict.fromkeys(entry.judge for entry in table.entries))
    if result.bench.scoring.judges_mean and MEAN in judges:
        judges = [MEAN]
    # What is measured without a judge stands with each judge's numbers of the other models.
    named = [judge for judge in judges if judge] or [""]
    return [_group(result, table, judge, whole) for judge in named]


def _group(result: Result, table: PaperTable, judge: str, whole: Sequence[int]) -> Group:
    entries = {entry.name: entry for entry in table.entries if entry.judge == judge}
    entries |= {e.name: e for e in table.entries if not e.judge and e.name not in entries}
    rows = [cell.row for e in entries.values() if (cell := e.cells[whole[0]]).row is not None]
    enough = frozenset(place.row.model for place in ranked(rows, result.bench.scoring.lower) if place.rank is not None)
    cells = {name: tuple(entry.cells[c] for c in whole) for name, entry in entries.items()}
    return Group(result, judge, tuple(table.columns[c] for c in whole), cells, enough)


def printed_rows(groups: Sequence[Group], published: Published) -> list[Printed]:
    """Numbers of the papers, one row for a model and for what its number was measured with that ours was not."""
    found: dict[tuple[str, str], dict[tuple[int, int], PublishedValue]] = {}
    first = {id(group.result): n for n, group in reversed(list(enumerate(groups)))}
    for result in {id(group.result): group.result for group in groups}.values():
        values: Sequence[PublishedValue] = result.bench.reporting.published()
        if published == "run":
            values = [*result.published(), *(value for _, value in result.published_apart())]
        for value in values:
            number = next(
                (n for n, g in enumerate(groups) if g.result is result and result.same_judge(g.judge, value.judge)),
                first[id(result)],
            )
            columns = groups[number].columns
            if value.metric != columns[0].metric or dict(value.slice) != OVERALL:
                continue
            place = next((c for c, column in enumerate(columns) if column.protocol == "paper"), 0)
            differs = result.differs(value, columns[place].protocol)
            name = f"{value.label} ({value.judge})" if differs and value.judge else value.label
            found.setdefault((name, differs), {}).setdefault((number, place), value)
    return [Printed(name, differs, numbers) for (name, differs), numbers in found.items()]


def _tabular(groups: Sequence[Group], printed: Sequence[Printed], panel: Sequence[int]) -> str:
    columns = [(n, c) for n in panel for c in range(len(groups[n].columns))]
    models = list(dict.fromkeys(model for group in groups for model in group.cells))
    heads: list[list[str]] = [[""], [""], ["model"]]
    rules, place = [], 2
    for n in panel:
        group, span = groups[n], 2 * len(groups[n].columns)
        # A title may not widen its columns: it wraps.
        heads[0].append(rf"\multicolumn{{{span}}}{{c}}{{\parbox[b]{{{span * 4:.1f}em}}{{\centering {group.title}}}}}")
        heads[1].append(
            rf"\multicolumn{{{span}}}{{c}}{{\parbox[t]{{{span * 4:.1f}em}}{{\centering {group.about}\strut}}}}"
        )
        heads[2] += [rf"\multicolumn{{2}}{{c}}{{{tex(column.protocol)}}}" for column in group.columns]
        rules.append(rf"\cmidrule(lr){{{place}-{place + span - 1}}}")
        place += span
    lines = [rf"\begin{{tabular}}{{l{'r@{~}l' * len(columns)}}}", r"\toprule"]
    lines += [
        " & ".join(heads[0]) + r" \\",
        " & ".join(heads[1]) + r" \\",
        "".join(rules),
        " & ".join(heads[2]) + r" \\",
    ]
    lines.append(r"\midrule")
    for model in models:
        if any(model in groups[n].cells for n in panel):
            cells = [part for n, c in columns for part in _ours(groups[n], model, c)]
            lines.append("{}" + " & ".join([tex(model), *cells]) + r" \\")
    across = 1 + 2 * len(columns)
    for differs in dict.fromkeys(row.differs for row in printed):
        rows = [row for row in printed if row.differs == differs and any(place in row.numbers for place in columns)]
        if not rows:
            continue
        said = f"with {differs}: not the same measurement" if differs else "measured alike"
        words = rf"\textit{{Published, {tex(said)}}}$^{{\dagger}}$"
        lines += [r"\midrule", rf"\multicolumn{{{across}}}{{l}}{{{words}}} \\"]
        for row in rows:
            cells = [part for place in columns for part in _theirs(groups, row, place)]
            lines.append("{}" + " & ".join([rf"\textit{{{tex(row.name)}}}", *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _ours(group: Group, model: str, column: int) -> tuple[str, str]:
    """A number of ours and what stands beside it: half the interval, and the count where it is not about all."""
    cell = group.cells[model][column] if model in group.cells else None
    if cell is None or cell.row is None:
        return "", ""
    row = cell.row
    if cell.value is None:
        return "--", rf"{{\tiny {row.n_scored}/{row.n_expected}}}"
    number = f"{cell.value:.{group.digits(column)}f}"
    number = {"best": rf"\textbf{{{number}}}", "second": rf"\underline{{{number}}}", "": number}[cell.mark]
    number = rf"$\approx${number}" if row.estimate is not None else number
    number = number if model in group.ranked else f"({number})"
    beside = []
    if row.ci95 is not None:
        beside.append(rf"{{\scriptsize $\pm$\,{(row.ci95[1] - row.ci95[0]) / 2:.{group.digits(column)}f}}}")
    if row.n_scored < row.n_expected and row.estimate is None:
        beside.append(rf"{{\tiny {row.n_scored}/{row.n_expected}}}")
    return number, " ".join(beside)


def _theirs(groups: Sequence[Group], row: Printed, place: tuple[int, int]) -> tuple[str, str]:
    value = row.numbers.get(place)
    if value is None:
        return "", ""
    digits = max(groups[place[0]].digits(place[1]), 0)
    return rf"\textit{{{value.value:.{digits}f}}}", ""


def _notes(groups: Sequence[Group], printed: Sequence[Printed]) -> list[str]:
    cells = [(group, model, cell) for group in groups for model, of_model in group.cells.items() for cell in of_model]
    rows: list[Row] = [cell.row for _, _, cell in cells if cell.row is not None]
    valued = [
        (group, model, cell.row) for group, model, cell in cells if cell.row is not None and cell.value is not None
    ]
    notes = []
    if any(cell.mark for _, _, cell in cells):
        notes.append(r"\textbf{Best} and \underline{second} in a column, of the rows that were measured here.")
    if any(row.ci95 for row in rows):
        notes.append(r"$\pm$: half the width of the 95\,\% interval over clusters of cases.")
    if any(group.columns[0].lower for group in groups):
        notes.append(r"$\downarrow$: lower is better.")
    if any(row.n_scored < row.n_expected and row.estimate is None for row in rows):
        notes.append(
            "Small counts: pictures with a value, of those expected; what failed is in no mean or as the protocol says."
        )
    if any(model not in group.ranked for group, model, _ in valued):
        notes.append("In brackets: about too few of its cases to be ranked.")
    if any(row.estimate is not None for _, _, row in valued):
        notes.append(r"$\approx$: estimated from a part of the calls.")
    if any(cell.value is None for _, _, cell in cells):
        notes.append("--: no value. Empty: not run.")
    elif any(model not in group.cells for group in groups for model in {m for g in groups for m in g.cells}):
        notes.append("Empty: not run.")
    where: dict[str, dict[str, None]] = {}
    for row in printed:
        for (n, _), value in row.numbers.items():
            where.setdefault(groups[n].result.bench.title, {})[table_said(value.table)] = None
    if where:
        said = "; ".join(f"{title}, {', '.join(tables)}" for title, tables in where.items())
        notes.append(r"$^{\dagger}$" + tex(f" As printed in the papers ({said}): not measured here, not ranked."))
    prints = "; ".join(f"{g.result.bench.title} {g.result.table.fingerprint}" for g in groups)
    notes.append(tex(f"Fingerprints: {prints}."))
    return notes
