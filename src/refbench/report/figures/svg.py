"""Pieces of SVG that our charts are made of: lines, words, marks, axes, the strip of one number with its interval."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from math import cos, pi, sin

from refbench.record import clean_text

Point = tuple[float, float]

STRIP = (200.0, 16.0)
"""Width and height of a strip, in its own units."""

INK, SOFT, FAINT, RULE, PAPER, BAND = "#1b1d22", "#585b63", "#8a8d94", "#e2e2dd", "#ffffff", "#f6f6f3"
FONT = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"

SHAPES = ("circle", "square", "triangle", "diamond", "inverted", "cross", "hexagon")
"""Marks that are told apart without their colour."""
DASHES = ("", "6 3", "2 2", "8 3 2 3", "10 4", "4 2 1 2", "1 3")
"""Patterns of lines, one for each shape."""

_NARROW, _BROAD = frozenset("iljtfrI.,;:'|!()[]{}/\\ -"), frozenset("mwMWGOQ@%&#—→←↑↓")
_ISOLATES = "\u2068\u2069"
"""What keeps the direction of a name to itself: before and after it."""
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN", "RLE", "RLO"})


def line(start: Point, end: Point, colour: str, width: float = 1, dash: str = "") -> str:
    (x1, y1), (x2, y2) = start, end
    places = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line {places} stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def text(place: Point, words: str, extra: str = "") -> str:
    return f'<text x="{place[0]:.1f}" y="{place[1]:.1f}" {extra}>{escape(shown(words))}</text>'


def dot(place: Point, colour: str, radius: float = 4) -> str:
    return f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius:g}" fill="{colour}"/>'


def box(corner: Point, size: Point, fill: str, extra: str = "") -> str:
    (x, y), (width, height) = corner, size
    places = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}"'
    return f'<rect {places} fill="{fill}" {extra}/>'


def outline(points: Sequence[Point], extra: str, *, closed: bool = False) -> str:
    """A line through points, or the shape that it closes."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<{"polygon" if closed else "polyline"} points="{path}" {extra}/>'


def mark(shape: str, place: Point, colour: str, size: float = 4.2, *, hollow: bool = False) -> str:
    """One of SHAPES about a place; hollow where the number is about too little to stand with the others."""
    if not shape:
        return ""
    x, y = place
    paint = f'fill="{PAPER if hollow else colour}" stroke="{colour}" stroke-width="{1.6 if hollow else 1:g}"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:g}" {paint}/>'
    if shape == "square":
        side = size * 0.9
        return outline([(x - side, y - side), (x + side, y - side), (x + side, y + side), (x - side, y + side)], paint,
                       closed=True)  # fmt: skip
    if shape == "cross":
        arm, half = size * 1.25, size * 0.42
        corners = [(half, arm), (half, half), (arm, half), (arm, -half), (half, -half), (half, -arm)]
        corners += [(-a, -b) for a, b in corners]
        return outline([(x + a, y - b) for a, b in corners], paint, closed=True)
    corners_of = {"triangle": (3, 90), "inverted": (3, -90), "diamond": (4, 90), "hexagon": (6, 0)}
    count, first = corners_of[shape]
    reach = size * {3: 1.3, 4: 1.3, 6: 1.12}[count]
    angles = [(first + 360 * k / count) * pi / 180 for k in range(count)]
    return outline([(x + reach * cos(a), y - reach * sin(a)) for a in angles], paint, closed=True)


def titled(shapes: str, hover: str, data: str = "") -> str:
    """Shapes that say in words what they show when one points at them."""
    return f"<g {data}><title>{escape(shown(hover))}</title>{shapes}</g>"


def shown(words: str) -> str:
    """Words in one line as they may stand in XML: without control characters, and without marks that turn the direction
    of what stands beside them."""
    signs = (" " if sign.isspace() else sign for sign in clean_text(words))
    kept = _ISOLATES if _closed(words) else ""
    return "".join(sign for sign in signs if sign in kept or unicodedata.category(sign)[0] != "C")


