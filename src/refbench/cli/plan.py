"""`refbench plan`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import Data, Json, Setting, Subset, judging_settings


def plan_command(
    benchmark: Annotated[str, Parameter(help="Name of the benchmark, or a file that holds one")],
    *,
    model: Annotated[list[str], Parameter(help="NAME=folder:DIR; may be given several times")],
    judge: Annotated[list[str], Parameter(help="[NAME=]openai:MODEL and the like; several times for a panel")],
    data: Data = None,
    subset: Subset = None,
    limit: Annotated[int | None, Parameter(help="Only the first N cases of the fair order")] = None,
    seeds: Annotated[int, Parameter(help="Outputs of each model and case")] = 1,
    repeats: Annotated[int, Parameter(help="How often each judge is asked the same")] = 1,
    budget: Annotated[str | None, Parameter(help="What may be spent, for example 5usd: says what fits")] = None,
    out: Annotated[
        Path | None, Parameter(help="The run that would be continued: its calls are not counted again")
    ] = None,
    like: Annotated[Path | None, Parameter(help="An earlier run to expect precision, length and speed from")] = None,
    concurrency: Annotated[int, Parameter(help="Most calls in flight at an endpoint")] = 32,
    setting: Setting = None,
    rubric: Annotated[str | None, Parameter(help="For cases of your own: a shipped rubric or a Markdown file")] = None,
    metrics: Annotated[
        list[str] | None, Parameter(help="The measured parts of the run, or none; measuring costs nothing")
    ] = None,
    json: Json = False,
) -> int:
    """Say what a run will cost before it costs anything: calls, tokens, money, time, and what it can show."""
    from refbench.engine.plan import make_plan

    plan = asyncio.run(
        make_plan(
            benchmark,
            models=model,
            judges=judge,
            data=data,
            subset=subset,
            settings=judging_settings(setting),
            limit=limit,
            seeds=seeds,
            repeats=repeats,
            budget=budget,
            out=out,
            like=like,
            concurrency=concurrency,
            rubric=rubric,
            metrics=[name.strip() for text in metrics or () for name in text.split(",") if name.strip()],
        )
    )
    if json:
        print(plan.model_dump_json())
        return 0
    known = f", {plan.calls_known} of them on record" if plan.calls_known else ""
    print(f"{plan.benchmark}: {plan.cases} cases, {plan.models} models, {plan.calls} calls{known}")
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
        p = plan.precision
        sharp = f"{p.metric} to within {p.half_width:.2f}, a gap to within {p.gap_half_width:.2f}"
        for remark in p.remarks:
            print(f"  {remark}")
        print(f"  precision, from {p.source}: {sharp}")
        pairs = f" among {p.family} pairs" if p.family > 1 else ""
        if p.detectable is not None:
            print(f"  a true gap of {p.detectable:.2f} would be found at least 4 times in 5{pairs}")
    return 0
