"""`refbench generate`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import orjson
from cyclopts import Parameter

from refbench.cli.options import Address, Data, EngineName, Json, Subset


def generate_command(
    benchmark: Annotated[str, Parameter(help="Name of a benchmark, a file that holds one (.py), or cases of your own")],
    *,
    model: Annotated[list[str], Parameter(help="[NAME=]KIND:WHAT of a model; may be given several times")],
    out: Annotated[Path, Parameter(help="Run directory; the same command resumes it")],
    data: Data = None,
    subset: Subset = None,
    limit: Annotated[int | None, Parameter(help="Only the first N cases of the fair order")] = None,
    shard: Annotated[
        str | None, Parameter(help="The i-th of n parts, as i/n; from SLURM's variables by default")
    ] = None,
    seeds: Annotated[int, Parameter(help="Outputs of each model and case, with the seeds 0, 1, ...")] = 1,
    retry: Annotated[list[str] | None, Parameter(help="Also try again what failed finally in this way")] = None,
    budget: Annotated[str | None, Parameter(help="Most that the pictures may cost, for example 5usd")] = None,
    concurrency: Annotated[int, Parameter(help="Most pictures of a model in the making")] = 8,
    timeout: Annotated[float, Parameter(help="Seconds to wait for a picture")] = 600.0,
    rubric: Annotated[str | None, Parameter(help="For cases of your own: a shipped rubric or a Markdown file")] = None,
    engine: EngineName = "embedded",
    address: Address = None,
    json: Json = False,
) -> int:
    """Make the models' pictures, resumably, and nothing else; `refbench run` with the same --out scores them."""
    from refbench.cli.printing import explain
    from refbench.cli.run import shard_of
    from refbench.engine.evaluation import generate_async

    made = asyncio.run(
        generate_async(
            benchmark,
            models=model,
            out=out,
            data=data,
            subset=subset,
            limit=limit,
            shard=shard_of(shard),
            seeds=seeds,
            retry=retry or (),
            budget=budget,
            making=concurrency,
            timeout=timeout,
            rubric=rubric,
            engine=engine,
            address=address,
            show=not json,
        )
    )
    said = {"run": str(out), "outputs": made.there, "failed": made.failed, "stopped": made.stopped}
    if json:
        print(orjson.dumps(said).decode())
    else:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(made.failed.items())) or "none"
        print(f"{made.there} outputs in {out}; failed: {kinds}")
        if made.first_failure:
            print(f"One of them: {made.first_failure}")
        print(f"Next: refbench run {benchmark} with the same --model and --out {out}, and a --judge if it needs one")
    if made.stopped == "budget":
        explain(3, "the budget is spent. The same command with a larger --budget goes on")
        return 3
    if made.failed:
        explain(1, "not all pictures could be made. The same command tries again what may pass, --retry KIND the rest")
        return 1
    return 0
