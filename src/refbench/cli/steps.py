"""`refbench steps`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import AllowFailures, Data, Json

if TYPE_CHECKING:
    from refbench.tables.result import Result
    from refbench.tables.table import Row


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

    Below the table: what each step took in dollars and seconds with those before it, and whether it is on the frontier,
    where no other is as good for less. The plot is steps.svg in the run directory of the scores, and frontier.json has
    the frontier's numbers.
    """
    from refbench.cli.printing import write_result
    from refbench.cli.run import exit_code
    from refbench.engine.evaluation import evaluate_async
    from refbench.engine.options import RunOptions
    from refbench.models.steps import asked_of, spent_to, steps_of
    from refbench.record import RefBenchError
    from refbench.report.figures import figure
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
    figure("steps", evaluation.result).save(out / "steps.svg")
    spent = {name: spent_to(there, agent, step) for agent in names for name, step in names[agent].items()}
    found = _frontier(_rows_by_step(evaluation.result, list(spent)), spent, evaluation.result.bench.scoring.lower)
    (out / "frontier.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    if not json:
        _print_frontier(found)
        print(f"\nThe plot by step: {out / 'steps.svg'}")
    return exit_code(evaluation, allow_failures)


def _rows_by_step(result: Result, steps: Sequence[str]) -> list[Row]:
    """The overall row of the summary measure at each step, judge by judge, in the order of the steps."""
    protocol = result.table.rows[0].protocol
    rows = result.rows(level="overall", protocol=protocol, metric=result.summary(protocol))
    return sorted((row for row in rows if row.model in steps), key=lambda row: steps.index(row.model))


def _frontier(
    rows: Sequence[Row], spent: Mapping[str, tuple[float | None, float | None]], lower: Collection[str]
) -> list[dict[str, Any]]:
    """Every step with its value and what it took; judge by judge, since each has a frontier of its own."""
    from refbench.stats.frontier import frontier

    points: dict[str | None, dict[str, tuple[float | None, ...]]] = {}
    for row in rows:
        if row.value is not None:
            value = -row.value if row.metric in lower else row.value
            took = (None if amount is None else -amount for amount in spent[row.model])
            points.setdefault(row.judge, {})[row.model] = (value, *took)
    best = {judge: frontier(those) for judge, those in points.items()}
    return [
        {
            "model": row.model,
            "judge": row.judge,
            row.metric: row.value,
            "usd": spent[row.model][0],
            "seconds": spent[row.model][1],
            "frontier": row.model in best.get(row.judge, ()),
        }
        for row in rows
    ]


def _print_frontier(found: Sequence[Mapping[str, Any]]) -> None:
    from refbench.text.console import console
    from refbench.text.tables import Grid

    if not found:
        return
    grid = Grid(title="To each step, on average", title_justify="left")
    for name in found[0]:
        grid.add_column(name, justify="left" if name in ("model", "judge") else "right")
    for row in found:
        cells = {**row, "frontier": "yes" if row["frontier"] else None}.values()
        shown = (f"{cell:.4g}" if isinstance(cell, float) else cell for cell in cells)
        grid.add_row(*(str(cell) if cell is not None else "" for cell in shown))
    console().print(grid)
