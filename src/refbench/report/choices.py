"""How robust a gap is, drawn: a row of gaps with their intervals in order, and below each the choices behind it; as
text for the terminal and as one SVG file.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from refbench.analysis.compare.choices import DIMENSIONS, Combination, Robustness
from refbench.analysis.compare.records import signed
from refbench.record import counted
from refbench.report.figures import dot, line, padded, text, ticks

if TYPE_CHECKING:
    from rich.console import Console

_STRIP = 23
"""Columns of the terminal that an interval has."""
_MOST_ROWS = 40

_LEFT, _TOP, _PLOT, _ROW, _STEP, _RIGHT = 190, 56, 220, 18, 16, 24
_FAINT, _AHEAD, _BEHIND, _OPEN = "#dddddd", "#226644", "#aa3322", "#777777"


def print_choices(found: Robustness, out: Console) -> None:
    """The curve, what each option does by itself, what was left out, and the sentence."""
    from rich.table import Table as Grid
    from rich.text import Text

    lower = " (lower is better)" if found.lower_is_better else ""
    head = f" {found.metric}{lower}: {found.first} less {found.second} under every choice, 95 % intervals\n"
    out.print(Text.assemble((found.title, "bold"), head))
    varied = _varied(found)
    grid = Grid(header_style="bold", box=None, pad_edge=False)
    grid.add_column("gap", justify="right", no_wrap=True)
    low, high = _axis(found)
    grid.add_column(_scale(low, high, found.digits), no_wrap=True)
    for name in varied:
        grid.add_column(name, overflow="fold")
    shown = _spread(found.combinations)
    for one in shown:
        told = [one.choices[name] for name in varied]
        gap = signed(one.gap, found.digits) + ("*" if one.resolved else " ")
        grid.add_row(*(Text(cell) for cell in (gap, _strip(one, low, high), *told)))
    out.print(grid)
    out.print(Text("* resolved: test, interval and bounds of what failed leave out zero"))
    if len(shown) < len(found.combinations):
        out.print(Text(f"{len(shown)} of {len(found.combinations)} are shown; --figure and --json have all."))
    _print_options(found, out)
    _print_remarks(found, out)
    out.print("\nTo paste", style="bold")
    out.print(Text(found.sentence), soft_wrap=True)


def _print_options(found: Robustness, out: Console) -> None:
    from rich.text import Text

    from refbench.text.tables import Grid

    varied = _varied(found)
    if not varied:
        return
    grid = Grid()
    for title in ("choice", "option"):
        grid.add_column(title)
    for title in ("combinations", f"{found.first} better", "resolved", "median gap"):
        grid.add_column(title, justify="right")
    for one in found.options:
        if one.dimension in varied:
            counts = (str(one.n), str(one.better), str(one.resolved), signed(one.median, found.digits))
            grid.add_row(*(Text(cell) for cell in (one.dimension, one.option, *counts)))
    out.print()
    out.print(grid)


def _print_remarks(found: Robustness, out: Console) -> None:
    from rich.text import Text

    out.print()
    same = found.n_tried - len(found.combinations)
    if same:
        out.print(
            Text(f"{counted(same, 'combination')} of {found.n_tried} gave the same numbers as another: counted once.")
        )
    for why in found.without_value:
        out.print(Text(f"no gap: {why}"))
    for why in found.left_out:
        out.print(Text(f"left out: {why}"))
    for why in found.differences:
        out.print(Text(f"not the same: {why}"))


def _varied(found: Robustness) -> list[str]:
    return [name for name in DIMENSIONS if sum(one.dimension == name for one in found.options) > 1]


def _ends(one: Combination) -> tuple[float, float]:
    return one.ci95 or (one.gap, one.gap)


def _axis(found: Robustness) -> tuple[float, float]:
    return padded([0.0, *(end for one in found.combinations for end in _ends(one))], 0.02)


def _spread(rows: Sequence[Combination]) -> list[Combination]:
    """At most so many, evenly over the curve, both ends among them."""
    if len(rows) <= _MOST_ROWS:
        return list(rows)
    return [rows[round(i * (len(rows) - 1) / (_MOST_ROWS - 1))] for i in range(_MOST_ROWS)]


def _place(value: float, low: float, high: float) -> int:
    return min(max(round((value - low) / (high - low) * (_STRIP - 1)), 0), _STRIP - 1)


def _strip(one: Combination, low: float, high: float) -> str:
    cells = [" "] * _STRIP
    cells[_place(0.0, low, high)] = "|"
    first, last = (_place(end, low, high) for end in _ends(one))
    for at in range(first, last + 1):
        cells[at] = "+" if cells[at] == "|" else "-"
    cells[_place(one.gap, low, high)] = "o"
    return "".join(cells)


def _scale(low: float, high: float, digits: int) -> str:
    left, right = signed(low, min(digits, 2)), signed(high, min(digits, 2))
    return left + " " * max(_STRIP - len(left) - len(right), 1) + right


def choices_figure(found: Robustness, about: str = "") -> str:
    """The SVG: gaps in order above, and below them a dot in the row of each option taken."""
    rows = found.combinations
    options = [(one.dimension, one.option) for one in found.options]
    left = max([_LEFT, *(16 + 7 * (len(name) + len(option)) for name, option in options)])
    width = left + _STEP * max(len(rows), 24) + _RIGHT
    below = _TOP + _PLOT + 28
    height = below + _ROW * len(options) + 30
    low, high = _axis(found)

    def x(number: int) -> float:
        return left + _STEP * (number + 0.5)

    def y(value: float) -> float:
        return _TOP + (high - value) / (high - low) * _PLOT

    small = 'font-size="11"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text((16, 22), f"{found.title} {found.metric}: {found.first} less {found.second}", 'font-weight="bold"'),
        text((16, 40), f"better in {found.better} of {counted(len(rows), 'choice')}, resolved in "
             f"{found.resolved_better}; {found.resolved_worse} resolved the other way; 95 % intervals", small),
    ]  # fmt: skip
    for tick in ticks((low, high)):
        parts.append(line((left, y(tick)), (width - _RIGHT, y(tick)), _FAINT))
        parts.append(text((left - 8, y(tick) + 4), f"{tick:g}", f'text-anchor="end" {small}'))
    parts.append(line((left, y(0.0)), (width - _RIGHT, y(0.0)), "#333333", 1.2))
    for number, one in enumerate(rows):
        colour = _OPEN if not one.resolved else _AHEAD if found.sign(one.gap) > 0 else _BEHIND
        first, last = _ends(one)
        parts += [line((x(number), y(first)), (x(number), y(last)), colour, 2), dot((x(number), y(one.gap)), colour)]
    before = ["", *(name for name, _ in options)]
    for row, ((above, name), (_, option)) in enumerate(zip(pairwise(before), options, strict=True)):
        at = below + _ROW * row
        parts.append(line((left, at), (width - _RIGHT, at), _FAINT))
        if name != above:
            parts.append(text((16, at + 4), name, f'font-weight="bold" {small}'))
        parts.append(text((left - 8, at + 4), option, f'text-anchor="end" {small}'))
        parts += [dot((x(n), at), "#333333", 3) for n, one in enumerate(rows) if _takes(one, name, option)]
    parts.append(text((16, height - 8), about, 'font-size="10" fill="#666"'))
    return "\n".join([*parts, "</svg>", ""])


def _takes(one: Combination, name: str, option: str) -> bool:
    """Whether the combination, or one with the same numbers, takes an option."""
    return any(choices[name] == option for choices in (one.choices, *one.same))