def _closed(words: str) -> bool:
    """Whether every name that `isolated` has opened is closed again, so that it turns nothing beside it."""
    depth = 0
    for sign in words:
        depth += (sign == _ISOLATES[0]) - (sign == _ISOLATES[1])
        if depth not in (0, 1):
            return False
    return depth == 0


def isolated(name: str) -> str:
    """A name whose letters run from right to left, kept from turning the words beside it."""
    turned = any(unicodedata.bidirectional(sign) in _RIGHT_TO_LEFT for sign in name)
    plain = "".join(sign for sign in name if sign not in _ISOLATES)
    return _ISOLATES[0] + plain + _ISOLATES[1] if turned else name


def width_of(words: str, size: float) -> float:
    """About how wide words are, in the broadest of the usual fonts, so that in others there is room left."""
    wide = 0.0
    for sign in shown(words):
        if sign in _ISOLATES:
            continue
        if sign in _NARROW:
            wide += 0.38
        elif sign in _BROAD or unicodedata.east_asian_width(sign) in "WF":
            wide += 1.0
        else:
            wide += 0.72 if sign.isupper() else 0.62
    return wide * size


def wrapped(words: str, room: float, size: float) -> list[str]:
    """Lines that fit into the room, broken at spaces, and inside of what is longer than a line."""
    lines = [""]
    for word in re.findall(rf"{_ISOLATES[0]}[^{_ISOLATES[1]}]*{_ISOLATES[1]}\S*|\S+", shown(words)):
        whole = f"{lines[-1]} {word}".strip()
        if width_of(whole, size) <= room:
            lines[-1] = whole
            continue
        lines += [""] if lines[-1] else []
        while width_of(word, size) > room and len(word) > 1:
            cut = next((n for n in range(len(word) - 1, 0, -1) if width_of(word[:n], size) <= room), 1)
            lines[-1] = word[:cut]
            lines.append("")
            word = word[cut:]
        lines[-1] = word
    return [one for one in lines if one] or [""]


def padded(values: Iterable[float], share: float = 0.1) -> tuple[float, float]:
    """The range of an axis: from the lowest to the highest value, with room on both sides."""
    found = list(values)
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    pad = (high - low) * share or 0.5
    return low - pad, high + pad


def ticks(axis: tuple[float, float], most: int = 5) -> list[float]:
    """Round numbers on the axis, two to six of them; with a smaller `most` fewer."""
    span = axis[1] - axis[0]
    step = next(
        size * 10.0**power for power in range(-12, 13) for size in (1, 2, 5) if span / (size * 10.0**power) <= most
    )
    first = -(-axis[0] // step)
    return [n * step for n in range(int(first), int(axis[1] // step) + 1)]


def tick_label(value: float) -> str:
    """A tick without the dust of its arithmetic."""
    return f"{value:.10g}" if abs(value) > 1e-9 else "0"


def strip(value: float | None, ci95: tuple[float, float] | None, axis: tuple[float, float], colour: str) -> str:
    """One number as a dot on its interval; strips under each other share an axis. Nothing is drawn for no number."""
    width, height = STRIP
    low, high = axis

    def x(number: float) -> float:
        return (number - low) / (high - low) * width

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" aria-hidden="true">']
    parts += [line((x(tick), 0), (x(tick), height), RULE, 0.6) for tick in ticks(axis)]
    if ci95 is not None:
        parts.append(line((x(ci95[0]), height / 2), (x(ci95[1]), height / 2), colour, 2.4))
    if value is not None:
        parts.append(dot((x(value), height / 2), colour, 3.8))
    return "".join([*parts, "</svg>"])


def scale(axis: tuple[float, float], digits: int) -> str:
    """The numbers of the axis that strips share, to stand above or below them."""
    width, height = STRIP
    low, high = axis
    labels = [
        text(((tick - low) / (high - low) * width, 11), f"{tick:.{digits}f}", 'text-anchor="middle"')
        for tick in ticks(axis)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" aria-hidden="true"'
    return "".join([f'{head} font-size="9" fill="{SOFT}">', *labels, "</svg>"])
