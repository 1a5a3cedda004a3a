"""The sheet around a chart: title, what the marks are, the panels, and below them what one must know to believe it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from urllib.parse import quote

from refbench.report.figures.chart import Axis, Chart, Panel, Series, Value, data, hover
from refbench.report.figures.palette import short_names
from refbench.report.figures.svg import (
    BAND,
    FONT,
    INK,
    PAPER,
    RULE,
    SOFT,
    Point,
    box,
    line,
    mark,
    shown,
    text,
    tick_label,
    ticks,
    titled,
    width_of,
    wrapped,
)

MARGIN, GAP = 16.0, 26.0
ESTIMATED = "2 1.6"
"""The dash of intervals of estimates."""
_TITLE, _TEXT, _SMALL = 15.0, 12.0, 10.0
_LEGEND_ROOM = 300.0
_BOLD = 1.08
"""How much wider bold letters are."""

Body = Callable[[float], tuple[list[str], float]]
"""Draws below a height: the pieces, and the height below them."""


def page(chart: Chart, body: Body, *, legend: bool = True) -> str:
    """The whole figure. Where nothing is scored it says so and why, in place of the body."""
    room = chart.width - 2 * MARGIN
    parts: list[str] = []
    y = MARGIN + 4.0
    for words, size, extra in ((chart.title, _TITLE, 'font-weight="bold"'), (chart.subtitle, _TEXT, f'fill="{SOFT}"')):
        for one in wrapped(words, room, size) if words else ():
            y += size * 1.05
            parts.append(text((MARGIN, y), one, f'font-size="{size:g}" {extra}'))
            y += size * 0.35
    y += 8
    if chart.scored and legend:
        drawn, y = _legend(chart, y, room)
        parts += drawn
    drawn, y = body(y + 4) if chart.scored else _nothing(chart, y + 4)
    parts += drawn
    y += 4
    for note in chart.notes:
        for one in wrapped(note, room, _SMALL):
            y += _SMALL * 1.4
            parts.append(text((MARGIN, y), one, f'font-size="{_SMALL:g}" fill="{SOFT}"'))
    height = y + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {chart.width:g} {height:.0f}" width="{chart.width:g}" '
        f'height="{height:.0f}" font-family="{FONT}" font-size="{_TEXT:g}" fill="{INK}" role="img">'
    )
    label = f"<title>{escape(shown(chart.title))}</title>"
    return "\n".join([head, label, box((0, 0), (chart.width, height), PAPER), *parts, "</svg>", ""])


def panels(chart: Chart, draw: Callable[[Chart, Panel, float], tuple[list[str], float]], gap: float = 0.0) -> Body:
    """A body of the chart's panels, one below another."""

    def body(top: float) -> tuple[list[str], float]:
        parts: list[str] = []
        y = top
        for panel in chart.panels:
            drawn, y = draw(chart, panel, y)
            parts += drawn
            y += gap
        return parts, y

    return body


def _nothing(chart: Chart, top: float) -> tuple[list[str], float]:
    """What is said where no number is there: that, and for how many cells which reason."""
    reasons = Counter(value.why or "no value" for panel in chart.panels for value in panel.values)
    said = "; ".join(f"{why} ({n} of {reasons.total()})" for why, n in reasons.most_common(4)) or "there are no rows"
    lines = ["Nothing is scored, so there is nothing to draw.", *wrapped(said, chart.width - 4 * MARGIN, _TEXT)]
    height = 28 + 18 * len(lines)
    parts = [box((MARGIN, top), (chart.width - 2 * MARGIN, height), BAND, f'stroke="{RULE}"')]
    for number, one in enumerate(lines):
        bold = 'font-weight="bold"' if not number else f'fill="{SOFT}"'
        parts.append(text((2 * MARGIN, top + 26 + 18 * number), one, bold))
    return parts, top + height + 6


def _legend(chart: Chart, top: float, room: float) -> tuple[list[str], float]:
    """Every series with its mark, in as many lines as it takes."""
    names = short_names([series.name for series in chart.series], min(_LEGEND_ROOM, room - 30))
    x, y, parts = MARGIN, top + 8, []
    for series in chart.series:
        # Points in a plane have their letters beside them.
        words = f"{series.style.letter}  {names[series.name]}" if chart.kind == "scatter" else names[series.name]
        wide = width_of(words, _TEXT) + 32
        if x > MARGIN and x + wide > MARGIN + room:
            x, y = MARGIN, y + 18
        drawn = mark(series.style.shape, (x + 6, y), series.style.colour, 4.6)
        drawn += text((x + 16, y + 4), words, f'font-size="{_TEXT:g}"')
        parts.append(titled(drawn, series.name, 'class="key"'))
        x += wide
    return parts, y + 14


