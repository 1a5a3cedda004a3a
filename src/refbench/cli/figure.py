"""`refbench figure`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.report.figures import Figure, FigureOptions
    from refbench.report.site.boards import Board

_ALL, _LIST = "all", "list"
_COLUMN = 420.0


def figure_command(
    name: Annotated[str, Parameter(help="Which figure; `list` names those of a run, `all` draws every one of them")],
    *runs: Annotated[Path, Parameter(help="Run directories, all of the same cases")],
    out: Annotated[
        Path | None, Parameter(help="The file: .svg, .pdf, .png, or .csv for its numbers; of `all` a directory")
    ] = None,
    by: Annotated[str | None, Parameter(help="The level that it is drawn by, for example task or category")] = None,
    measure: Annotated[
        str | None, Parameter(name=("--measure", "--metric"), help="The measure; default the summary")
    ] = None,
    models: Annotated[str | None, Parameter(help="These models, in this order: A,B,...")] = None,
    against: Annotated[str | None, Parameter(help="Of gaps: this model with each of the others")] = None,
    protocol: Annotated[
        Literal["paper", "corrected"] | None, Parameter(help="Which numbers; default corrected")
    ] = None,
    judge: Annotated[str | None, Parameter(help="Whose numbers; default as in the table")] = None,
    column: Annotated[
        bool, Parameter(help="As narrow as one column of a paper, with letters as large", show_default=False)
    ] = False,
    format: Annotated[  # noqa: A002
        Literal["svg", "pdf", "png", "csv"], Parameter(help="Of `all`: what the files are")
    ] = "svg",
    json: Json = False,
) -> int:
    """Draw a figure of a run for a paper, a talk or a page: the papers' own figures, and those that fit the question.

    Every number in it is one of the run's table, with its interval; what failed or is missing is shown as such.
    """
    from refbench.report.figures import FigureOptions
    from refbench.report.figures.files import check_suffix
    from refbench.report.grid.sheet import open_board
    from refbench.tables.table import DRAWS

    if not runs:
        raise RefBenchError("name a run directory, for example: refbench figure models runs/x --out models.svg")
    if name != _LIST and out is None:
        raise RefBenchError(
            f"say where to: refbench figure {name} {runs[0]} --out {name}{'' if name == _ALL else '.svg'}"
        )
    if out is not None and name not in (_ALL, _LIST):
        check_suffix(out)
    chosen = tuple(word.strip() for word in (models or "").split(",") if word.strip())
    with closing(open_board(runs, draws=DRAWS)) as board:
        width = _COLUMN if column else 760.0
        options = FigureOptions(by, measure, protocol, judge, chosen, against, width, styles=board.styles)
        if name == _LIST:
            return _list(board, json=json)
        assert out is not None
        if name == _ALL:
            return _all(board, options, out, format, json=json)
        return _one(board, name, options, out, json=json)


def _one(board: Board, name: str, options: FigureOptions, out: Path, *, json: bool) -> int:
    from refbench.cli.printing import write_file
    from refbench.report.figures import figure

    drawn = figure(name, board.result, options=options, runs=[run.path for run in board.runs])
    write_file(out, drawn.content(out), quiet=json)
    if json:
        print(orjson.dumps(_said(out, drawn)).decode())
    return 0


def _all(board: Board, options: FigureOptions, out: Path, suffix: str, *, json: bool) -> int:
    from refbench.cli.printing import write_file
    from refbench.report.figures import available

    if out.suffix or out.is_file():
        raise RefBenchError(f"--out {out}: of all figures it is a directory")
    found, why_not = available(board.result, [run.path for run in board.runs], options)
    for name, drawn in found.items():
        path = out / f"{name}.{suffix}"
        write_file(path, drawn.content(path), quiet=json)
    if json:
        written = [_said(out / f"{name}.{suffix}", drawn) for name, drawn in found.items()]
        print(orjson.dumps({"figures": written, "not_drawn": why_not}).decode())
        return 0
    for name, why in why_not.items():
        print(f"not drawn: {name}: {why}")
    return 0


def _said(path: Path, drawn: Figure) -> dict[str, object]:
    return {"name": drawn.chart.name, "out": str(path), "title": drawn.chart.title, "numbers": list(drawn.numbers())}


def _list(board: Board, *, json: bool) -> int:
    from refbench.report.figures import names
    from refbench.text.console import console
    from refbench.text.tables import Grid

    shown = names(board.result)
    if json:
        print(orjson.dumps(shown).decode())
        return 0
    grid = Grid()
    grid.add_column("figure")
    grid.add_column("shows")
    for name, what in shown.items():
        grid.add_row(name, what)
    console().print(grid)
    return 0
