"""`refbench export`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter


def export_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    out: Annotated[Path, Parameter(help="File to write: .csv, .jsonl or .parquet")],
    what: Annotated[Literal["scores", "evidence", "outputs"], Parameter(help="Which rows")] = "scores",
) -> int:
    """Write what a run holds for other tools: its scores in both protocols, the raw replies, or the outputs."""
    from refbench.runs import Run, write_rows
    from refbench.scoring import score_run

    rows: Iterable[dict[str, Any]]
    if what == "scores":
        rows = score_run(run, draws=0).items()
    elif what == "evidence":
        rows = (
            {**purpose.model_dump(), "evidence": act.id, **act.model_dump(mode="json")}
            for purpose, act in Run.open(run).evidence()
        )
    else:
        rows = (output.model_dump(mode="json") for output in Run.open(run).outputs())
    print(f"{write_rows(rows, out)} rows in {out}")
    return 0
