"""Pieces of SVG that our charts are made of, and the strip of one number with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from refbench.tables.result import Result
from refbench.tables.table import Row

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
    labels = [
        text(((tick - low) / (high - low) * width, 11), f"{tick:.{digits}f}", 'text-anchor="middle"')
        for tick in ticks(axis)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" aria-hidden="true"'
    return "".join([f'{head} font-size="9" fill="#585b63">', *labels, "</svg>"])


def ticks(axis: tuple[float, float]) -> list[float]:
    """Round numbers on the axis, two to six of them."""
    span = axis[1] - axis[0]
    step = next(
        size * 10.0**power for power in range(-12, 13) for size in (1, 2, 5) if span / (size * 10.0**power) <= 5
    )
    first = -(-axis[0] // step)
    return [n * step for n in range(int(first), int(axis[1] // step) + 1)]


# The plot of agents by step, as one SVG file: the summary measure after each step, with its interval.

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 360, 64, 48, 40, 140
_FONT = 'font-family="sans-serif" font-size="13"'
_COLOURS = ("#3366cc", "#cc6633", "#339966", "#993399", "#666666")


def rows_by_step(result: Result, agents: Mapping[str, Sequence[str]]) -> dict[str, list[Row]]:
    """For each agent the overall row of the summary measure at each of its models (steps), in their order."""
    protocol = result.table.rows[0].protocol
    overall = [r for r in result.table.rows if r.slice["level"] == "overall" and r.protocol == protocol]
    summary = result.summary(protocol)
    found = {(row.model, row.judge): row for row in overall if row.metric == summary}
    judges = list(dict.fromkeys(judge for _, judge in found))
    return {
        agent + (f" ({judge})" if judge and len(judges) > 1 else ""): [found[model, judge] for model in models]
        for agent, models in agents.items()
        for judge in judges
        if all((model, judge) in found for model in models)
    }


def step_plot(lines: Mapping[str, Sequence[Row]], about: str = "") -> str:
    """The SVG; `about` says what the numbers were measured with. A step without a value leaves a gap in its line."""
    values = [v for rows in lines.values() for row in rows for v in (row.value, *(row.ci95 or ())) if v is not None]
    low, high = padded(values)
    most = max((len(rows) for rows in lines.values()), default=1)
    measure = next((row.metric for rows in lines.values() for row in rows), "")

    def x(step: int) -> float:
        return _LEFT + (step + 0.5) * (_WIDTH - _LEFT - _RIGHT) / most

    def y(value: float) -> float:
        return _TOP + (high - value) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    title = f"{measure} by step, 95 % intervals"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        text((_LEFT, 22), title, extra='font-weight="bold"'),
        text((_LEFT, _HEIGHT - 4), about, extra='font-size="10" fill="#666"'),
    ]
    for tick in range(5):
        value = low + (high - low) * tick / 4
        parts.append(line((_LEFT, y(value)), (_WIDTH - _RIGHT, y(value)), "#ddd"))
        parts.append(text((_LEFT - 8, y(value) + 4), f"{value:.3g}", extra='text-anchor="end"'))
    for step in range(most):
        name = "result" if step == most - 1 else f"step {step + 1}"
        parts.append(text((x(step), _HEIGHT - 20), name, extra='text-anchor="middle"'))
    for number, (agent, rows) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        before: tuple[float, float] | None = None
        for step, row in enumerate(rows):
            if row.value is None:
                before = None
                continue
            here = x(step), y(row.value)
            if before is not None:
                parts.append(line(before, here, colour, 2))
            if row.ci95 is not None:
                parts.append(line((here[0], y(row.ci95[0])), (here[0], y(row.ci95[1])), colour))
            parts.append(dot(here, colour))
            before = here
        parts.append(text((_WIDTH - _RIGHT + 12, _TOP + 18 * number + 8), agent, extra=f'fill="{colour}"'))
    return "\n".join([*parts, "</svg>", ""])
