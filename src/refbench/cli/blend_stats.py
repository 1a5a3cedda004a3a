"""`refbench blend stats`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json


def stats_command(
    dataset: Annotated[Path, Parameter(help="Dataset that refbench blend build has made")],
    *,
    json: Json = False,
) -> int:
    """Say what a dataset holds: samples by set, type and split, and what was left out and why."""
    from refbench.refblend.statistics import read_statistics

    found = read_statistics(dataset)
    if json:
        print(orjson.dumps(found).decode())
    else:
        print_statistics(found)
    return 0


def print_statistics(found: Mapping[str, Any]) -> None:
    """The statistics of a dataset for the eye."""
    from rich.table import Table as Grid

    from refbench.report.terminal import console

    out = console()
    pictures, splits = found["pictures"], found["splits"]
    out.print(
        f"{found['samples']:,} samples of {pictures['targets']:,} pictures: "
        f"{splits['train']['samples']:,} for training, {splits['test']['samples']:,} for testing",
        highlight=False,
    )
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    grid.add_column("set", overflow="fold")
    for column in ("asked", "planned", "kept"):
        grid.add_column(column, justify="right")
    for name, of in found["sets"].items():
        if of["asked"] or of["kept"]:
            grid.add_row(name, *(f"{of[column]:,}" for column in ("asked", "planned", "kept")))
    out.print(grid)
    out.print("types: " + ", ".join(f"{kind} {number:,}" for kind, number in found["types"].items()), highlight=False)
    for stage, reasons in found["dropped"].items():
        words = "; ".join(f"{number:,} {reason}" for reason, number in reasons.items())
        out.print(f"left out, {stage}: {words}", highlight=False, markup=False)
    if found["needs_review"]:
        out.print(f"{found['needs_review']:,} samples ask for a review by people: review.jsonl", highlight=False)
