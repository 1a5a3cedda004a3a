"""`refbench table`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import Items, Json, Level, ProtocolName, Refusals
from refbench.record import RefBenchError

if TYPE_CHECKING:
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
    items: Items = None,
) -> int:
    """Score what a run holds and print its table: intervals, coverage, both protocols, published numbers."""
    if json + csv + markdown + latex > 1:
        raise RefBenchError("--json, --csv, --markdown and --latex exclude each other: give one of them")
    if not latex and (open or closed or interval or wide or published != "run"):
        raise RefBenchError("--open, --closed, --interval, --wide and --published are about --latex: add it")
    if out is not None and not (json or csv or markdown or latex):
        raise RefBenchError(f"--out {out}: say in which format, with --json, --csv, --markdown or --latex")
    from refbench.cli.printing import write_result

    result = _result(run, protocol, subset, refusals, benchmark)
    if latex:
        from refbench.cli.printing import write_text
        from refbench.report.latex.table import Openness
        from refbench.report.latex.write import to_latex

        known = Openness(tuple(open or ()), tuple(closed or ()))
        text = to_latex(result, by=by, published=published, openness=known, interval=interval, wide=wide)
        write_text(text, out, result, items)
        return 0
    write_result(
        result,
        "json" if json else "csv" if csv else "markdown" if markdown else "terminal",
        by=by,
        items=items,
        out=out,
    )
    return 0


def _result(run: str, protocol: str, subset: str | None, refusals: str, reader: str | None) -> Result:
    """What a run holds, scored; or the item scores that a benchmark's authors released."""
    from refbench.benchmarks import benchmark, names
    from refbench.tables.scoring import Origin, result_of, score_run

    if run not in names() or (Path(run) / "run.json").exists():
        if subset is not None:
            raise RefBenchError(f"--subset {subset}: a run has the cases that it was made with")
        return score_run(Path(run), protocol=protocol, refusals=refusals, reader=reader)
    if reader is not None:
        raise RefBenchError(f"--benchmark {reader}: released item scores are read by nobody: give a run directory")
    bench = benchmark(run)
    if bench.reporting.released is None:
        raise RefBenchError(f"no item scores of {bench.title} were released: give a run directory")
    if subset is not None and subset not in bench.data.subsets:
        raise RefBenchError(f"--subset {subset}: {bench.title} has {', '.join(bench.data.subsets) or 'none'}")
    cases, scores = bench.reporting.released(subset)
    theirs = scores[0].protocol
    if protocol not in ("both", theirs):
        raise RefBenchError(f"--protocol {protocol}: the released scores of {bench.title} are of {theirs} only")
    note = "these are the item scores that were released, as the authors' scripts gave them"
    return result_of(bench, cases, scores, Origin(subset, notes=[note]), refusals=refusals)
