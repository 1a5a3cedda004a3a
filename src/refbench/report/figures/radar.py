"""Radars: a spoke for each dimension, a line for each model. With more models than can be told apart a radar for each,
on one scale; of several measures each model's radar has a line for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import cos, pi, sin

from refbench.report.figures.chart import Axis, Chart, Panel, Series
from refbench.report.figures.page import ESTIMATED, MARGIN, missing, page, value_mark
from refbench.report.figures.palette import short_names
from refbench.report.figures.svg import (
    DASHES,
    FAINT,
    PAPER,
    RULE,
    SHAPES,
    SOFT,
    Point,
    line,
    mark,
    outline,
    text,
    tick_label,
    ticks,
    width_of,
    wrapped,
)

_TOGETHER = 4
"""Models that one radar can hold with their intervals."""
_SMALL = 10.0
_HOLE = 0.12
"""Share of a spoke that is left free in the middle, where all spokes would meet."""
_LEAST, _MOST = 58.0, 150.0
"""Length of a spoke."""
_LABEL, _APART = 88.0, 9.0
"""Room for a line of a spoke's name, and how far it stands from the spoke's end."""


@dataclass(frozen=True)
class _Web:
    """One radar: lines of a panel's series, all on one range."""

    title: str
    categories: tuple[str, ...]
    ends: tuple[float, float]
    lines: tuple[tuple[Panel, Series], ...]
    """Each with the panel that it comes from: what its marks say."""


At = Callable[..., Point]
"""Where a share of a spoke lies, and so much aside of it and beyond it."""


def radar(chart: Chart) -> str:
    """One radar a panel while few models share it, else one for each model."""
    many = max(len(panel.series) for panel in chart.panels) > _TOGETHER
    measures = many and len(chart.panels) > 1 and _alike(chart.panels)
    if measures:
        webs = _profiles(chart)
    elif many and len(chart.panels) == 1:
        webs = _apart(chart.panels[0])
    else:
        webs = [_together(panel) for panel in chart.panels]

    def body(top: float) -> tuple[list[str], float]:
        parts, y = _measures(chart.panels, top) if measures else ([], top)
        drawn, y = _webs(chart, webs, y)
        return [*parts, *drawn], y

    return page(chart, body, legend=not many or not (measures or len(chart.panels) == 1))


def _webs(chart: Chart, webs: Sequence[_Web], top: float) -> tuple[list[str], float]:
    room = chart.width - 2 * MARGIN
    names = [wrapped(_words(name), _LABEL, _SMALL) for web in webs for name in web.categories]
    beside = max(width_of(one, _SMALL) for name in names for one in name) + _APART
    most = min(len(webs), 2 if len(webs) <= 4 else 3)
    across = next((n for n in range(most, 1, -1) if room / n / 2 - beside - 4 >= _LEAST), 1)
    width = room / across
    reach = min(max(width / 2 - beside - 4, _LEAST), _MOST)
    above = 12.0 * max(map(len, names))
    parts: list[str] = []
    y = top
    for start in range(0, len(webs), across):
        for n, web in enumerate(webs[start : start + across]):
            x = MARGIN + (n + 0.5) * width
            parts.append(
                text((x, y + 10), wrapped(web.title, width - 8, 12)[0], 'text-anchor="middle" font-weight="bold"')
            )
            parts += _radar(chart, web, (x, y + 22 + above + _APART + reach), reach)
        y += 2 * (reach + _APART + above) + 26
    return parts, y


def _alike(panels: Sequence[Panel]) -> bool:
    """Whether the panels have the same spokes, and scales that can be one."""
    first = panels[0]
    return all(
        (p.categories, p.axis.low, p.axis.high, p.axis.lower)
        == (first.categories, first.axis.low, first.axis.high, first.axis.lower)
        and [s.name for s in p.series] == [s.name for s in first.series]
        for p in panels
    )


def _together(panel: Panel) -> _Web:
    lines = tuple((panel, series) for series in panel.series)
    return _Web(panel.title or panel.axis.words, panel.categories, panel.axis.range_of(panel.values), lines)


def _apart(panel: Panel) -> list[_Web]:
    """A radar for each of the panel's models."""
    ends = panel.axis.range_of(panel.values)
    names = short_names([series.name for series in panel.series], 190)
    return [_Web(names[series.name], panel.categories, ends, ((panel, series),)) for series in panel.series]


def _profiles(chart: Chart) -> list[_Web]:
    """A radar for each model, with a line for each panel: the shape and the dash say which."""
    first = chart.panels[0]
    axis: Axis = first.axis
    ends = axis.range_of([value for panel in chart.panels for value in panel.values])
    names = short_names([series.name for series in first.series], 190)
    return [
        _Web(
            names[series.name],
            first.categories,
            ends,
            tuple((p, _as_measure(p.series[place], number)) for number, p in enumerate(chart.panels)),
        )
        for place, series in enumerate(first.series)
    ]


def _as_measure(series: Series, number: int) -> Series:
    style = replace(series.style, shape=SHAPES[number % len(SHAPES)], dash=DASHES[number % len(DASHES)])
    return replace(series, style=style)


