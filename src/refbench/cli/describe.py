"""`refbench describe`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from cyclopts import Parameter

from refbench.cli.options import Data, Json, Subset
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.benchmarks import Dataset


def describe_command(
    benchmark: Annotated[str, Parameter(help="Name of the benchmark, see refbench list, or cases of your own (.csv)")],
    *,
    data: Data = None,
    subset: Subset = None,
    figures: Annotated[
        Path | None, Parameter(help="Draw word counts, shares of tasks and numbers of pictures into this directory")
    ] = None,
    format: Annotated[  # noqa: A002
        Literal["svg", "pdf", "png", "csv"], Parameter(help="Of --figures: what the files are")
    ] = "svg",
    json: Json = False,
) -> int:
    """Describe a dataset: prompt lengths, pictures per case, categories and tags, and the benchmark's own counts."""
    from refbench.benchmarks import benchmark as find
    from refbench.tables.scoring import load

    dataset = load(benchmark, data, subset=subset)
    words = sorted(len(case.request.instruction.split()) for case in dataset.cases)
    groups: dict[str, Counter[str]] = {}
    for case in dataset.cases:
        for name, value in case.groups.items():
            groups.setdefault(name, Counter())[value] += 1
    description: dict[str, Any] = {
        "benchmark": dataset.benchmark,
        "cases": len(dataset.cases),
        "clusters": len({case.cluster for case in dataset.cases}),
        "prompt_words": {
            "min": words[0],
            "median": words[len(words) // 2],
            "mean": round(sum(words) / len(words), 1),
            "max": words[-1],
        },
        "pictures_per_case": _counts(len(case.request.pictures) for case in dataset.cases),
        "roles": _counts(picture.role for case in dataset.cases for picture in case.request.pictures),
        "groups": {name: dict(counts.most_common()) for name, counts in groups.items()},
        "tags": _counts(tag for case in dataset.cases for tag in case.tags),
        **({} if dataset.benchmark == "own" else find(benchmark).data.describe(dataset)),
    }
    if figures is not None:
        _draw(dataset, figures, format, quiet=json)
    if json:
        print(orjson.dumps(description).decode())
        return 0
    from refbench.text.console import console, printable

    out = console()

    def say(text: str, **how: Any) -> None:
        out.print(printable(text, line=True), **how)  # names of groups and roles are the dataset's

    for name, value in description.items():
        _print(say, name, value, 0)
    return 0


def _draw(dataset: Dataset, folder: Path, suffix: str, *, quiet: bool) -> None:
    from refbench.benchmarks import benchmark
    from refbench.cli.printing import write_file
    from refbench.report.figures import dataset_figures

    if folder.is_file():
        raise RefBenchError(f"--figures {folder}: is a file, and should be a directory")
    title = "Cases of your own" if dataset.benchmark == "own" else benchmark(dataset.benchmark).title
    for name, drawn in dataset_figures(title, dataset.cases).items():
        path = folder / f"{name}.{suffix}"
        write_file(path, drawn.content(path), quiet=quiet)


def _counts(values: Any) -> dict[str, int]:
    return {str(value): n for value, n in sorted(Counter(values).items(), key=lambda item: str(item[0]))}


def _print(say: Any, name: str, value: Any, depth: int) -> None:
    indent = "  " * depth
    if isinstance(value, dict):
        say(f"{indent}{name.replace('_', ' ')}" + ("" if value else ": none"), style="bold")
        for inner, item in value.items():
            _print(say, inner, item, depth + 1)
    else:
        text = " to ".join(map(str, value)) if isinstance(value, list) else value
        say(f"{indent}{name.replace('_', ' ')}: {text}", highlight=False)
