"""`refbench generate`."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import OUTPUT, Json, with_run_options


@with_run_options(
    "benchmark", "models", "out", "data", "subset", "seeds", "replace", "rubric", "limit", "shard", "budget", "retry",
    "give_up_after", "concurrency", "generate_concurrency", "timeout", "longest_wait", "reply_megabytes",
    "engine", "address",
)  # fmt: skip
def generate_command(benchmark: str, *, json: Annotated[Json, Parameter(group=OUTPUT)] = False, **given: Any) -> int:
    """Make the models' pictures, resumably, or put those of folders on record, and nothing else; `refbench run` with
    the same --out scores them, `refbench study` shows them to people."""
    from refbench.cli.printing import explain, hint
    from refbench.cli.run import INTERRUPTED, run_options
    from refbench.engine.evaluation import generate_async
    from refbench.text.console import printable

    options = run_options(benchmark, given)
    made = asyncio.run(generate_async(options, show=not json))
    if json:
        report = {"run": str(options.out), "outputs": made.there, "failed": made.failed, "stopped": made.stopped}
        print(orjson.dumps(report).decode())
    else:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(made.failed.items())) or "none"
        print(f"{made.there} outputs in {options.out}; failed: {kinds}")
        for kind, example in sorted(made.examples.items()):
            print(f"  {made.failed[kind]} {kind}, one of them {example}")
        again = f"with the same --model and --out {options.out}, and a --judge if it needs one"
        hint(f"Next: refbench run {options.benchmark} {again}")
        hint(f"For people: refbench study new STUDY --from {options.out} --screen rate (or another)")
    if made.stopped == "budget":
        explain(3, "the budget is spent. The same command with a larger --budget goes on")
        return 3
    for sentence in (*made.given_up, *made.nothing_to_retry):
        print(f"refbench: {printable(sentence, line=True)}", file=sys.stderr)
    if made.stopped in INTERRUPTED:
        code, said = INTERRUPTED[made.stopped]
        explain(code, f"{said}. The same command goes on")
        return code
    if made.failed:
        explain(1, "not all pictures are there. The same command tries again what may pass, --retry KIND the rest")
        return 1
    return 0
