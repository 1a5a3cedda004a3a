"""Which drawing a chart gets: the one it is made for, or a table of colours where that would be crowded."""

from __future__ import annotations

from dataclasses import replace

from refbench.record import counted
from refbench.report.figures.chart import Chart
from refbench.report.figures.heatmap import heatmap
from refbench.report.figures.histogram import histogram
from refbench.report.figures.plane import scatter
from refbench.report.figures.radar import radar
from refbench.report.figures.rows import forest, rows
from refbench.report.figures.shares import shares
from refbench.report.figures.upright import bars, bars_fit, lines

_MOST = {"lines": 10, "radar": 12, "rows": 8}
"""Models that can be told apart in a chart of each kind."""
_LEAST_SPOKES = 3

_DRAWINGS = {
    "bars": bars,
    "lines": lines,
    "heatmap": heatmap,
    "radar": radar,
    "rows": rows,
    "forest": forest,
    "scatter": scatter,
    "histogram": histogram,
    "shares": shares,
}


def draw(chart: Chart) -> str:
    """The SVG of a chart."""
    fitting = fitted(chart)
    return _DRAWINGS[fitting.kind](fitting)


def fitted(chart: Chart) -> Chart:
    """The chart as the kind that it can be read as."""
    if chart.kind == "radar" and any(len(panel.categories) < _LEAST_SPOKES for panel in chart.panels):
        return fitted(replace(chart, kind="bars"))
    most = max((len(panel.series) for panel in chart.panels), default=0)
    crowded = most > _MOST.get(chart.kind, most) or (chart.kind == "bars" and not bars_fit(chart))
    if not crowded:
        return chart
    said = f"{counted(most, 'model')} are too many for {chart.kind}: drawn as a table, each cell with its interval."
    return replace(chart, kind="heatmap", notes=(said, *chart.notes))
