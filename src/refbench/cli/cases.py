"""`refbench cases`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import Data, Subset


def cases_command(
    benchmark: Annotated[str, Parameter(help="Name of the benchmark, see refbench list")],
    *,
    data: Data = None,
    subset: Subset = None,
    out: Annotated[Path | None, Parameter(help="File to write (.jsonl or .csv); standard output by default")] = None,
) -> int:
    """Write what a model may see of each case, and the file name its output should have.

    Questions, references and other secrets of the scorers are not in it.
    """
    from refbench.benchmarks import Dataset
    from refbench.runs import write_rows
    from refbench.scoring import load

    def rows(dataset: Dataset) -> Iterator[dict[str, Any]]:
        for case in dataset.cases:
            yield {
                "id": case.id,
                "instruction": case.request.instruction,
                "pictures": [
                    {"path": str(dataset.path(picture)), "role": picture.role} for picture in case.request.pictures
                ],
                "size": case.request.size,
                "n_pictures": case.request.n_pictures,
                "groups": dict(case.groups),
                "tags": list(case.tags),
                "output": f"{case.id}.png",
            }

    dataset = load(benchmark, data, subset=subset)
    if out is None:
        for row in rows(dataset):
            sys.stdout.write(orjson.dumps(row).decode() + "\n")
        return 0
    count = write_rows(rows(dataset), out)
    print(f"{count} cases in {out}")
    return 0
