"""Figures: one drawing code for site, brief, papers and notebooks. `figure(name, result)` is the one way in; a chart is
a small record (`chart.py`) that a pure function turns into SVG.
"""

from refbench.report.figures.catalogue import available, figure, names
from refbench.report.figures.dataset import dataset_figures
from refbench.report.figures.files import Figure
from refbench.report.figures.svg import dot, line, padded, scale, strip, text, ticks
from refbench.report.figures.view import FigureOptions

__all__ = [
    "Figure",
    "FigureOptions",
    "available",
    "dataset_figures",
    "dot",
    "figure",
    "line",
    "names",
    "padded",
    "scale",
    "strip",
    "text",
    "ticks",
]
