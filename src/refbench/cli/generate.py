"""`refbench generate`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import OUTPUT, Json, with_run_options

_TIMEOUT = 600.0
"""Seconds: a picture takes longer than a reply."""


@with_run_options(
    "benchmark", "models", "out", "data", "subset", "seeds", "rubric", "limit", "shard", "budget", "retry",
    "concurrency", "generate_concurrency", "timeout", "engine", "address",
    defaults={"timeout": _TIMEOUT},
)  # fmt: skip
def generate_command(benchmark: str, *, json: Annotated[Json, Parameter(group=OUTPUT)] = False, **given: Any) -> int:
    """Make the models' pictures, resumably, and nothing else; `refbench run` with the same --out scores them."""
    from refbench.cli.printing import explain
    from refbench.cli.run import run_options
    from refbench.engine.evaluation import generate_async

    options = run_options(benchmark, {"timeout": _TIMEOUT, **given})
    made = asyncio.run(generate_async(options, show=not json))
    if json:
        report = {"run": str(options.out), "outputs": made.there, "failed": made.failed, "stopped": made.stopped}
        print(orjson.dumps(report).decode())
    else:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(made.failed.items())) or "none"
        print(f"{made.there} outputs in {options.out}; failed: {kinds}")
        if made.first_failure:
            print(f"One of them: {made.first_failure}")
        again = f"with the same --model and --out {options.out}, and a --judge if it needs one"
        print(f"Next: refbench run {options.benchmark} {again}")
    if made.stopped == "budget":
        explain(3, "the budget is spent. The same command with a larger --budget goes on")
        return 3
    if made.failed:
        explain(1, "not all pictures could be made. The same command tries again what may pass, --retry KIND the rest")
        return 1
    return 0
