"""Bars and lines: numbers upward, categories across, a panel for each measure or group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from refbench.report.figures.chart import Chart, Panel
from refbench.report.figures.page import (
    GAP,
    MARGIN,
    axis_lines,
    axis_title,
    category_labels,
    page,
    upright,
    value_mark,
)
from refbench.report.figures.svg import FAINT, SOFT, box, line, text

_HEIGHT, _LOW, _AXIS = 190.0, 132.0, 42.0
_MANY = 3
"""Rows of panels from which each is drawn lower, so that all are on one page."""
_LEAST_BAR, _MOST_BAR = 7.0, 30.0
_BETWEEN = 12.0
"""Room between the groups of bars."""
_MOST_STEP = 130.0
"""Room that a category takes at most: two of them are not drawn across the page."""
_LEAST_STEP = 34.0
"""Room that a category of a line needs."""


def bars_fit(chart: Chart) -> bool:
    """Whether the bars of every panel are broad enough to be told apart."""
    room = chart.width - 2 * MARGIN - _AXIS
    return all(_least_width(panel) <= room for panel in chart.panels)


def _least_width(panel: Panel) -> float:
    return len(panel.categories) * (len(panel.series) * _LEAST_BAR + _BETWEEN)


def bars(chart: Chart) -> str:
    """Groups of bars, each with its interval. They start at the lower end of the scale."""

    def draw(panel: Panel, place: Place) -> tuple[list[str], float]:
        left, top, width, height = place
        ends = panel.axis.range_of(panel.values, from_end=True)
        step = width / len(panel.categories)
        bar = min((step - _BETWEEN) / len(panel.series), _MOST_BAR)
        bottom, scale = top + height, _scale(ends, top, height)
        base = scale(max(ends[0], 0.0) if ends[0] <= 0 <= ends[1] and panel.axis.low is None else ends[0])
        parts = axis_lines(panel.axis, ends, (left, top, left + width, bottom), from_end=True)
        parts.append(line((left, base), (left + width, base), FAINT))
        for s, series in enumerate(panel.series):
            for c, value in enumerate(series.values):
                x = left + (c + 0.5) * step + (s - (len(panel.series) - 1) / 2) * bar
                shapes = ""
                if value.value is not None:
                    y = scale(value.value)
                    corner, size = (x - bar * 0.44, min(y, base)), (bar * 0.88, abs(base - y))
                    shapes = box(corner, size, series.style.colour, 'fill-opacity="0.3"')
                shapes += upright(value, scale, x, bottom, series)
                parts.append(value_mark(panel, series, c, shapes, chart.links))
        return _with_categories(panel, parts, left, bottom, step)

    return page(chart, lambda top: _panels(chart, top, draw, _least_width))


def lines(chart: Chart) -> str:
    """Lines over ordered categories, broken where a number is missing. Marks stand a little apart, so that intervals do
    not hide each other."""

    def draw(panel: Panel, place: Place) -> tuple[list[str], float]:
        left, top, width, height = place
        ends = panel.axis.range_of(panel.values)
        step = width / len(panel.categories)
        bottom, scale = top + height, _scale(ends, top, height)
        parts = axis_lines(panel.axis, ends, (left, top, left + width, bottom))
        apart = min(7.0, 0.5 * step / max(len(panel.series), 1))
        for s, series in enumerate(panel.series):
            shift = (s - (len(panel.series) - 1) / 2) * apart
            places = [left + (c + 0.5) * step + shift for c in range(len(panel.categories))]
            for (x1, one), (x2, two) in pairwise(zip(places, series.values, strict=True)):
                if one.value is not None and two.value is not None:
                    there = (x1, scale(one.value)), (x2, scale(two.value))
                    parts.append(line(*there, series.style.colour, 1.6, series.style.dash))
            for c, (x, value) in enumerate(zip(places, series.values, strict=True)):
                shapes = upright(value, scale, x, bottom, series)
                parts.append(value_mark(panel, series, c, shapes, chart.links))
        return _with_categories(panel, parts, left, bottom, step)

    def least(panel: Panel) -> float:
        return len(panel.categories) * max(_LEAST_STEP, 4.0 * len(panel.series))

    return page(chart, lambda top: _panels(chart, top, draw, least))


Place = tuple[float, float, float, float]
"""Left, top, width and height of what is drawn in."""
Draw = Callable[[Panel, Place], tuple[list[str], float]]


def _panels(chart: Chart, top: float, draw: Draw, least: Callable[[Panel], float]) -> tuple[list[str], float]:
    """Panels beside each other as far as they have room, in rows."""
    room = chart.width - 2 * MARGIN
    needed = max(max(least(panel), 150.0) for panel in chart.panels) + _AXIS
    across = max(1, min(len(chart.panels), int((room + GAP) // (needed + GAP)), 3))
    width = (room - GAP * (across - 1)) / across
    height = _LOW if -(-len(chart.panels) // across) > _MANY else _HEIGHT
    parts: list[str] = []
    y = top
    for start in range(0, len(chart.panels), across):
        below = y
        for n, panel in enumerate(chart.panels[start : start + across]):
            left = MARGIN + n * (width + GAP)
            parts += axis_title(panel, left, y + 12, width)
            below_it = chart.panels[start + n + across : start + n + across + 1]
            # What the categories are is said once, below the last that has them.
            shown = replace(panel, over="") if below_it and below_it[0].over == panel.over else panel
            across_it = min(width - _AXIS, _MOST_STEP * len(panel.categories))
            drawn, end = draw(shown, (left + _AXIS, y + 34, across_it, height))
            parts += drawn
            below = max(below, end)
        y = below + 14
    return parts, y


def _scale(ends: tuple[float, float], top: float, height: float) -> Callable[[float], float]:
    low, high = ends
    return lambda value: top + (high - value) / (high - low) * height


def _with_categories(
    panel: Panel, parts: Sequence[str], left: float, bottom: float, step: float
) -> tuple[list[str], float]:
    places = [left + (c + 0.5) * step for c in range(len(panel.categories))]
    labels, height = category_labels(panel.categories, places, bottom, step)
    below = bottom + height
    if panel.over:
        middle = (places[0] + places[-1]) / 2
        labels.append(text((middle, below + 11), panel.over, f'text-anchor="middle" font-size="11" fill="{SOFT}"'))
        below += 14
    return [*parts, *labels], below