def _measures(panels: Sequence[Panel], top: float) -> tuple[list[str], float]:
    """Which shape and dash is which measure."""
    x, parts = MARGIN, []
    for number, panel in enumerate(panels):
        words = panel.title or panel.axis.label
        parts.append(line((x, top + 6), (x + 26, top + 6), SOFT, 1.6, DASHES[number % len(DASHES)]))
        parts.append(mark(SHAPES[number % len(SHAPES)], (x + 13, top + 6), SOFT))
        parts.append(text((x + 32, top + 10), words))
        x += 54 + width_of(words, 12)
    return parts, top + 22


def _radar(chart: Chart, web: _Web, middle: Point, reach: float) -> list[str]:
    count = len(web.categories)

    def at(number: float, share: float, aside: float = 0.0, beyond: float = 0.0) -> Point:
        angle = -pi / 2 + 2 * pi * number / count
        far = reach * (_HOLE + (1 - _HOLE) * share) + beyond
        return (
            middle[0] + far * cos(angle) - aside * sin(angle),
            middle[1] + far * sin(angle) + aside * cos(angle),
        )

    parts = [line(middle, at(n, 1.0), RULE) for n in range(count)]
    parts += [_ring(tick, web.ends, at, count) for tick in ticks(web.ends, 4)]
    marks: list[str] = []
    for s, (panel, series) in enumerate(web.lines):
        aside = (s - (len(web.lines) - 1) / 2) * 3.0
        places = [
            None if value.value is None else at(c, _share(value.value, web.ends), aside)
            for c, value in enumerate(series.values)
        ]
        parts += _line(places, series, filled=len(web.lines) == 1)
        for c, (value, place) in enumerate(zip(series.values, places, strict=True)):
            if place is None:
                shapes = missing(at(c, 1.0, aside * 3, -2), series.style.colour)
            else:
                ends = [at(c, _share(end, web.ends), aside) for end in value.ends or ()]
                dash = ESTIMATED if value.estimated else ""
                shapes = line(ends[0], ends[1], series.style.colour, 1.3, dash) if ends else ""
                shapes += mark(series.style.shape, place, series.style.colour, 3.4, hollow=value.few)
            marks.append(value_mark(panel, series, c, shapes, chart.links))
    return [*parts, *_scale(web.ends, at, count), *marks, *_labels(web.categories, at, middle)]


def _share(value: float, ends: tuple[float, float]) -> float:
    return (value - ends[0]) / (ends[1] - ends[0])


def _ring(tick: float, ends: tuple[float, float], at: At, count: int) -> str:
    share = _share(tick, ends)
    return outline([at(n, share) for n in range(count)], f'fill="none" stroke="{RULE}"', closed=True)


def _scale(ends: tuple[float, float], at: At, count: int) -> list[str]:
    """The numbers of the rings, between two spokes, where no mark stands."""
    parts = []
    for tick in ticks(ends, 4):
        (x1, y1), (x2, y2) = at(0, _share(tick, ends)), at(1, _share(tick, ends))
        halo = f'fill="{FAINT}" stroke="{PAPER}" stroke-width="2.4" paint-order="stroke"'
        place = (x1 + x2) / 2, (y1 + y2) / 2 + 3
        parts.append(text(place, tick_label(tick), f'class="tick" text-anchor="middle" font-size="8.5" {halo}'))
    return parts


def _line(places: list[Point | None], series: Series, *, filled: bool) -> list[str]:
    """Closed where every number is there, else open beside those that are not: a missing number is no zero."""
    dash = f' stroke-dasharray="{series.style.dash}"' if series.style.dash else ""
    stroke = f'stroke="{series.style.colour}" stroke-width="1.6"{dash}'
    known = [place for place in places if place is not None]
    if len(known) == len(places) and len(places) > 2:
        opacity = 0.07 if filled else 0
        return [outline(known, f'fill="{series.style.colour}" fill-opacity="{opacity}" {stroke}', closed=True)]
    ring = [*places, places[0]]
    return [
        line(one, two, series.style.colour, 1.6, series.style.dash)
        for one, two in pairwise(ring)
        if one is not None and two is not None
    ]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _labels(names: Sequence[str], at: At, middle: Point) -> list[str]:
    parts = []
    for n, name in enumerate(names):
        x, y = at(n, 1.0, 0.0, _APART)
        anchor = "middle" if abs(x - middle[0]) < 8 else "start" if x > middle[0] else "end"
        lines = wrapped(_words(name), _LABEL, _SMALL)
        # Above the web the last line stands at the spoke, below it the first, beside it the middle one.
        side = (middle[1] - y) / max(abs(middle[1] - y) + abs(middle[0] - x), 1e-9)
        up = (len(lines) - 1) * 11 * (1 + side) / 2
        for k, one in enumerate(lines):
            parts.append(
                text((x, y + 3.5 - up + 11 * k), one, f'text-anchor="{anchor}" font-size="{_SMALL:g}" fill="{SOFT}"')
            )
    return parts
