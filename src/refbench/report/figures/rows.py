"""Numbers on intervals that lie: a row for each task with a mark for each model, or a row for each gap."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refbench.report.figures.chart import Chart, Panel, Value
from refbench.report.figures.page import ESTIMATED, GAP, MARGIN, axis_title, missing, page, value_mark
from refbench.report.figures.palette import Style, short_names
from refbench.report.figures.svg import (
    BAND,
    FAINT,
    INK,
    RULE,
    SOFT,
    line,
    mark,
    text,
    tick_label,
    ticks,
    width_of,
)

_NAMES, _SIZE = 230.0, 11.0
_LANE, _PAD = 8.0, 10.0


def rows(chart: Chart) -> str:
    """A row for each category; the marks of a row stand in lanes, so that no interval hides another."""
    return page(chart, lambda top: _body(chart, top), legend=len(chart.series) > 1)


def forest(chart: Chart) -> str:
    """A row for each gap with its interval, beside a line at zero. What is not resolved is hollow."""
    return page(chart, lambda top: _body(chart, top, at_zero=True), legend=False)


def _body(chart: Chart, top: float, *, at_zero: bool = False) -> tuple[list[str], float]:
    """Panels beside each other share their rows where they have the same; else they follow below."""
    same = all(panel.categories == chart.panels[0].categories for panel in chart.panels)
    across = len(chart.panels) if same and len(chart.panels) <= 3 else 1
    parts: list[str] = []
    y = top
    for start in range(0, len(chart.panels), across):
        drawn, y = _beside(chart, chart.panels[start : start + across], y, at_zero)
        parts += drawn
    return parts, y


def _beside(chart: Chart, panels: Sequence[Panel], top: float, at_zero: bool) -> tuple[list[str], float]:
    labels = list(chart.labels) or list(panels[0].categories)
    # Pairs are made of names that were shortened one by one.
    names = {name: name for name in labels} if chart.labels else short_names(labels, _NAMES, _SIZE)
    left = MARGIN + min(_NAMES + 40, max(width_of(name, _SIZE) for name in names.values())) + 10
    width = (chart.width - MARGIN - left - GAP * (len(panels) - 1)) / len(panels)
    heights = _PAD + _LANE * max(len(panel.series) for panel in panels)
    parts: list[str] = []
    first = top + 34
    bottom = first + heights * len(labels)
    for n, name in enumerate(labels):
        y = first + heights * (n + 0.5)
        if n % 2 == 0:
            band = f'<rect x="{MARGIN:g}" y="{y - heights / 2:.1f}" width="{chart.width - 2 * MARGIN:.1f}" height='
            parts.append(f'{band}"{heights:.1f}" fill="{BAND}"/>')
        words = names[name] if panels[0].marks or chart.labels else names[name].replace("_", " ")
        word = text((left - 8, y + 4), words, f'text-anchor="end" font-size="{_SIZE:g}"')
        parts.append(word)
    for p, panel in enumerate(panels):
        start = left + p * (width + GAP)
        parts += axis_title(panel, start, top + 8, width)
        ends = panel.axis.range_of([*panel.values, Value(0.0)] if at_zero else panel.values)
        parts += _grid(ends, (start, first, start + width, bottom), at_zero)
        parts += _marks(chart, panel, ends, (start, first, width, heights), hollow=at_zero)
    return parts, bottom + 22


def _grid(ends: tuple[float, float], frame: tuple[float, float, float, float], at_zero: bool) -> list[str]:
    left, top, right, bottom = frame
    parts = []
    for tick in ticks(ends):
        x = left + (tick - ends[0]) / (ends[1] - ends[0]) * (right - left)
        zero = at_zero and abs(tick) < 1e-9
        parts.append(line((x, top), (x, bottom), INK if zero else RULE, 1.2 if zero else 1))
        parts.append(
            text((x, bottom + 13), tick_label(tick), f'class="tick" text-anchor="middle" font-size="10" fill="{SOFT}"')
        )
    return parts


def _marks(
    chart: Chart, panel: Panel, ends: tuple[float, float], place: tuple[float, float, float, float], *, hollow: bool
) -> list[str]:
    left, top, width, height = place

    def x(value: float) -> float:
        return left + (value - ends[0]) / (ends[1] - ends[0]) * width

    parts = []
    for s, series in enumerate(panel.series):
        for c, value in enumerate(series.values):
            y = top + height * (c + 0.5) + (s - (len(panel.series) - 1) / 2) * _LANE
            style = panel.marks[c] if panel.marks else series.style
            shapes = _lying(value, x, y, style, hollow and not value.leads)
            if value.value is None:
                shapes = _absent(value, left, y, style, alone=len(panel.series) == 1)
            parts.append(value_mark(panel, series, c, shapes, chart.links))
    return parts


def _lying(value: Value, x: Callable[[float], float], y: float, style: Style, hollow: bool) -> str:
    if value.value is None:
        return ""
    colour = style.colour
    parts = ""
    if value.ends is not None:
        low, high = (x(end) for end in value.ends)
        caps = "".join(line((end, y - 2.5), (end, y + 2.5), colour, 1.2) for end in (low, high))
        parts = line((low, y), (high, y), colour, 1.5, ESTIMATED if value.estimated else "") + caps
    return parts + mark(style.shape, (x(value.value), y), colour, 3.6, hollow=hollow or value.few)


def _absent(value: Value, left: float, y: float, style: Style, *, alone: bool) -> str:
    """An x at the left end, and in words why, where there is room for them."""
    words = text((left + 12, y + 3.5), value.why, f'font-size="9" fill="{FAINT}"') if alone else ""
    return missing((left + 5, y), style.colour) + words
