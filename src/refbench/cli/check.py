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
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from refbench.benchmarks import Benchmark, Dataset

_EXAMPLES = 3


def check_command(
    benchmark: Annotated[
        str,
        Parameter(
            help="Name of the benchmark, see refbench list, or cases of your own (.jsonl, .csv, .parquet); or a run "
            "directory"
        ),
    ],
    *,
    data: Data = None,
    subset: Subset = None,
    rubric: Annotated[str | None, Parameter(help="Of cases of your own: check them under this rubric too")] = None,
    show: Annotated[
        bool, Parameter(help="With --rubric: print what a judge is asked about the first case, and how a reply is read")
    ] = False,
    reply: Annotated[Path | None, Parameter(help="With --show: read the reply in this file, not a made-up one")] = None,
    json: Json = False,
) -> int:
    """Load a dataset, open its pictures, and list what is odd with what that does to scores. Nothing is run.

    Oddities that RefBench handles are reported and end in exit code 0; data that cannot be read ends in 2. Of a run
    directory every file is held against what was written: sums of the ledgers, hashes of pictures, numbers of cases.
    """
    from refbench.benchmarks.fetch import said_of
    from refbench.runs.run import cases_fingerprint

    if _is_run(benchmark):
        if data is not None or subset is not None:
            raise RefBenchError(f"{benchmark} is a run: --data and --subset are about datasets")
        return _check_run(Path(benchmark), json=json)
    if (show and rubric is None) or (reply is not None and not show) or (show and json):
        raise RefBenchError("--show goes with --rubric and without --json, --reply with --show")
    bench, dataset = _loaded(benchmark, data, subset, rubric)
    counts = {
        "cases": len(dataset.cases),
        "pictures": sum(len(case.request.pictures) for case in dataset.cases),
        **bench.data.describe(dataset),
    }
    anomalies, source, elsewhere = _by_kind(bench, dataset), said_of(dataset.root), dataset.elsewhere()
    if json:
        report = {
            "benchmark": bench.name,
            "data": str(dataset.root),
            "source": source,
            "subset": subset,
            "fingerprint": cases_fingerprint(dataset.cases)[:16],
            "counts": counts,
            "anomalies": anomalies,
            **({"elsewhere": elsewhere} if elsewhere else {}),
        }
        print(orjson.dumps(report).decode())
    else:
        pieces = f"{counted(counts['cases'], 'case')}, {counted(counts['pictures'], 'picture')}"
        _print_anomalies(bench.title, f" in {dataset.root}: {pieces}{f'; {source}' if source else ''}", anomalies)
        if elsewhere:
            print(f"{elsewhere}.")
        if show:
            _show(bench, str(rubric), dataset, reply)
    return 0


def _show(bench: Benchmark, rubric: str, dataset: Dataset, reply: Path | None) -> None:
    from refbench.cli.asked import asked
    from refbench.judges.rubric import load_rubric
    from refbench.text.console import printable

    for line in asked(bench, load_rubric(rubric), dataset, reply):
        print(printable(line))


def _is_run(name: str) -> bool:
    from refbench.benchmarks import names
    from refbench.benchmarks.own.cases import holds_cases

    place = Path(name)
    return place.is_dir() and not holds_cases(place) and (name not in names() or (place / "run.json").exists())


def _loaded(name: str, data: Path | None, subset: str | None, rubric: str | None) -> tuple[Benchmark, Dataset]:
    from refbench.benchmarks import benchmark
    from refbench.benchmarks.own.benchmark import own_benchmark
    from refbench.benchmarks.own.cases import holds_cases
    from refbench.judges.rubric import rubric_source
    from refbench.tables.scoring import load

    own = holds_cases(name)
    if rubric is not None and not own:
        raise RefBenchError(f"--rubric is for cases of your own (.jsonl, .csv, .parquet): {name} has its own")
    words = rubric_source(rubric) if rubric is not None else (None, "")
    bench = replace(own_benchmark(*words), title="Own cases") if own else benchmark(name)
    return bench, bench.data.load(Path(name), subset) if rubric is not None else load(name, data, subset=subset)


def _check_run(path: Path, *, json: bool) -> int:
    from refbench.runs.checking import check_run
    from refbench.text.console import console

    checked = check_run(path)
    if json:
        print(orjson.dumps({**checked.model_dump(mode="json"), "damaged": checked.damaged}).decode())
        return 2 if checked.damaged else 0
    out = console()
    pieces = ", ".join(f"{count} {kind}" for kind, count in checked.counts.items()) or "nothing could be read"
    lines = [f"{path}: {pieces}"]
    lines += [f"{'' if one.damage else 'Note: '}{one.file}: {one.what}; {one.remedy}." for one in checked.problems]
    lines += [] if checked.problems else ["Everything is as it was written."]
    for line in lines:
        out.print(line, highlight=False, soft_wrap=True)
    return 2 if checked.damaged else 0


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


def _print_anomalies(title: str, where: str, anomalies: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    from refbench.text.console import console
    from refbench.text.tables import Grid

    out = console()
    out.print(Text.assemble((title, "bold"), where))
    grid = Grid()
    for name in ("what", "times", "cases", "what it does", "for example"):
        grid.add_column(name, justify="right" if name in ("times", "cases") else "left")
    for row in sorted(anomalies, key=lambda row: -int(row["count"])):
        cases = list(dict.fromkeys(place["case"] for place in row["places"]))
        grid.add_row(row["kind"], str(row["count"]), str(row["cases"]), row["effect"], ", ".join(cases[:_EXAMPLES]))
    out.print(grid if anomalies else "Nothing is odd.")
