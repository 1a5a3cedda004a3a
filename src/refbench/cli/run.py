"""`refbench run`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import Data, Items, Json, Level, ProtocolName, Subset
from refbench.cli.settings import Setting, judging_settings
from refbench.runs import Shard


def run_command(
    benchmark: Annotated[
        str, Parameter(help="Name of a benchmark, a file that holds one (.py), or cases of your own (.jsonl, .csv)")
    ],
    *,
    model: Annotated[
        list[str], Parameter(help="[NAME=]KIND:WHAT: folder:DIR, python:, command:, openai:, ...; refbench list models")
    ],
    judge: Annotated[
        list[str] | None,
        Parameter(help="[NAME=]openai:MODEL, gemini:MODEL, anthropic:MODEL; several times for a panel"),
    ] = None,
    out: Annotated[Path, Parameter(help="Run directory; the same command resumes it")],
    data: Data = None,
    subset: Subset = None,
    protocol: ProtocolName = "both",
    limit: Annotated[int | None, Parameter(help="Only the first N cases of the fair order")] = None,
    shard: Annotated[
        str | None, Parameter(help="The i-th of n parts, as i/n; from SLURM's array variables by default")
    ] = None,
    seeds: Annotated[int, Parameter(help="Outputs of each model and case, with the seeds 0, 1, ...")] = 1,
    repeats: Annotated[int, Parameter(help="How often each judge is asked the same")] = 1,
    retry: Annotated[
        list[str] | None, Parameter(help="Also try again what failed finally in this way, for example refused")
    ] = None,
    budget: Annotated[str | None, Parameter(help="Most that the run may cost, for example 5usd")] = None,
    concurrency: Annotated[int, Parameter(help="Most calls in flight at an endpoint")] = 32,
    timeout: Annotated[float, Parameter(help="Seconds to wait for a reply")] = 180.0,
    setting: Setting = None,
    batch: Annotated[bool, Parameter(help="Hand calls in as batches at half the price (OpenAI, Anthropic)")] = False,
    no_wait: Annotated[bool, Parameter(help="With --batch: do not wait for the results; run it again later")] = False,
    rubric: Annotated[str | None, Parameter(help="For cases of your own: a shipped rubric or a Markdown file")] = None,
    questions: Annotated[str | None, Parameter(help="CREval: all questions of a metric in a call, or one")] = None,
    show_instruction: Annotated[bool, Parameter(help="CREval: show the judge the editing instruction")] = False,
    prompts: Annotated[str | None, Parameter(help="own or official wording of the rubric")] = None,
    max_side: Annotated[
        int | None, Parameter(help="Shrink pictures to this many pixels before sending; recorded")
    ] = None,
    metrics: Annotated[
        list[str] | None, Parameter(help="Only these measured parts, or none; all that can run here by default")
    ] = None,
    making: Annotated[int, Parameter(help="Most pictures of a model in the making")] = 8,
    device: Annotated[str, Parameter(help="Where large networks run: cpu, cuda (all GPUs), cuda:0,cuda:1")] = "cpu",
    dtype: Annotated[Literal["float32", "bfloat16"], Parameter(help="Numbers of large networks; recorded")] = "float32",
    by: Level = "overall",
    items: Items = None,
    allow_failures: Annotated[float, Parameter(help="Share of failed scores above which the exit code is 1")] = 0.02,
    json: Json = False,
) -> int:
    """Judge and measure models' outputs on a benchmark, resumably, and print the table.

    Stop it as you like; the same command goes on where it was. What was paid for is not paid for again.
    """
    from refbench.cli.printing import write_result
    from refbench.engine import evaluate_async

    settings = judging_settings(setting)
    given = {"questions": questions, "prompts": prompts, "max_side": str(max_side) if max_side else None}
    settings |= {key: value for key, value in given.items() if value is not None}
    if show_instruction:
        settings["show_instruction"] = "yes"
    evaluation = asyncio.run(
        evaluate_async(
            benchmark,
            models=model,
            judges=judge or (),
            out=out,
            data=data,
            subset=subset,
            settings=settings,
            protocol=protocol,
            limit=limit,
            shard=shard_of(shard),
            seeds=seeds,
            repeats=repeats,
            retry=retry or (),
            budget=budget,
            concurrency=concurrency,
            rubric=rubric,
            batch=batch,
            wait=not no_wait,
            metrics=metrics or (),
            making=making,
            device=device,
            dtype=dtype,
            timeout=timeout,
            show=not json,
        )
    )
    write_result(evaluation.result, "json" if json else "terminal", by=by, items=items)
    if not json:
        print(f"\nNext: refbench table {out} --markdown, or the same command again to resume")
    if evaluation.batches is not None and not json:
        print(evaluation.batches)
    if evaluation.stopped == "budget":
        return 3
    if evaluation.stopped == "interrupt":
        return 130
    if evaluation.batches is not None and evaluation.batches.outstanding:
        return 0  # not finished, and not failed
    return 1 if evaluation.result.failure_share(missing=True) > allow_failures else 0


def shard_of(text: str | None) -> Shard | None:
    """The shard of the option, else of a SLURM array: tasks are counted from the array's first."""
    if text is not None:
        return Shard.parse(text)
    count, index, first = (os.environ.get(f"SLURM_ARRAY_TASK_{name}") for name in ("COUNT", "ID", "MIN"))
    if count and index and int(count) > 1:
        return Shard.parse(f"{int(index) - int(first or 0) + 1}/{count}")
    return None
