"""How numbers are spread: a row of columns for each model, of one scale in all, with its mean and interval above."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from refbench.report.figures.chart import Chart, Panel, Series
from refbench.report.figures.page import GAP, MARGIN, axis_title, page, panels, value_mark
from refbench.report.figures.palette import short_names
from refbench.report.figures.svg import FAINT, INK, RULE, SOFT, box, line, mark, text, tick_label, ticks, width_of

_ROW, _SIZE = 58.0, 11.0
_ASIDE = 92.0
"""Room at the right for what is in no column."""


def histogram(chart: Chart) -> str:
    """Columns are counts: `value` of each category, whose name is the lower edge. What failed stands at the right, in
    words, and in no column."""

    return page(chart, panels(chart, _panel), legend=False)


def _panel(chart: Chart, panel: Panel, top: float) -> tuple[list[str], float]:
    names = short_names([series.name for series in panel.series], 170, _SIZE)
    left = MARGIN + max(width_of(name, _SIZE) for name in names.values()) + 26
    right = chart.width - MARGIN - (_ASIDE if any(series.aside for series in panel.series) else 8)
    edges = [float(name) for name in panel.categories]
    width = edges[1] - edges[0] if len(edges) > 1 else 1.0
    step = (right - left) / max(len(edges), 1)
    highest = max((value.value or 0.0 for value in panel.values), default=0.0) or 1.0
    parts = axis_title(panel, MARGIN, top + 10, chart.width - 2 * MARGIN)
    y = top + 22
    for series in panel.series:
        base = y + _ROW - 8
        parts.append(line((left, base), (right, base), FAINT))
        parts.append(mark(series.style.shape, (left - 12, base - 12), series.style.colour, 4))
        parts.append(
            text(
                (left - (22 if series.style.shape else 8), base - 8),
                names[series.name],
                f'text-anchor="end" font-size="{_SIZE:g}"',
            )
        )
        for n, value in enumerate(series.values):
            height = (value.value or 0.0) / highest * (_ROW - 24)
            shapes = box(
                (left + n * step + 0.7, base - height), (step - 1.4, height), series.style.colour, 'fill-opacity="0.55"'
            )
            parts.append(value_mark(panel, series, n, shapes, chart.links))
        parts += [_mean(panel, series, lambda v: left + (v - edges[0]) / width * step, y + 9)] if series.mean else []
        parts += _aside(series, right + 8, base)
        y += _ROW
    for tick in ticks((edges[0], edges[-1] + width), max(2, int((right - left) // 34))) if edges else []:
        x = left + (tick - edges[0]) / width * step
        parts.append(line((x, y - 8), (x, y - 4), RULE))
        parts.append(
            text((x, y + 6), tick_label(tick), f'class="tick" text-anchor="middle" font-size="10" fill="{SOFT}"')
        )
    if panel.across is not None:
        parts.append(
            text(((left + right) / 2, y + 21), panel.across.words, f'text-anchor="middle" font-size="{_SIZE:g}"')
        )
    return parts, y + 26 + GAP / 2


def _mean(panel: Panel, series: Series, x: Callable[[float], float], y: float) -> str:
    """The mean that the table has, on its interval, above the columns."""
    value = series.mean
    if value is None or value.value is None:
        return ""
    ends = [(x(end), y) for end in value.ends or ()]
    shapes = line(ends[0], ends[1], INK, 1.4) if ends else ""
    shapes += mark("diamond", (x(value.value), y), INK, 3.2)
    axis = panel.across or panel.axis
    alone = Panel(axis, ("mean",), (replace(series, values=(value,)),), panel.title)
    return value_mark(alone, alone.series[0], 0, shapes)


def _aside(series: Series, x: float, base: float) -> list[str]:
    """What stands beside a row."""
    quiet = f'font-size="9.5" fill="{SOFT}"'
    return [text((x, base - 26 + 12 * n), one, quiet) for n, one in enumerate(series.aside[:3])]
