"""Agreement for a person at a terminal: a table for each kind of pair, what the figures are, and what is missing."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from refbench.analysis.agree.rows import LEVELS, AgreementRow, Figure
from refbench.analysis.agree.runs import Agreement
from refbench.benchmarks.kit.published import FailureRate
from refbench.stats.agreement import FIGURES
from refbench.text.console import console, csv_cell
from refbench.text.tables import Grid

_TITLES = {
    "judge-human": "Judges with people",
    "judge-judge": "Judges with judges",
    "human-pairs": "People with people",
    "humans": "All people together",
    "human-human": "Each pair of people",
    "human-others": "Each person with the mean of the others",
}
_DETAIL = ("human-human", "human-others")
"""Kinds of which only the first level is shown; all levels are in --json and --csv."""
_WIDE = 124
"""Columns of a terminal on which all figures stand side by side."""
_FEWEST = 3


def print_agreement(found: Agreement, *, out: Console | None = None) -> None:
    """Print every table there is, then what one should know before believing it."""
    out = out or console()
    protocol = f", {found.protocol}" if found.protocol else ""
    people = f" (people: {', '.join(found.humans)})" if found.humans else ""
    out.print(Text(f"Raters of {', '.join(found.sources)}{protocol}: {', '.join(found.raters)}{people}", style="bold"))
    shown = [row for row in found.rows if row.n >= _FEWEST]
    parts = [FIGURES] if out.width >= _WIDE else [FIGURES[:5], FIGURES[5:]]
    for kind in dict.fromkeys(row.kind for row in shown):
        rows = [row for row in shown if row.kind == kind]
        if kind in _DETAIL:
            rows = [row for row in rows if row.level == rows[0].level]
        for figures in parts:
            there = [name for name in figures if any(name in row.figures for row in rows)]
            if there:
                out.print(_figures(rows, there, _TITLES[kind]))
    if shown:
        _print_words(found, shown, out)
    _print_hidden([row for row in found.rows if row.n < _FEWEST], out)
    _print_failures(found.failures, out)
    _print_steadiness(found, out)
    _print_preferences(found, out)
    for note in found.notes:
        out.print(Text(f"Note: {note}."))
    if found.verdicts:
        out.print(Text("\nVerdict", style="bold"))
    for verdict in found.verdicts:
        out.print(Text(f"{verdict[:1].upper()}{verdict[1:]}."))


def _grid(title: str, names: Sequence[str], numbers: Sequence[str], max_width: int | None = None) -> Grid:
    """An empty table: columns of names, which fold, and of numbers."""
    grid = Grid(title=f"\n{title}", title_justify="left", names=len(names))
    for name in names:
        grid.add_column(name, max_width=max_width)
    for name in numbers:
        grid.add_column(Text(name), justify="right")
    return grid


def _figures(rows: Sequence[AgreementRow], figures: Sequence[str], title: str) -> Grid:
    grouped = any(row.group for row in rows)
    names = ("level", "raters", "metric", *(["group"] if grouped else []))
    grid = _grid(title, names, ("n", *figures), max_width=28)
    before: list[str] = []
    pairs = list(dict.fromkeys((row.first, row.second) for row in rows))
    for row in sorted(rows, key=lambda row: (LEVELS.index(row.level), pairs.index((row.first, row.second)))):
        left = [row.level, f"{row.first} ~ {row.second}", row.metric, *([row.group or "all"] if grouped else [])]
        # A name that stands above is not said again, as in a paper's table.
        same = next((i for i, (a, b) in enumerate(zip(left, before, strict=False)) if a != b), len(before))
        before = left
        cells = [_cell(row.figures.get(name)) for name in figures]
        grid.add_row(*(Text("" if i < same else name) for i, name in enumerate(left)), str(row.n), *cells)
    return grid


def _cell(figure: Figure | None) -> Text:
    if figure is None:
        return Text("-")
    text = Text(_number(figure.value, 3))
    if figure.ci95 is not None:
        text.append(f"\n{_short(figure.ci95[0])}–{_short(figure.ci95[1])}", style="dim")
    return text


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 1000 else f"{value:.0f}"


def _short(value: float) -> str:
    text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


def _ceilings(rows: Sequence[AgreementRow]) -> list[str]:
    """What people's own disagreement leaves to a judge, for each metric and level."""
    said = [
        f"{row.metric}{f' ({row.group})' if row.group else ''}, {row.level}: {row.ceiling.value:.3f}"
        + (f" ({_short(row.ceiling.ci95[0])}–{_short(row.ceiling.ci95[1])})" if row.ceiling.ci95 else "")
        for row in rows
        if row.ceiling is not None
    ]
    if not said:
        return []
    return [f"noise ceiling, the highest pearson with these people's mean that is to be had: {'; '.join(said)}"]


