"""`refbench paper`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Literal

import orjson
from cyclopts import Parameter

from refbench.cli.options import Data, Json, not_negative
from refbench.record import RefBenchError


def paper_command(
    *runs: Annotated[str, Parameter(help="Run directories, or benchmarks whose item scores were released (creval)")],
    out: Annotated[Path, Parameter(help="Directory for the files")],
    published: Annotated[
        Literal["run", "all", "none"],
        Parameter(help="Printed rows: of the runs' models where there are such, all, none"),
    ] = "run",
    open: Annotated[list[str] | None, Parameter(help="A model with open weights")] = None,  # noqa: A002
    closed: Annotated[list[str] | None, Parameter(help="A closed model; families are known by name")] = None,
    cases: Annotated[int, Parameter(help="Cases on each figure, drawn by lot")] = 4,
    seed: Annotated[int, Parameter(help="Seed of the lot; the caption states it", validator=not_negative)] = 0,
    data: Data = None,
    json: Json = False,
) -> int:
    """Write what a paper needs of several runs: one table of models by benchmarks under both protocols, an appendix
    with settings, seeds, dates, judges and fingerprints, BibTeX, a figure of cases drawn by lot, and a main.tex."""
    from refbench.benchmarks import names
    from refbench.cli.printing import write_file
    from refbench.report.latex.table import Openness
    from refbench.report.paper.write import PaperOptions, paper_files
    from refbench.report.site.boards import open_boards
    from refbench.tables.scoring import released_result

    if not runs:
        raise RefBenchError("name the runs, for example: refbench paper runs/creval runs/multibanana --out paper")
    if cases < 1:
        raise RefBenchError(f"--cases {cases}: give a number from 1 up")
    if out.is_file():
        raise RefBenchError(f"--out {out}: is a file, and should be a directory")
    released = [run for run in runs if run in names() and not (Path(run) / "run.json").exists()]
    options = PaperOptions(published, Openness(tuple(open or ()), tuple(closed or ())), cases, seed, data)
    with contextlib.ExitStack() as opened:
        paths = [Path(run) for run in runs if run not in released]
        boards = open_boards(paths) if paths else []
        for board in boards:
            opened.callback(board.close)
        files, left_out = paper_files(boards, [(released_result(name), ()) for name in released], options)
    for name, content in files.items():
        write_file(out / name, content, quiet=json)
    if json:
        print(orjson.dumps({"out": str(out), "files": list(files), "left_out": left_out}).decode())
        return 0
    for said in left_out:
        print(f"no figure of cases: {said}")
    print(f"compile it: cd {out} && pdflatex main && bibtex main && pdflatex main && pdflatex main")
    return 0
