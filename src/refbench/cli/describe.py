"""`refbench describe`."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import Data, Json, Subset


def describe_command(
    benchmark: Annotated[str, Parameter(help="Name of the benchmark, see refbench list")],
    *,
    data: Data = None,
    subset: Subset = None,
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
        **find(benchmark).data.describe(dataset),
    }
    if json:
        print(orjson.dumps(description).decode())
        return 0
    from refbench.report.terminal import console

    out = console()
    for name, value in description.items():
        _print(out.print, name, value, 0)
    return 0


def _counts(values: Any) -> dict[str, int]:
    return {str(value): n for value, n in sorted(Counter(values).items(), key=lambda item: str(item[0]))}


def _print(say: Any, name: str, value: Any, depth: int) -> None:
    indent = "  " * depth
    if isinstance(value, dict):
        say(f"{indent}[bold]{name.replace('_', ' ')}[/bold]" + ("" if value else ": none"))
        for inner, item in value.items():
            _print(say, inner, item, depth + 1)
    else:
        text = " to ".join(map(str, value)) if isinstance(value, list) else value
        say(f"{indent}{name.replace('_', ' ')}: {text}", highlight=False)