def upright(value: Value, scale: Callable[[float], float], x: float, floor: float, series: Series) -> str:
    """A mark on its upright interval, or an x on the floor where there is no number."""
    if value.value is None:
        return missing((x, floor - 5), series.style.colour)
    parts = whisker_up(value, scale, x, series.style.colour)
    return parts + mark(series.style.shape, (x, scale(value.value)), series.style.colour, hollow=value.few)


def whisker_up(value: Value, scale: Callable[[float], float], x: float, colour: str) -> str:
    if value.ends is None:
        return ""
    low, high = (scale(end) for end in value.ends)
    dash = ESTIMATED if value.estimated else ""
    caps = "".join(line((x - 2.5, end), (x + 2.5, end), colour, 1.2) for end in (low, high))
    return line((x, low), (x, high), colour, 1.4, dash) + caps


def missing(place: Point, colour: str) -> str:
    """The sign of a number that is not there: an x, which no number is drawn as."""
    x, y = place
    arm = 3.2
    return line((x - arm, y - arm), (x + arm, y + arm), colour, 1.4) + line(
        (x - arm, y + arm), (x + arm, y - arm), colour, 1.4
    )


def value_mark(panel: Panel, series: Series, number: int, shapes: str, links: str = "") -> str:
    """The shapes of one number with its words, its data and, where there are pages behind, its link."""
    category, value = panel.categories[number], series.values[number]
    drawn = titled(shapes, hover(panel, series, category, value), data(panel, series, category, value))
    if not links:
        return drawn
    address = links.format(series=quote(series.name, safe=""), category=quote(category, safe=""))
    return f'<a href="{escape(address)}">{drawn}</a>'


def axis_lines(
    axis: Axis, ends: tuple[float, float], frame: tuple[float, float, float, float], *, from_end: bool = False
) -> list[str]:
    """Grid lines and numbers of an upright axis, in a frame of left, top, right and bottom; with `from_end` the number
    that bars begin at, too."""
    left, top, right, bottom = frame
    parts = []
    marks = ticks(ends)
    if from_end and marks and abs(marks[0] - ends[0]) > 1e-9:
        near = (marks[0] - ends[0]) / (ends[1] - ends[0]) * (bottom - top) < 1.2 * _SMALL
        marks = [ends[0], *(marks[1:] if near else marks)]
    for tick in marks:
        y = bottom - (tick - ends[0]) / (ends[1] - ends[0]) * (bottom - top)
        parts.append(line((left, y), (right, y), RULE))
        parts.append(
            text(
                (left - 6, y + 3.5),
                tick_label(tick),
                f'class="tick" text-anchor="end" font-size="{_SMALL:g}" fill="{SOFT}"',
            )
        )
    return parts


def axis_title(panel: Panel, left: float, top: float, room: float) -> list[str]:
    """Above a panel: its own title, and what its axis is."""
    words = ", ".join(filter(None, (panel.title, panel.axis.words if panel.axis.label != panel.title else
                                    "lower is better" if panel.axis.lower else "")))  # fmt: skip
    lines = wrapped(words, room, _TEXT * _BOLD)[:2]
    return [text((left, top + 14 * n), one, 'font-weight="bold"' if not n else "") for n, one in enumerate(lines)]


def category_labels(names: Sequence[str], places: Sequence[float], top: float, room: float) -> tuple[list[str], float]:
    """Names below their places: in one or more lines where they fit, else turned. Gives how high they are, too."""
    broken = [wrapped(name.replace("_", " "), room - 4, _SMALL) for name in names]
    words = [word for name in names for word in name.replace("_", " ").split()]
    if all(width_of(word, _SMALL) <= room - 4 for word in words) and max(map(len, broken), default=1) <= 3:
        parts = [
            text((x, top + 12 + 11.5 * n), one, f'text-anchor="middle" font-size="{_SMALL:g}"')
            for x, lines in zip(places, broken, strict=True)
            for n, one in enumerate(lines)
        ]
        return parts, 8 + 11.5 * max(map(len, broken), default=1)
    short = short_names(list(names), 150, _SMALL)
    parts = []
    for x, name in zip(places, names, strict=True):
        turned = f'transform="rotate(-38 {x + 3:.1f} {top + 12:.1f})"'
        parts.append(text((x + 3, top + 12), short[name], f'text-anchor="end" font-size="{_SMALL:g}" {turned}'))
    longest = max(width_of(short[name], _SMALL) for name in names)
    return parts, 14 + 0.62 * longest


def row_label(words: str, place: Point, room: float, size: float = 11.0) -> str:
    """A name at the right end of a column of names."""
    return text(place, words, f'text-anchor="end" font-size="{size:g}"')
