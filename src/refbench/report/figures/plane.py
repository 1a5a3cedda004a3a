"""Points in a plane, what is worth having against what it takes, with the frontier: those that no other is both better
and cheaper than.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import log10

from refbench.report.figures.chart import Chart, Panel
from refbench.report.figures.page import MARGIN, axis_lines, axis_title, page, panels, upright, value_mark
from refbench.report.figures.svg import FAINT, INK, RULE, SOFT, line, text, tick_label, ticks

_LEFT, _HEIGHT = 52.0, 300.0
_DECADES = 1.3
"""Powers of ten from the cheapest to the dearest from which their axis has a step for each."""


def scatter(chart: Chart) -> str:
    """A point for each model, its interval upright, and its letter beside it."""

    return page(chart, panels(chart, _panel))


def _panel(chart: Chart, panel: Panel, top: float) -> tuple[list[str], float]:
    left, right = MARGIN + _LEFT, chart.width - MARGIN - 12
    first, bottom = top + 30, top + 30 + _HEIGHT
    known = [value for value in panel.values if value.value is not None and value.across is not None]
    ends = panel.axis.range_of(known)
    place, marks, by_size = _across([value.across or 0.0 for value in known], left + 14, right - 14)
    parts = axis_title(panel, MARGIN, top + 10, right - left)
    parts += axis_lines(panel.axis, ends, (left, first, right, bottom))
    for tick in marks:
        parts.append(line((place(tick), first), (place(tick), bottom), RULE))
        label = text(
            (place(tick), bottom + 13),
            tick_label(tick),
            f'class="tick" text-anchor="middle" font-size="10" fill="{SOFT}"',
        )
        parts.append(label)
    assert panel.across is not None
    words = f"{panel.across.words}, logarithmic" if by_size else panel.across.words
    parts.append(text(((left + right) / 2, bottom + 30), words, 'text-anchor="middle"'))

    def height(value: float) -> float:
        return bottom - (value - ends[0]) / (ends[1] - ends[0]) * (bottom - first)

    leading = sorted((value.across or 0.0, value.value or 0.0) for value in known if value.leads)
    for (x1, y1), (x2, y2) in pairwise(leading):
        parts.append(line((place(x1), height(y1)), (place(x2), height(y1)), FAINT, 1, "3 3"))
        parts.append(line((place(x2), height(y1)), (place(x2), height(y2)), FAINT, 1, "3 3"))
    for series in panel.series:
        for number, value in enumerate(series.values):
            if value.value is None or value.across is None:
                parts.append(value_mark(panel, series, number, ""))
                continue
            x = place(value.across)
            shapes = upright(value, height, x, bottom, series)
            shapes += text((x + 7, height(value.value) - 5), series.style.letter, f'font-size="10" fill="{INK}"')
            parts.append(value_mark(panel, series, number, shapes, chart.links))
    return parts, bottom + 44


def _across(values: list[float], left: float, right: float) -> tuple[Callable[[float], float], list[float], bool]:
    """Where amounts stand, from left to right, and the ticks; by their logarithm (True) where they are of different
    sizes."""
    low, high = min(values), max(values)
    if low > 0 and log10(high / low) > _DECADES:
        first, last = log10(low), log10(high)
        decades = [10.0**n for n in range(int(first // 1), int(-(-last // 1)) + 1)]
        marks = [one for one in decades if low <= one * 1.0001 and one <= high * 1.0001] or [low, high]
        return (lambda value: left + (log10(value) - first) / (last - first) * (right - left)), marks, True
    start, end = min(0.0, low), (high * 1.06 or 1.0)
    return (lambda value: left + (value - start) / (end - start) * (right - left)), ticks((start, end)), False
