"""`refbench cases`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import Data, Subset
from refbench.record import counted

if TYPE_CHECKING:
    from refbench.benchmarks import Dataset
    from refbench.case import Picture


def cases_command(
    benchmark: Annotated[str, Parameter(help="Name of the benchmark, see refbench list, or cases of your own (.csv)")],
    *,
    data: Data = None,
    subset: Subset = None,
    out: Annotated[
        Path | None, Parameter(help="File to write (.jsonl, .csv or .parquet); standard output by default")
    ] = None,
    scorers: Annotated[
        bool, Parameter(help="Also what only scorers may see: targets, and questions of cases of your own")
    ] = False,
) -> int:
    """Write what a model may see of each case, and the file name its output should have.

    Questions, references and other secrets of the scorers are not in it. The file can be run as cases of your own.
    """
    from refbench.runs import write_rows
    from refbench.tables.scoring import load

    dataset = load(benchmark, data, subset=subset)
    rows = _rows(dataset, scorers=scorers)
    if out is None:
        for row in rows:
            sys.stdout.write(orjson.dumps(row).decode() + "\n")
        return 0
    count = write_rows(rows, out)
    print(f"{counted(count, 'case')} in {out}")
    return 0


def _rows(dataset: Dataset, *, scorers: bool) -> Iterator[dict[str, Any]]:
    """The cases in the format of one's own (docs/own-cases.md), so that nothing is lost on the way back."""
    for case in dataset.cases:
        row: dict[str, Any] = {
            "id": case.id,
            "instruction": case.request.instruction,
            "pictures": _placed(dataset, case.request.pictures),
            "size": case.request.size,
            "n_pictures": case.request.n_pictures,
            "groups": dict(case.groups),
            "tags": list(case.tags),
            "cluster": case.cluster,
            "output": f"{case.id}.png",
        }
        if scorers:
            row["targets"] = _placed(dataset, case.targets)
            row["questions"] = list(case.details.questions) if dataset.benchmark == "own" else []
        yield row


def _placed(dataset: Dataset, pictures: Iterable[Picture]) -> list[dict[str, str]]:
    # Absolute, because relative ones would start beside the file that is written, wherever that is.
    return [{"path": str(dataset.path(picture).absolute()), "role": picture.role} for picture in pictures]
