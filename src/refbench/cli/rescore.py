"""`refbench rescore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import Data, Formulas, Items, Json, Level, ProtocolName, Refusals, Subset


def rescore_command(
    benchmark: Annotated[str, Parameter(help="Name of the benchmark, see refbench list")],
    *,
    replies: Annotated[
        Path, Parameter(help="Folder of judge replies in the official layout, for example DIR/answer_gpt")
    ],
    data: Data = None,
    model: Annotated[list[str] | None, Parameter(help="Only this model; may be given several times")] = None,
    judge: Annotated[
        str | None, Parameter(help="Name of the judge that wrote the replies; known for released folders")
    ] = None,
    protocol: ProtocolName = "both",
    subset: Subset = None,
    items: Items = None,
    out: Annotated[
        Path | None, Parameter(help="Run directory to keep the replies in; the same command resumes it")
    ] = None,
    shard: Annotated[str | None, Parameter(help="Record only the i-th of n parts of the cases, as i/n")] = None,
    by: Level = "overall",
    refusals: Refusals = "conditional",
    formulas: Formulas = "",
    allow_failures: Annotated[
        float, Parameter(help="Share of unreadable replies above which the exit code is 1")
    ] = 0.02,
    json: Json = False,
) -> int:
    """Read judge replies that are already there, score them in both protocols, and table them."""
    from refbench.cli.printing import failure_code, write_result
    from refbench.runs import Shard
    from refbench.tables.scoring import rescore

    result = rescore(
        benchmark,
        replies=replies,
        data=data,
        models=model,
        judge=judge,
        subset=subset,
        protocol=protocol,
        out=out,
        shard=Shard.parse(shard) if shard else None,
        refusals=refusals,
        formulas=formulas,
    )
    write_result(result, "json" if json else "terminal", by=by, items=items)
    if out is not None and not json:
        print(f"\nThe replies are in {out}. Next: refbench table {out} --markdown")
    return failure_code(result, allow_failures)
