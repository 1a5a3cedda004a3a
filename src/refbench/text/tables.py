"""Tables on a terminal whose words stay whole: a narrow one has cells of several lines, then several tables.

Imported by what draws one, because it brings rich.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.segment import Segment
from rich.table import Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


class Grid(Table):
    """rich's table, without lines. Where the columns do not fit beside each other, cells are wrapped between words (but
    for figures, in columns to the right); where that is not enough, columns go on in a further table that begins with
    the first `names` columns again, which fold before a figure does. Only a column that is wider than the terminal by
    itself is left to it."""

    def __init__(self, *headers: Any, names: int = 1, **options: Any) -> None:
        super().__init__(*headers, **{"box": None, "pad_edge": False, "header_style": "bold", **options})
        self.names = names

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        measured = [self._measure_column(console, options, column) for column in self.columns]
        inside = [self._get_padding_width(c) for c in range(len(measured))]
        least, most = ([max(size[end] - pad, 1) for size, pad in zip(measured, inside, strict=True)] for end in (0, 1))
        figures = {
            c: max((cell_len(str(cell)) for cell in self.columns[c].cells), default=1)
            for c in range(self.names, len(least))
            if self.columns[c].justify == "right"  # an interval on three lines is not read as one
        }
        others = [max(least[c], figures.get(c, 1)) for c in range(self.names, len(least))]
        together = options.max_width - sum(others) - _BETWEEN * (len(least) - 1)
        alone = options.max_width - max(others, default=0) - _BETWEEN * self.names
        _give_way(least, self.names, together if together >= _LEGIBLE * self.names else alone)
        beside = options.max_width - sum(least[: self.names]) - _BETWEEN * self.names
        for c, width in figures.items():
            least[c] = max(least[c], width if width <= beside else 1)
        for number, block in enumerate(_blocks(least, self.names, options.max_width)):
            widths = _widths([least[c] for c in block], [most[c] for c in block], options.max_width)
            for line in console.render_lines(self._part(block, widths, number), options, pad=False):
                yield from line
                yield Segment.line()

    def _part(self, block: Sequence[int], widths: Sequence[int], number: int) -> Table:
        part = Table(
            title=self.title if number == 0 else None,
            title_justify=self.title_justify,
            box=self.box,
            pad_edge=self.pad_edge,
            header_style=self.header_style,
            show_header=self.show_header,
        )
        for c, width in zip(block, widths, strict=True):
            old = self.columns[c]
            part.add_column(old.header, justify=old.justify, style=old.style, overflow="fold", width=width)
        cells = [list(self.columns[c].cells) for c in block]
        for n, row in enumerate(self.rows):
            part.add_row(*(column[n] for column in cells), style=row.style)
        return part


_BETWEEN = 2
_SHORTEST_NAME = 8
_LEGIBLE = 20
"""Signs of a name for which a table is kept in one piece."""


def _give_way(least: list[int], names: int, room: int) -> None:
    """Make the columns of names as narrow as the others ask for: a name on two lines is still read."""
    while sum(least[:names]) > room:
        widest = max(range(min(names, len(least))), key=least.__getitem__)
        if least[widest] <= _SHORTEST_NAME:
            return
        least[widest] -= 1


def _blocks(least: Sequence[int], names: int, width: int) -> list[list[int]]:
    """Which columns stand beside each other, so that the longest word of each fits."""
    first = list(range(min(names, len(least))))
    held = sum(least[c] + _BETWEEN for c in first)
    blocks: list[list[int]] = [list(first)]
    used = held
    for c in range(len(first), len(least)):
        if used + least[c] > width and len(blocks[-1]) > len(first):
            blocks.append(list(first))
            used = held
        blocks[-1].append(c)
        used += least[c] + _BETWEEN
    return blocks


def _widths(least: Sequence[int], most: Sequence[int], width: int) -> list[int]:
    """What each column has: all that it needs, or, of those that can be wrapped, the widest less and less."""
    widths = list(most)
    over = sum(widths) + _BETWEEN * (len(widths) - 1) - width
    while over > 0:
        spare = [c for c in range(len(widths)) if widths[c] > least[c]]
        if not spare:
            break
        widths[max(spare, key=widths.__getitem__)] -= 1
        over -= 1
    return widths
