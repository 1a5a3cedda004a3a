"""`refbench list`."""

from __future__ import annotations

from typing import Literal

import orjson

from refbench.cli.options import Json


def list_command(what: Literal["benchmarks", "failures"] = "benchmarks", *, json: Json = False) -> int:
    """List what there is."""
    found = _benchmarks() if what == "benchmarks" else _failures()
    if json:
        print(orjson.dumps({what: found}).decode())
        return 0
    from rich.table import Table as Grid

    from refbench.report.terminal import console

    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for name in found[0]:
        grid.add_column(name, overflow="fold")
    for row in found:
        grid.add_row(*(str(value) for value in row.values()))
    console().print(grid)
    return 0


def _benchmarks() -> list[dict[str, str]]:
    from refbench.benchmarks import benchmark, names

    found = []
    for name in names():
        bench = benchmark(name)
        measures = bench.protocols["corrected"].aggregate.measures
        found.append(
            {
                "name": name,
                "title": bench.title,
                "paper": bench.paper,
                "metrics": ", ".join(measure.name for measure in measures),
                "protocols": ", ".join(bench.protocols),
                "subsets": ", ".join(bench.subsets),
            }
        )
    return found


def _failures() -> list[dict[str, str]]:
    from refbench.failure import KINDS, TRANSIENT

    return [
        {"kind": kind, "tried again": "by the next run" if kind in TRANSIENT else "only when asked"} for kind in KINDS
    ]
