"""How many of a whole each part is: a lying bar for each, with its number and its share in words."""

from __future__ import annotations

from collections.abc import Mapping

from refbench.report.figures.chart import Chart, Panel
from refbench.report.figures.page import MARGIN, axis_title, page, value_mark
from refbench.report.figures.palette import short_names
from refbench.report.figures.svg import FAINT, SOFT, Point, box, line, text, width_of

_ROW, _BAR, _SIZE = 19.0, 12.0, 11.0
_SAID = 92.0
"""Room at the right of the longest bar for its number."""


def shares(chart: Chart) -> str:
    """A panel after another, all on one scale."""
    highest = max((value.value or 0.0 for panel in chart.panels for value in panel.values), default=1.0) or 1.0

    known = [short_names(list(panel.categories), 0.36 * chart.width, _SIZE) for panel in chart.panels]
    left = MARGIN + max(width_of(name, _SIZE) for names in known for name in names.values()) + 10

    def body(top: float) -> tuple[list[str], float]:
        parts: list[str] = []
        y = top
        for panel, names in zip(chart.panels, known, strict=True):
            drawn, y = _panel(chart, panel, names, (left, y), highest)
            parts += drawn
        return parts, y

    return page(chart, body, legend=False)


def _panel(
    chart: Chart, panel: Panel, names: Mapping[str, str], place: Point, highest: float
) -> tuple[list[str], float]:
    left, top = place
    room = chart.width - MARGIN - _SAID - left
    parts = axis_title(panel, MARGIN, top + 12, chart.width - 2 * MARGIN)
    y = top + 24
    (series,) = panel.series
    for number, (name, value) in enumerate(zip(panel.categories, series.values, strict=True)):
        count = value.value or 0.0
        bar = box(
            (left, y + (_ROW - _BAR) / 2), (count / highest * room, _BAR), series.style.colour, 'fill-opacity="0.6"'
        )
        middle = y + _ROW / 2 + 4
        parts.append(text((left - 6, middle), names[name], f'text-anchor="end" font-size="{_SIZE:g}"'))
        parts.append(value_mark(panel, series, number, bar, chart.links))
        parts.append(text((left + count / highest * room + 6, middle), value.about, f'font-size="10" fill="{SOFT}"'))
        y += _ROW
    parts.append(line((left, top + 24), (left, y), FAINT))
    return parts, y + 16
