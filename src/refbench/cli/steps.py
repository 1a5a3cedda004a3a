"""`refbench steps`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.cli.options import AllowFailures, Data, Json


def steps_command(
    run: Annotated[Path, Parameter(help="Run in which agents have painted")],
    *,
    out: Annotated[Path, Parameter(help="Run directory for the scores of the steps; the same command resumes it")],
    judge: Annotated[list[str] | None, Parameter(help="Judges, as for refbench run")] = None,
    data: Data = None,
    allow_failures: AllowFailures = 0.02,
    json: Json = False,
) -> int:
    """Score every step of a run's agents like a model of its own, print the table, and draw it by step.

    The plot is steps.svg in the run directory of the scores.
    """
    from refbench.cli.printing import write_result
    from refbench.cli.run import exit_code
    from refbench.engine.evaluation import evaluate_async
    from refbench.engine.options import RunOptions
    from refbench.models.steps import asked_of, steps_of
    from refbench.record import RefBenchError
    from refbench.report.figures import rows_by_step, step_plot
    from refbench.runs import Run
    from refbench.runs.run import fair_order
    from refbench.tables.scoring import benchmark_of

    there = Run.open(run)
    steps = steps_of(there)
    if not steps:
        raise RefBenchError(f"{run} holds no steps: they are made by agents such as ipr, cafg and sra")
    names = {
        agent: {f"{agent}.{'result' if step == 'result' else f'step{int(step) + 1}'}": step for step in those}
        for agent, those in steps.items()
    }
    specs = [f"{name}=steps:{run}?model={agent}&step={step}" for agent in names for name, step in names[agent].items()]
    cases = fair_order(there.cases(benchmark_of(there).data.case_type))
    asked = asked_of(there, steps, cases)
    if not asked:
        raise RefBenchError(
            f"{run}: its agents have not finished a case of the fair order yet; let it paint more first"
        )
    if asked < len(cases) and not json:
        print(f"{asked} of {len(cases)} cases: {run} has not asked its agents for more yet.")
    options = RunOptions(
        benchmark=there.info.benchmark,
        models=specs,
        judges=judge or (),
        out=out,
        data=data,
        subset=there.info.subset,
        limit=asked if asked < len(cases) else None,
    )
    evaluation = asyncio.run(evaluate_async(options, show=not json))
    write_result(evaluation.result, "json" if json else "terminal")
    by_agent = {agent: list(those) for agent, those in names.items()}
    plot = step_plot(rows_by_step(evaluation.result, by_agent), evaluation.result.measured_by())
    (out / "steps.svg").write_text(plot, encoding="utf-8")
    if not json:
        print(f"\nThe plot by step: {out / 'steps.svg'}")
    return exit_code(evaluation, allow_failures)
