"""`refbench table`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import Items, Json, Level, ProtocolName
from refbench.record import RefBenchError


def table_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    protocol: ProtocolName = "both",
    by: Level = "overall",
    json: Json = False,
    csv: Annotated[bool, Parameter(help="Print every row as CSV")] = False,
    markdown: Annotated[bool, Parameter(help="Print the leaderboards as Markdown")] = False,
    items: Items = None,
) -> int:
    """Score what a run holds and print its table: intervals, coverage, both protocols, published numbers."""
    if json + csv + markdown > 1:
        raise RefBenchError("--json, --csv and --markdown exclude each other: give one of them")
    from refbench.cli.printing import write_result
    from refbench.scoring import score_run

    result = score_run(run, protocol=protocol)
    write_result(
        result,
        "json" if json else "csv" if csv else "markdown" if markdown else "terminal",
        by=by,
        items=items,
    )
    return 0
