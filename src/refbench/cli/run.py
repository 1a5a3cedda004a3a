"""`refbench run`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from refbench.cli.options import (
    Address,
    Data,
    EngineName,
    Items,
    Json,
    Level,
    Refusals,
    Setting,
    Subset,
    judging_settings,
)
from refbench.record import RefBenchError
from refbench.runs import Shard

if TYPE_CHECKING:
    from refbench.engine.evaluation import Evaluation


def run_command(
    benchmark: Annotated[
        str,
        Parameter(
            help="Name of a benchmark, a file that holds one (.py), cases of your own (.jsonl, .csv), or an experiment "
            "(.toml) that says all this and what follows; options given here come first"
        ),
    ],
    *,
    model: Annotated[
        list[str] | None,
        Parameter(help="[NAME=]KIND:WHAT: folder:DIR, python:, command:, openai:, ...; refbench list models"),
    ] = None,
    judge: Annotated[
        list[str] | None,
        Parameter(help="[NAME=]openai:MODEL, gemini:MODEL, anthropic:MODEL; several times for a panel"),
    ] = None,
    out: Annotated[Path | None, Parameter(help="Run directory; the same command resumes it")] = None,
    data: Data = None,
    subset: Subset = None,
    protocol: Annotated[
        Literal["paper", "corrected", "both"] | None, Parameter(help="Which numbers to give; both by default")
    ] = None,
    limit: Annotated[int | None, Parameter(help="Only the first N cases of the fair order")] = None,
    shard: Annotated[
        str | None, Parameter(help="The i-th of n parts, as i/n; from SLURM's array variables by default")
    ] = None,
    seeds: Annotated[int | None, Parameter(help="Outputs of each model and case, with the seeds 0, 1, ...; 1")] = None,
    repeats: Annotated[int | None, Parameter(help="How often each judge is asked the same; 1 by default")] = None,
    retry: Annotated[
        list[str] | None, Parameter(help="Also try again what failed finally in this way, for example refused")
    ] = None,
    replace: Annotated[
        bool, Parameter(help="Outputs of a folder that changed take the place of those on record, which are retired")
    ] = False,
    budget: Annotated[str | None, Parameter(help="Most that the run may cost, for example 5usd")] = None,
    concurrency: Annotated[int | None, Parameter(help="Most calls in flight at an endpoint; 32 by default")] = None,
    timeout: Annotated[float | None, Parameter(help="Seconds to wait for a reply; 180 by default")] = None,
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
        list[str] | None, Parameter(help="Only these measured parts, or none; all by default. Of own cases: metrics")
    ] = None,
    making: Annotated[int | None, Parameter(help="Most pictures of a model in the making; 8 by default")] = None,
    device: Annotated[
        str | None, Parameter(help="Where large networks run: cpu (the default), cuda (all GPUs), cuda:0,cuda:1")
    ] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16"] | None, Parameter(help="Numbers of large networks, recorded; float32 by default")
    ] = None,
    engine: EngineName | None = None,
    address: Address = None,
    by: Level = "overall",
    refusals: Refusals | None = None,
    items: Items = None,
    allow_failures: Annotated[
        float, Parameter(help="Share of failed replies and measurements above which the exit code is 1")
    ] = 0.02,
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
    said: dict[str, Any] = {
        "models": model,
        "judges": judge,
        "out": out,
        "data": data,
        "subset": subset,
        "settings": settings,
        "protocol": protocol,
        "limit": limit,
        "shard": shard,
        "seeds": seeds,
        "repeats": repeats,
        "retry": retry,
        "replace": replace or None,
        "budget": budget,
        "concurrency": concurrency,
        "timeout": timeout,
        "rubric": rubric,
        "batch": batch or None,
        "wait": False if no_wait else None,
        "metrics": metrics,
        "making": making,
        "device": device,
        "dtype": dtype,
        "engine": engine,
        "address": address,
        "refusals": refusals,
    }
    benchmark, arguments = _arguments(benchmark, said)
    out = arguments["out"]
    evaluation = asyncio.run(evaluate_async(benchmark, **arguments, show=not json))
    write_result(evaluation.result, "json" if json else "terminal", by=by, items=items)
    if not json:
        print(f"\nNext: refbench table {out} --markdown, or the same command again to resume")
    if evaluation.batches is not None and not json:
        print(evaluation.batches)
    return exit_code(evaluation, allow_failures)


def exit_code(evaluation: Evaluation, allow_failures: float) -> int:
    """What a run ends with, said in words where it is not 0."""
    from refbench.cli.printing import explain, failure_code

    result, waiting = evaluation.result, evaluation.result.waiting()
    are = "is" if waiting == 1 else "are"
    left = (
        f"{waiting} of the {result.pieces_said()} {are} not asked for yet"
        if waiting
        else "everything that was begun is there"
    )
    if evaluation.stopped == "budget":
        money = evaluation.budget
        explain(
            3,
            f"{money.cap:g} usd do not cover what comes next: {money.spent:.4f} usd are spent, and before a case "
            f"begins the most that it can cost is set aside, here {money.short or 0.0:.4f} usd; {left}. "
            "The same command with a larger --budget goes on",
        )
        return 3
    if evaluation.stopped == "interrupt":
        explain(130, f"interrupted; {left}. The same command goes on")
        return 130
    if evaluation.batches is not None and evaluation.batches.outstanding:
        return 0  # not finished, and not failed
    return failure_code(result, allow_failures, missing=True, again="--retry KIND")


def _arguments(benchmark: str, said: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What `evaluate` is called with: the command line, then the experiment file, then its own defaults."""
    arguments = {key: value for key, value in said.items() if value is not None and value != {}}
    if benchmark.endswith(".toml"):
        from refbench.cli.experiment import read_experiment

        path = Path(benchmark)
        written = read_experiment(path).model_dump(exclude_none=True)
        if "benchmark" not in written:
            raise RefBenchError(f'{path}: benchmark is missing: add benchmark = "NAME"')
        benchmark = written.pop("benchmark")
        both = {**written.get("settings", {}), **arguments.get("settings", {})}
        arguments = {**written, **arguments, **({"settings": both} if both else {})}
    if not arguments.get("models"):
        raise RefBenchError("give at least one --model, for example --model mine=folder:outputs")
    if "out" not in arguments:
        raise RefBenchError("give --out DIR, the directory that the run is kept in")
    arguments |= {key: Path(arguments[key]) for key in ("out", "data") if key in arguments}
    return benchmark, {**arguments, "shard": shard_of(arguments.get("shard"))}


def shard_of(text: str | None) -> Shard | None:
    """The shard of the option, else of a SLURM array: tasks are counted from the array's first."""
    if text is not None:
        return Shard.parse(text)
    count, index, first = (os.environ.get(f"SLURM_ARRAY_TASK_{name}") for name in ("COUNT", "ID", "MIN"))
    if count and index and int(count) > 1:
        return Shard.parse(f"{int(index) - int(first or 0) + 1}/{count}")
    return None
