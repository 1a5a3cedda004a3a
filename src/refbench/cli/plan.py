"""`refbench plan`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from refbench.cli.options import OUTPUT, Json, given_settings, with_run_options
from refbench.record import counted

if TYPE_CHECKING:
    from refbench.engine.plan import Plan, Precision


@with_run_options(
    "benchmark", "models", "judges", "out", "data", "subset", "metrics", "seeds", "repeats", "rubric", "settings",
    "limit", "budget", "concurrency",
)  # fmt: skip
def plan_command(
    benchmark: str,
    *,
    like: Annotated[Path | None, Parameter(help="An earlier run to expect precision, length and speed from")] = None,
    json: Annotated[Json, Parameter(group=OUTPUT)] = False,
    **given: Any,
) -> int:
    """Say what a run will cost before it costs anything: calls, tokens, money, time, and what it can show.

    With --out of a run that would be continued, its calls are not counted again.
    """
    from refbench.cli.run import run_options
    from refbench.engine.plan import make_plan
    from refbench.record import RefBenchError

    given["settings"] = given_settings(given.get("settings", ()))
    options = run_options(benchmark, given).model_copy(update={"shard": None})  # the plan is for the whole run
    if not options.judges:
        raise RefBenchError("give at least one --judge: a plan counts what judges are asked")
    plan = asyncio.run(make_plan(options, like=like))
    if json:
        print(plan.model_dump_json())
    else:
        _print_plan(plan, options.concurrency)
    return 0


def _print_plan(plan: Plan, concurrency: int) -> None:
    known = f", {plan.calls_known} of them on record" if plan.calls_known else ""
    size = f"{counted(plan.cases, 'case')}, {counted(plan.models, 'model')}, {counted(plan.calls, 'call')}"
    print(f"{plan.benchmark}: {size}{known}")
    for one in plan.judges:
        money = "price not known"
        if one.cost_usd is not None:
            money = f"about {one.cost_usd:.2f} usd, at most {one.worst_usd:.2f} ({one.price_source or 'free'})"
        tokens = f"{one.input_tokens:,} tokens in, {one.output_tokens:,} out"
        print(f"  {one.judge}: {one.calls} calls, {tokens}, {money}")
    if plan.pictures:
        money = "at prices that are not known" if plan.pictures_usd is None else f"for {plan.pictures_usd:.2f} usd"
        print(f"  {plan.pictures} pictures are still to be made, {money}")
    print(f"  time: about {plan.seconds / 60:.0f} min with {concurrency} calls in flight")
    if plan.lacking:
        print(f"  {plan.lacking}")
    if plan.assumptions:
        print(f"  assumed: {', '.join(plan.assumptions)}")
    if plan.fits_cases is not None:
        spent = f", of which {plan.spent_usd:.4f} are spent," if plan.spent_usd else ""
        print(
            f"  {plan.budget_usd:g} usd{spent} cover {plan.fits_cases} of {plan.cases} cases: a run begins a case while"
        )
        print(f"  the most that all its calls can cost is left, and sets that aside ({plan.set_aside_usd:.4f} usd)")
    if plan.precision is None:
        print("  precision: no earlier scores to tell from; give --like RUN")
    else:
        _print_precision(plan.precision)


def _print_precision(p: Precision) -> None:
    sharp = f"{p.metric} to within {p.half_width:.2f}, a gap to within {p.gap_half_width:.2f}"
    for remark in p.remarks:
        print(f"  {remark}")
    print(f"  precision, from {p.source}: {sharp}")
    pairs = f" among {p.family} pairs" if p.family > 1 else ""
    if p.detectable is not None:
        print(f"  a true gap of {p.detectable:.2f} would be found at least 4 times in 5{pairs}")
