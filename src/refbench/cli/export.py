"""`refbench export`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter


def export_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    out: Annotated[Path, Parameter(help="File to write: .csv, .jsonl or .parquet")],
    what: Annotated[
        Literal["scores", "cases", "evidence", "outputs", "annotations"], Parameter(help="Which rows")
    ] = "scores",
) -> int:
    """Write what a run holds for other tools: its scores in both protocols, the cases, the raw replies, the outputs,
    or what was noted about cases in refbench view."""
    from refbench.runs import Run, case_rows, write_rows
    from refbench.runs.annotations import read_annotations
    from refbench.tables.scoring import score_run

    rows: Iterable[Mapping[str, Any]]
    if what == "scores":
        rows = score_run(run, draws=0).items()
    elif what == "cases":
        rows = case_rows(Run.open(run))
    elif what == "evidence":
        rows = (
            {**purpose.model_dump(), "evidence": act.id, **act.model_dump(mode="json")}
            for purpose, act in Run.open(run).evidence()
        )
    elif what == "annotations":
        notes = read_annotations(Run.open(run).path)
        if notes.unread:
            print(f"{notes.unread} lines of annotations.jsonl could not be read and are left out", file=sys.stderr)
        rows = (annotation.model_dump(mode="json") for annotation in notes.standing.values())
    else:
        rows = (output.model_dump(mode="json") for output in Run.open(run).outputs())
    print(f"{write_rows(rows, out)} rows in {out}")
    return 0
