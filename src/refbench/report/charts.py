"""Pieces of SVG that our charts are made of, and the strip of one number with its interval."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

Point = tuple[float, float]

STRIP = (200.0, 16.0)
"""Width and height of a strip, in its own units."""


def line(start: Point, end: Point, colour: str, width: float = 1) -> str:
    (x1, y1), (x2, y2) = start, end
    places = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {places} stroke="{colour}" stroke-width="{width}"/>'


def text(place: Point, words: str, extra: str = "") -> str:
    return f'<text x="{place[0]:.1f}" y="{place[1]:.1f}" {extra}>{escape(words)}</text>'


def dot(place: Point, colour: str, radius: float = 4) -> str:
    return f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius:g}" fill="{colour}"/>'


def padded(values: Iterable[float], share: float = 0.1) -> tuple[float, float]:
    """The range of an axis: from the lowest to the highest value, with room on both sides."""
    found = list(values)
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    pad = (high - low) * share or 0.5
    return low - pad, high + pad


def strip(value: float | None, ci95: tuple[float, float] | None, axis: tuple[float, float], colour: str) -> str:
    """One number as a dot on its interval; strips under each other share an axis. Nothing is drawn for no number."""
    width, height = STRIP
    low, high = axis

    def x(number: float) -> float:
        return (number - low) / (high - low) * width

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" aria-hidden="true">']
    parts += [line((x(tick), 0), (x(tick), height), "#e2e2dd", 0.6) for tick in ticks(axis)]
    if ci95 is not None:
        parts.append(line((x(ci95[0]), height / 2), (x(ci95[1]), height / 2), colour, 2.4))
    if value is not None:
        parts.append(dot((x(value), height / 2), colour, 3.8))
    return "".join([*parts, "</svg>"])


def scale(axis: tuple[float, float], digits: int) -> str:
    """The numbers of the axis that strips share, to stand above or below them."""
    width, height = STRIP
    low, high = axis
    said = [
        text(((tick - low) / (high - low) * width, 11), f"{tick:.{digits}f}", 'text-anchor="middle"')
        for tick in ticks(axis)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" aria-hidden="true"'
    return "".join([f'{head} font-size="9" fill="#585b63">', *said, "</svg>"])


def ticks(axis: tuple[float, float]) -> list[float]:
    """Round numbers on the axis, two to six of them."""
    span = axis[1] - axis[0]
    step = next(
        size * 10.0**power for power in range(-12, 13) for size in (1, 2, 5) if span / (size * 10.0**power) <= 5
    )
    first = -(-axis[0] // step)
    return [n * step for n in range(int(first), int(axis[1] // step) + 1)]
