"""`refbench export`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.runs import Run


def export_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    out: Annotated[Path | None, Parameter(help="File to write: .csv, .jsonl or .parquet")] = None,
    pictures: Annotated[
        Path | None, Parameter(help="Copy the outputs to this folder, as MODEL/CASE.png and CASE_s1.png for seed 1")
    ] = None,
    what: Annotated[
        Literal["scores", "cases", "evidence", "outputs", "annotations"], Parameter(help="Which rows")
    ] = "scores",
) -> int:
    """Write what a run holds for other tools: its scores in both protocols, the cases, the raw replies, the outputs,
    or what was noted about cases in refbench view."""
    from refbench.runs import Run, case_rows, write_rows
    from refbench.runs.annotations import read_annotations
    from refbench.tables.scoring import score_run

    if out is None and pictures is None:
        raise RefBenchError("give --out FILE for rows, or --pictures DIR for the outputs")
    if pictures is not None:
        print(f"{_export_pictures(Run.open(run), pictures)} pictures in {pictures}")
    if out is None:
        return 0
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


_UNSAFE = re.compile(r"[^\w.,+=@-]+")
_LONGEST_NAME = 150


def _export_pictures(run: Run, folder: Path) -> int:
    """Copy every output under a readable name; steps of agents and what failed are left out."""
    from refbench.runs.disk import disk_error, write_whole

    named: dict[Path, str] = {}
    copied = 0
    for output in run.outputs():
        if output.step is not None:
            continue
        for number, picture in enumerate(output.pictures, start=1):
            several = f"_{number}" if len(output.pictures) > 1 else ""
            seed = f"_s{output.seed}" if output.seed else ""
            base = f"{_file_name(output.case)}{several}{seed}"
            path = folder / _file_name(output.model) / f"{base}.{picture.format}"
            whose = f"{output.model} {output.case}"
            if named.setdefault(path, whose) != whose:  # names that are the same but for signs that no file has
                path = path.with_stem(f"{base}_{picture.sha256[:8]}")
                named[path] = whose
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, run.blobs.path(picture.sha256, picture.format).read_bytes())
            except OSError as error:
                raise disk_error(error, path) from error
            copied += 1
    return copied


def _file_name(name: str) -> str:
    """The name without what a file cannot be called, and not one that begins with a dot."""
    return _UNSAFE.sub("_", name).lstrip(".")[:_LONGEST_NAME] or "_"
