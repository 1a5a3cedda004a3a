"""`refbench list`."""

from __future__ import annotations

from typing import Literal

import orjson

from refbench.cli.options import Json


def list_command(
    what: Literal["benchmarks", "judges", "rubrics", "failures"] = "benchmarks", *, json: Json = False
) -> int:
    """List what there is."""
    found = {"benchmarks": _benchmarks, "judges": _judges, "rubrics": _rubrics, "failures": _failures}[what]()
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


def _judges() -> list[dict[str, str]]:
    from refbench.chat.build import PROVIDERS

    found = [
        {
            "kind": provider.kind,
            "address": f"${provider.base_url_variable}, else {provider.base_url}",
            "key": " or ".join(f"${name}" for name in provider.key_variables),
        }
        for provider in PROVIDERS.values()
    ]
    found.append({"kind": "local", "address": "this machine, through transformers", "key": "none"})
    found.append({"kind": "replay", "address": "a file of evidence", "key": "none"})
    return found


def _rubrics() -> list[dict[str, str]]:
    from refbench.judges.rubric import load_rubric, shipped_rubrics

    return [{"name": name, "title": load_rubric(name).title} for name in shipped_rubrics()]


def _failures() -> list[dict[str, str]]:
    from refbench.failure import KINDS, TRANSIENT

    return [
        {"kind": kind, "tried again": "by the next run" if kind in TRANSIENT else "only when asked"} for kind in KINDS
    ]
