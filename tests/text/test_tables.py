"""Tables on a terminal: every word whole at any usual width, and none of them lost."""

from __future__ import annotations

import io

import pytest

from refbench.text.console import console
from refbench.text.tables import Grid

TITLES = ("raters", "metric", "n", "correlation of ranks", "squared error", "95 % interval", "what is to be known")
ROWS = (
    ("gpt-4o-2024-08-06 ~ Qwen3-VL-235B", "instruction_alignment", "1204", "0.812", "1.204", "0.71 to 0.88", "few models"),
    ("anna ~ berta", "reference_consistency", "12", "-", "-", "-", "a sentence of several words that needs some room"),
)  # fmt: skip


@pytest.mark.parametrize("width", [80, 100, 130, 160])
def test_every_word_stays_whole_and_within_the_terminal(width: int) -> None:
    grid = Grid(names=2)
    for title in TITLES:
        grid.add_column(title)
    for row in ROWS:
        grid.add_row(*row)
    out = io.StringIO()
    console(file=out, width=width).print(grid)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    printed = out.getvalue().split()
    for cell in (*TITLES, *(cell for row in ROWS for cell in row)):
        assert set(cell.split()) <= set(printed), cell


def test_what_fits_is_one_table_with_a_line_for_each_row() -> None:
    grid = Grid()
    for title in TITLES:
        grid.add_column(title)
    for row in ROWS:
        grid.add_row(*row)
    out = io.StringIO()
    console(file=out, width=200).print(grid)
    assert len(out.getvalue().splitlines()) == 1 + len(ROWS)


@pytest.mark.parametrize("width", [80, 100, 130])
def test_an_interval_is_never_cut_into_lines(width: int) -> None:
    grid = Grid(names=2)
    for title in ("first", "second"):
        grid.add_column(title)
    for title in ("gap", "95 % interval", "all at once", "p", "effect"):
        grid.add_column(title, justify="right")
    figures = ("+3.57", "+2.63 to +4.52", "+2.42 to +4.73", "< 0.0001", "+0.25")
    grid.add_row("seedream4-0", "qwen-image-edit-2509", *figures)
    out = io.StringIO()
    console(file=out, width=width).print(grid)
    assert all(figure in out.getvalue() for figure in figures)
    assert max(map(len, out.getvalue().splitlines())) <= width


@pytest.mark.parametrize("length", [30, 37, 45, 60])
@pytest.mark.parametrize("width", [80, 100, 130])
def test_no_figure_is_cut_or_lost_beside_long_names(length: int, width: int) -> None:
    names = [f"{letter * (length - 16)}-checkpoint-{n:04d}" for n, letter in enumerate("abc")]
    figures = [["-0.36", "-0.99 to +0.27", "0.0123", "1200", "resolved"], ["+10.25", "-1.5 to 22.0", "1", "7", "no"]]
    grid = Grid(names=2)
    for title in ("first", "second"):
        grid.add_column(title)
    for title in ("gap", "95 % interval", "p", "n", "verdict"):
        grid.add_column(title, justify="right")
    for row in figures:
        grid.add_row(names[0], names[1], *row)
    out = io.StringIO()
    console(file=out, width=width).print(grid)
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    for cell in (cell for row in figures for cell in row):
        assert any(cell in line for line in lines), f"{cell} stands whole on one line"
    letters = "".join("".join(lines).split())
    assert all(letters.count(name[0]) >= name.count(name[0]) for name in names[:2]), "no letter of a name is lost"
