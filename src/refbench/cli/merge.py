"""`refbench merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def merge_command(
    *runs: Annotated[Path, Parameter(help="Run directories to read; they stay as they are")],
    out: Annotated[Path, Parameter(help="Run directory to write: a new one, or one of the same cases")],
) -> int:
    """Merge runs of the same cases: success beats failure, then the earliest wins; disagreements are counted."""
    from refbench.runs import merge

    report = merge(runs, out)
    print(f"{out}: {report.new} results taken over, {report.known} known, {report.conflicts} in conflict")
    return 0
