"""What another wording did to the attacks of an audit, on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from refbench.analysis.audit.records import Figure
from refbench.analysis.audit.rewording import AttackChange
from refbench.text.console import console
from refbench.text.tables import Grid

if TYPE_CHECKING:
    from rich.console import Console


def print_rewording(rows: Sequence[AttackChange], out: Console | None = None) -> None:
    """A line for each attack and criterion: the rise in the one wording, in the other, and the difference."""
    out = out or console()
    grid = Grid("attack", "criterion", "rise before", "after", "change", "cases", "verdict", names=2)
    for column in grid.columns[2:6]:
        column.justify = "right"
    for row in rows:
        told = f"{row.verdict}, still fooled" if row.still else row.verdict
        grid.add_row(
            f"{row.number} {row.said}",
            row.criterion,
            _signed(row.before),
            _signed(row.after),
            _signed(row.change),
            str(row.change.n),
            told,
        )
    out.print(grid)
    closing = (
        "Rises of marks in steps of the scale over the damaged picture that was attacked, with 95 % CI; "
        '"helps" and "harms" at 5 % over the whole table (Holm).'
    )
    out.print(Text(closing), soft_wrap=not out.is_terminal)


def _signed(one: Figure) -> str:
    if one.value is None:
        return "-"
    ends = "" if one.ci95 is None else f" ({one.ci95[0]:+.2f} to {one.ci95[1]:+.2f})"
    return f"{one.value:+.2f}{ends}"
