"""Chunks `<board>/figures/<k>`: what can be drawn of a board under one protocol and judge, as SVG with its numbers,
each with the cases behind it. The drawing is that of `refbench figure`, and follows the page into the dark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from refbench.record import RefBenchError
from refbench.report.figures.catalogue import entries
from refbench.report.figures.chart import Chart, Panel, Series, Value
from refbench.report.figures.drawing import draw
from refbench.report.figures.palette import COLOURS, DARK
from refbench.report.figures.svg import BAND, FAINT, INK, PAPER, RULE, SOFT, isolated
from refbench.report.figures.view import FigureOptions, TableView
from refbench.report.site.boards import REFERENCES, Board
from refbench.report.site.contract import FigureRow, FiguresChunk, FigureView

_GROUND = {
    INK: ("ink", "#ebebe8"),
    SOFT: ("soft", "#a9adb6"),
    FAINT: ("faint", "#8a8d94"),
    RULE: ("line", "#2e3138"),
    PAPER: ("surface", "#1b1d21"),
    BAND: ("sunken", "#23262b"),
}
"""Words, lines and grounds: the name of each on the pages, and what it is in the dark."""
_NEUTRAL = {"#3f434b": ("neutral", "#c3c6cd")}
_MODELS = {light: (f"m{n}", dark) for n, (light, dark) in enumerate(zip(COLOURS, DARK, strict=True))}
THEME = {**_GROUND, **_NEUTRAL, **_MODELS}
"""By the colour on paper: the page's variable, and the colour in the dark. What is not here (the colours of a table,
and what is read on them) is the same on any ground."""
_COLOUR = re.compile(r'(?<==")(#[0-9a-f]{6})(?=")')


def families(board: Board) -> list[tuple[str, str | None]]:
    """Protocol and judge of each chunk, in order: those that have a number or a failure of the summary measure."""
    there = {(row.protocol, row.judge) for row in board.result.rows(level="overall")}
    shown = [(protocol, judge) for protocol in board.protocols for judge in board.judges]
    return [(protocol, judge) for protocol, judge in shown if (protocol, judge) in there and _shown(board, judge)]


def _shown(board: Board, judge: str | None) -> bool:
    """Whether one can choose it: what is measured without a judge stands beside each judge's marks."""
    return judge is not None or all(one is None for one in board.judges)


def figures_chunk(board: Board, number: int) -> FiguresChunk:
    """Every figure that can be drawn under one protocol and judge, and of the others why not."""
    protocol, judge = families(board)[number]
    view = TableView(
        board.result,
        FigureOptions(protocol=protocol, judge=judge, styles=board.styles),
        tuple(run.path for run in board.runs),
        board.compared.get((protocol, judge)),
        [row for row in board.rows if row.slice["level"] == REFERENCES],
        board.outputs,
    )
    found: list[FigureView] = []
    why_not: dict[str, str] = {}
    behind = _Behind(board, view)
    for name, entry in entries(board.result).items():
        try:
            chart = entry.make(view)
            if chart.scored:
                found.append(figure_view(chart, entry.shows, behind.cases))
            else:
                why_not[name] = "nothing is scored that it would show"
        except RefBenchError as error:
            why_not[name] = str(error)
    return FiguresChunk(protocol=protocol, judge=board.judge_numbers[judge], figures=found, why_not=why_not)


def figure_view(chart: Chart, shows: str, behind: Callable[[Panel, str, str], Mapping[str, str]]) -> FigureView:
    """A figure as pages have it. `behind` tells of a panel's series and category which cases are behind the mark."""
    return FigureView(
        name=chart.name,
        title=chart.title,
        shows="" if "--" in shows else shows,  # of options that pages do not have
        svg=themed(draw(chart)),
        rows=[
            _row(panel, series, category, value, behind(panel, series.name, category))
            for panel in chart.panels
            for series in panel.series
            for category, value in zip(panel.categories, series.values, strict=True)
        ],
    )


def _row(panel: Panel, series: Series, category: str, value: Value, to: Mapping[str, str]) -> FigureRow:
    return FigureRow(
        panel=panel.title or panel.axis.label,
        series=series.name,
        category=category,
        value=value.value,
        low=value.low,
        high=value.high,
        across=value.across,
        digits=panel.axis.digits,
        why=value.why,
        about=value.about,
        to=to,
    )


@dataclass(frozen=True)
class _Behind:
    """What a mark is about, as the pages' addresses say it."""

    board: Board
    view: TableView

    @cached_property
    def _slices(self) -> dict[str, dict[str, Mapping[str, str]]]:
        """By level: its slices by what figures call them."""
        return {level: dict(self.view.slices(level)) for level in self.view.levels()}

    @cached_property
    def _groups(self) -> set[str]:
        return {name for case in self.board.cases for name in case.groups}

    @cached_property
    def _pairs(self) -> dict[str, str]:
        """What a gap is called, and which pair it is."""
        models: Sequence[tuple[int, str]] = [(n, isolated(model.name)) for n, model in enumerate(self.board.models)]
        return {f"{one} − {two}": f"{a}-{b}" for a, one in models for b, two in models if a != b}

    def _level(self, panel: Panel) -> str:
        """The level that the categories of a panel are slices of; empty where they are something else."""
        named = set(panel.categories)
        if panel.over == "number of references":
            return REFERENCES
        return next((level for level, slices in self._slices.items() if named and named <= slices.keys()), "")

    def cases(self, panel: Panel, series: str, category: str) -> dict[str, str]:
        """State of the page of cases (or, with `pair`, of comparisons) that shows what is behind a mark; empty where
        there is nothing further to see."""
        if category in self._pairs and series == "gap":
            return {"pair": self._pairs[category]}
        numbers = self.board.model_numbers
        model = numbers.get(series, numbers.get(category))
        found: dict[str, Any] = {} if model is None else {"model": str(model), "sort": "worst"}
        level = self._level(panel)
        if level == REFERENCES:
            found["refs"] = category
        for name, value in self._slices.get(level, {}).get(category, {}).items():
            if name in self._groups:
                found[f"g.{name}"] = value
        return found


def themed(svg: str) -> str:
    """A drawing whose colours are variables, each with its colour on paper for where there is no such variable."""
    return _COLOUR.sub(lambda found: _variable(found[1]), svg)


def _variable(colour: str) -> str:
    return f"var(--{THEME[colour][0]}, {colour})" if colour in THEME else colour
