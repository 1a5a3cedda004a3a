"""Options that several commands share, and the one way a result is printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from refbench.record import RefBenchError

Json = Annotated[bool, Parameter(help="Print one JSON object instead of a table")]
Data = Annotated[Path | None, Parameter(help="Directory of the official data; default $REFBENCH_DATA/NAME")]
Subset = Annotated[str | None, Parameter(help="Only the cases of a named subset, for example paper874")]
ProtocolName = Annotated[Literal["paper", "corrected", "both"], Parameter(help="Which numbers to give")]
Level = Annotated[str, Parameter(help="Also print a table for each slice of this level, for example category or task")]
Items = Annotated[
    Path | None,
    Parameter(help="Write one line for each case, model, metric and protocol to this .jsonl, .csv or .parquet"),
]
Refusals = Annotated[
    Literal["conditional", "worst", "worst,unsupported"],
    Parameter(
        help="How a model's own failures (it refused, gave no picture) count: left out, with bounds beside; as the "
        "worst value; or requests it cannot take as the worst value too"
    ),
]
EngineName = Annotated[
    Literal["embedded", "ray"],
    Parameter(
        help="Where metrics, local models and local judges run: on this machine, or on the nodes of a Ray cluster"
    ),
]
Address = Annotated[
    str | None, Parameter(help="With --engine ray: auto or HOST:PORT of a cluster; without it a Ray of this machine")
]


# Settings of judging, as the commands that judge take them: `--set KEY=VALUE`.

Setting = Annotated[
    list[str] | None, Parameter(name="--set", help="KEY=VALUE for the benchmark's judging, for example questions=one")
]


def judging_settings(texts: Sequence[str] | None) -> dict[str, str]:
    """The settings that were given."""
    settings = {}
    for text in texts or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise RefBenchError(f"--set {text}: write it as KEY=VALUE")
        settings[key] = value
    return settings