def _print_words(found: Agreement, rows: Sequence[AgreementRow], out: Console) -> None:
    bins = list(dict.fromkeys(row.bins for row in rows if row.bins))
    figures = {name for row in rows for name in row.figures}
    lines = [f"interval under each figure: {found.forms['interval']}"]
    lines += [f"kappa: Cohen's, {'; '.join(bins)}"] if bins else []
    lines += [f"{name}: {found.forms[name]}" for name in ("qwk", "alpha", "icc", "mse") if name in figures]
    lines += _ceilings(rows)
    if {row.kind for row in rows} & set(_DETAIL):
        lines.append("pairs and single people at the other levels: --json or --csv")
    if not found.forms["interval"].startswith("none") and any(f.ci95 is None for r in rows for f in r.figures.values()):
        lines.append("a figure without one: the draws do not vary, or do not surround it")
    _print_dim(lines, out)
    for remark in dict.fromkeys(row.remark for row in rows if row.remark):
        out.print(Text(f"Note: {remark}."))
    reasons: dict[str, dict[str, None]] = {}
    for row in rows:
        for name, reason in row.missing.items():
            if row.kind != "humans" or name in ("alpha", "icc"):
                reasons.setdefault(reason, {})[name] = None
    _print_dim([f"- in {', '.join(names)}: {reason}" for reason, names in reasons.items()], out)


def _print_dim(lines: Sequence[str], out: Console) -> None:
    for line in lines:
        out.print(Text(line), style="dim")


def _print_hidden(rows: Sequence[AgreementRow], out: Console) -> None:
    for level in dict.fromkeys(row.level for row in rows):
        most = max(row.n for row in rows if row.level == level)
        what = {"system": "model", "task": "task", "item": "item"}[level] + ("s" if most > 1 else "")
        pairs = list(dict.fromkeys(f"{row.first} ~ {row.second}" for row in rows if row.level == level))
        named = f"{pairs[0]} and {len(pairs) - 1} more" if len(pairs) > 1 else pairs[0]
        out.print(Text(f"Not shown at {level} level: {named}, with at most {most} {what} in common; it takes three."))


def _print_failures(rows: Sequence[FailureRate], out: Console) -> None:
    if not rows:
        return
    models = list(dict.fromkeys(row.model for row in rows))
    grid = _grid("Answers that a rater did not give, in per cent", ["rater"], models)
    for column in grid.columns:
        column.overflow = "fold"
    for judge in dict.fromkeys(row.judge for row in rows):
        mine = {row.model: row for row in rows if row.judge == judge}
        grid.add_row(Text(judge), *(_rate(mine.get(model)) for model in models))
    out.print(grid)
    undecided = sum(row.open for row in rows if row.model != "Total")
    if undecided:
        _print_dim([f"{undecided} questions are open: not asked yet, or the endpoint was not reached."], out)


def _rate(row: FailureRate | None) -> str:
    return "-" if row is None or row.rate is None else f"{row.rate:.2f}\n{row.failed}/{row.questions}"


def _print_steadiness(found: Agreement, out: Console) -> None:
    if not found.steadiness:
        return
    names, numbers = ("rater", "model", "metric", "group"), ("repeats", "items", "mean", "standard error")
    grid = _grid("Over repeats of the same items", names, numbers)
    for row in found.steadiness:
        left = (Text(text) for text in (row.rater, row.model, row.metric, row.group or "all"))
        grid.add_row(*left, str(row.repeats), str(row.n_items), _number(row.mean, 3), f"{row.standard_error:.4f}")
    out.print(grid)


def _print_preferences(found: Agreement, out: Console) -> None:
    if found.preferences is None:
        return
    if found.preferences.rows:
        grid = _grid(
            "Self-preference: own family less others, by the judge and by judges of other families",
            ("judge", "family", "metric", "own", "compared with"),
            ("by itself", "by them", "slope", "above its line", "95 % interval", "placebos", "items"),
        )
        for row in found.preferences.rows:
            off = sorted(row.placebo.values())
            grid.add_row(
                *map(Text, (row.judge, row.family, row.metric, ", ".join(row.own), ", ".join(row.judges))),
                *(f"{value:+.2f}" for value in (row.own_gap, row.their_gap)),
                "1 (assumed)" if row.slope is None else f"{row.slope:.2f}",
                f"{row.difference:+.2f}",
                f"{row.ci95[0]:+.2f} to {row.ci95[1]:+.2f}" if row.ci95 else "-",
                f"{off[0]:+.2f} to {off[-1]:+.2f} ({len(off)}), p = {row.placebo_p:.2g}" if off else "-",
                str(row.n_items),
            )
        out.print(grid)
        if any(row.slope is None for row in found.preferences.rows):
            out.print(
                "Slope 1 (assumed): other families' models are too few or alike to tell how it uses the scale. Its "
                "interval is not to be relied on: a judge that uses more or less of the scale is off by itself."
            )
    for reason in found.preferences.left_out:
        out.print(Text(f"Left out: {reason}."))
    _print_dim([f"- {limit}" for limit in found.preferences.limits], out)


def agreement_csv(found: Agreement) -> str:
    """Every row; each figure has three columns: value and ends of its interval, empty where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    left = ("first", "second", "kind", "level", "metric", "group", "n", "n_cases")
    writer.writerow([*left, *(f"{name}{end}" for name in FIGURES for end in ("", "_low", "_high")), "bins"])
    for row in found.rows:
        cells: list[object] = [getattr(row, name) for name in left]
        for name in FIGURES:
            figure = row.figures.get(name)
            cells += ["", "", ""] if figure is None else [figure.value, *(figure.ci95 or ("", ""))]
        writer.writerow(map(csv_cell, [*cells, row.bins or ""]))
    return text.getvalue()
