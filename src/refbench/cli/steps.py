"""`refbench steps`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import Data, Json


def steps_command(
    run: Annotated[Path, Parameter(help="Run in which agents have painted")],
    *,
    out: Annotated[Path, Parameter(help="Run directory for the scores of the steps; the same command resumes it")],
    judge: Annotated[list[str] | None, Parameter(help="Judges, as for refbench run")] = None,
    data: Data = None,
    allow_failures: Annotated[
        float, Parameter(help="Share of failed replies and measurements above which the exit code is 1")
    ] = 0.02,
    json: Json = False,
) -> int:
    """Score every step of a run's agents like a model of its own, print the table, and draw it by step.

    The plot is steps.svg in the run directory of the scores.
    """
    from refbench.cli.printing import write_result
    from refbench.cli.run import exit_code
    from refbench.engine import evaluate_async
    from refbench.models.steps import asked_of, steps_of
    from refbench.record import RefBenchError
    from refbench.report.figures import rows_by_step, step_plot
    from refbench.runs import Run
    from refbench.runs.order import fair_order
    from refbench.tables.scoring import benchmark_of

    there = Run.open(run)
    found = steps_of(there)
    if not found:
        raise RefBenchError(f"{run} holds no steps: they are made by agents such as ipr, cafg and sra")
    agents: dict[str, list[str]] = {}
    specs: list[str] = []
    for agent, steps in found.items():
        for step in steps:
            name = f"{agent}.{'result' if step == 'result' else f'step{int(step) + 1}'}"
            agents.setdefault(agent, []).append(name)
            specs.append(f"{name}=steps:{run}?model={agent}&step={step}")
    cases = fair_order(there.cases(benchmark_of(there).data.case_type))
    asked = asked_of(there, found, cases)
    if not asked:
        raise RefBenchError(
            f"{run}: its agents have not finished a case of the fair order yet; let it paint more first"
        )
    if asked < len(cases) and not json:
        print(f"{asked} of {len(cases)} cases: {run} has not asked its agents for more yet.")
    evaluation = asyncio.run(
        evaluate_async(
            there.info.benchmark,
            models=specs,
            judges=judge or (),
            out=out,
            data=data,
            subset=there.info.subset,
            limit=asked if asked < len(cases) else None,
            show=not json,
        )
    )
    write_result(evaluation.result, "json" if json else "terminal")
    plot = step_plot(rows_by_step(evaluation.result, agents), evaluation.result.measured_by())
    (out / "steps.svg").write_text(plot, encoding="utf-8")
    if not json:
        print(f"\nThe plot by step: {out / 'steps.svg'}")
    return exit_code(evaluation, allow_failures)
