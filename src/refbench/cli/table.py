"""`refbench table`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from refbench.cli.options import Formulas, Items, Json, Level, ProtocolName, Refusals
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.cli.printing import Format
    from refbench.tables.result import Result


def table_command(
    run: Annotated[
        str, Parameter(help="Run directory, as --out named it; or a benchmark whose item scores were released (creval)")
    ],
    *,
    protocol: ProtocolName = "both",
    subset: Annotated[
        str | None, Parameter(help="Of released item scores: only those of a named subset, for example paper874")
    ] = None,
    benchmark: Annotated[
        str | None,
        Parameter(help="Read the run with this file of its benchmark, or this rubric, not with the copy it keeps"),
    ] = None,
    by: Level = "overall",
    refusals: Refusals = "conditional",
    formulas: Formulas = "",
    json: Json = False,
    csv: Annotated[bool, Parameter(help="Print every row as CSV")] = False,
    markdown: Annotated[bool, Parameter(help="Print the leaderboards as Markdown")] = False,
    latex: Annotated[bool, Parameter(help="Print a booktabs table for a paper")] = False,
    out: Annotated[Path | None, Parameter(help="Write the table to this file instead of printing it")] = None,
    published: Annotated[
        Literal["run", "all", "none"],
        Parameter(help="LaTeX: printed rows of the run's models where there are such, of all, or none"),
    ] = "run",
    open: Annotated[list[str] | None, Parameter(help="LaTeX: a model with open weights")] = None,  # noqa: A002
    closed: Annotated[list[str] | None, Parameter(help="LaTeX: a closed model; families are known by name")] = None,
    interval: Annotated[
        Literal["range", "half", "none"] | None,
        Parameter(help="LaTeX: ends of the 95 % interval, half its width, or none"),
    ] = None,
    wide: Annotated[bool, Parameter(help="LaTeX: across both columns of a page (table*)")] = False,
    measures: Annotated[
        Literal["summary", "all"],
        Parameter(help="LaTeX: the summary measure on each slice of --by, or all of the benchmark's measures"),
    ] = "summary",
    items: Items = None,
    usable: Annotated[
        bool,
        Parameter(help="What a usable picture takes: refusals, latency, price, from the outputs", show_default=False),
    ] = False,
) -> int:
    """Score what a run holds and print its table: intervals, coverage, both protocols, published numbers."""
    formats = {"json": json, "csv": csv, "markdown": markdown, "latex": latex}
    if usable:
        return _usable(Path(run), json, alone=not (csv or markdown or latex or out or items))
    _check_formats(
        formats, out, of_latex=bool(open or closed or interval or wide or published != "run" or measures != "summary")
    )
    result = _result(run, protocol, subset, refusals, benchmark, formulas)
    if latex:
        how = {"published": published, "interval": interval, "wide": wide, "measures": measures}
        _write_latex(result, by, (tuple(open or ()), tuple(closed or ())), how, (out, items))
        return 0
    from refbench.cli.printing import write_result

    shape: Format = "json" if json else "csv" if csv else "markdown" if markdown else "terminal"
    write_result(result, shape, by=by, items=items, out=out)
    return 0


def _write_latex(
    result: Result,
    by: str,
    weights: tuple[tuple[str, ...], tuple[str, ...]],
    how: dict[str, Any],
    files: tuple[Path | None, Path | None],
) -> None:
    from refbench.cli.printing import write_text
    from refbench.report.latex.table import Openness
    from refbench.report.latex.write import to_latex

    write_text(to_latex(result, by=by, openness=Openness(*weights), **how), files[0], result, files[1])


def _check_formats(formats: dict[str, bool], out: Path | None, *, of_latex: bool) -> None:
    if sum(formats.values()) > 1:
        raise RefBenchError("--json, --csv, --markdown and --latex exclude each other: give one of them")
    if not formats["latex"] and of_latex:
        raise RefBenchError(
            "--open, --closed, --interval, --wide, --measures and --published are about --latex: add it"
        )
    if out is not None and not any(formats.values()):
        raise RefBenchError(f"--out {out}: say in which format, with --json, --csv, --markdown or --latex")


def _result(run: str, protocol: str, subset: str | None, refusals: str, reader: str | None, formulas: str) -> Result:
    """What a run holds, scored; or the item scores that a benchmark's authors released."""
    from refbench.benchmarks import names
    from refbench.tables.scoring import released_result, score_run

    if run not in names() or (Path(run) / "run.json").exists():
        if subset is not None:
            raise RefBenchError(f"--subset {subset}: a run has the cases that it was made with")
        from refbench.analysis.attribution.read import with_attribution
        from refbench.analysis.audit.card import with_cards

        made = score_run(Path(run), protocol=protocol, refusals=refusals, reader=reader, formulas=formulas)
        return with_attribution(with_cards(made, run), run)
    if reader is not None:
        raise RefBenchError(f"--benchmark {reader}: released item scores are read by nobody: give a run directory")
    return released_result(run, protocol=protocol, subset=subset, refusals=refusals, formulas=formulas)


def _usable(run: Path, json: bool, *, alone: bool) -> int:
    """Print what one usable picture takes."""
    if not alone:
        raise RefBenchError("--usable is printed, or given as --json: leave the other formats out")
    from rich.text import Text

    from refbench.analysis.usable import usable_table
    from refbench.text.console import console
    from refbench.text.tables import Grid

    found = usable_table(run)
    if json:
        print(found.model_dump_json())
        return 0
    out = console()
    grid = Grid()
    grid.add_column("model")
    for title in ("usable", "fails", "95 %", "p50", "p95", "usd a usable picture"):
        grid.add_column(title, justify="right")
    grid.add_column("failed")
    for row in found.rows:
        fails = "-" if row.rate is None else f"{100 * row.rate:.1f} %"
        reach = "-" if row.rate95 is None else f"{100 * row.rate95[0]:.1f} to {100 * row.rate95[1]:.1f}"
        seconds = ["-" if one is None else f"{one:.1f} s" for one in (row.p50, row.p95)]
        price = "-" if row.usd_per_usable is None else f"{row.usd_per_usable:.4f}"
        kinds = ", ".join(f"{kind} {n}" for kind, n in row.failed.items())
        cells = (row.model, f"{row.usable}/{row.asked}", fails, reach, *seconds, price, kinds)
        grid.add_row(*(Text(cell) for cell in cells))
    out.print(grid)
    for note in found.notes:
        out.print(Text(f"Note: {note}."))
    return 0
