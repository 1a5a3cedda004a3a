"""`refbench check`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import Data, Json, Subset
from refbench.record import counted

if TYPE_CHECKING:
    from refbench.benchmarks import Benchmark, Dataset

_EXAMPLES = 3


def check_command(
    benchmark: Annotated[
        str, Parameter(help="Name of the benchmark, see refbench list, or cases of your own (.jsonl, .csv, .parquet)")
    ],
    *,
    data: Data = None,
    subset: Subset = None,
    json: Json = False,
) -> int:
    """Load a dataset, open its pictures, and list what is odd with what that does to scores. Nothing is run.

    Oddities that RefBench handles are reported and end in exit code 0; data that cannot be read ends in 2.
    """
    from refbench.benchmarks import benchmark as find
    from refbench.benchmarks.own import own_benchmark
    from refbench.runs.run import cases_fingerprint
    from refbench.tables.scoring import load

    own = Path(benchmark).suffix.lower() in (".jsonl", ".csv", ".parquet")
    bench = replace(own_benchmark(None), title="Own cases") if own else find(benchmark)
    dataset = bench.data.load(Path(benchmark), subset) if own else load(benchmark, data, subset=subset)
    counts = {
        "cases": len(dataset.cases),
        "pictures": sum(len(case.request.pictures) for case in dataset.cases),
        **bench.data.describe(dataset),
    }
    anomalies = _by_kind(bench, dataset)
    if json:
        report = {
            "benchmark": bench.name,
            "data": str(dataset.root),
            "subset": subset,
            "fingerprint": cases_fingerprint(dataset.cases)[:16],
            "counts": counts,
            "anomalies": anomalies,
        }
        print(orjson.dumps(report).decode())
    else:
        pieces = f"{counted(counts['cases'], 'case')}, {counted(counts['pictures'], 'picture')}"
        _print_anomalies(f"[bold]{bench.title}[/bold] in {dataset.root}: {pieces}", anomalies)
    return 0


def _by_kind(bench: Benchmark, dataset: Dataset) -> list[dict[str, Any]]:
    grouped: dict[str, list[dict[str, str]]] = defaultdict(list)
    for anomaly in bench.data.anomalies(dataset):
        grouped[anomaly.kind].append(anomaly.model_dump(exclude={"kind"}))
    return [
        {
            "kind": kind,
            "count": len(places),
            "cases": len({place["case"] for place in places}),
            "effect": bench.data.anomaly_kinds.get(kind, ""),
            "places": places,
        }
        for kind, places in grouped.items()
    ]


def _print_anomalies(title: str, anomalies: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table as Grid

    from refbench.report.terminal import console

    out = console()
    out.print(title)
    grid = Grid(box=None, pad_edge=False, header_style="bold")
    for name in ("what", "times", "cases", "what it does", "for example"):
        grid.add_column(name, overflow="fold", justify="right" if name in ("times", "cases") else "left")
    for row in sorted(anomalies, key=lambda row: -int(row["count"])):
        cases = list(dict.fromkeys(place["case"] for place in row["places"]))
        grid.add_row(row["kind"], str(row["count"]), str(row["cases"]), row["effect"], ", ".join(cases[:_EXAMPLES]))
    out.print(grid if anomalies else "Nothing is odd.")
