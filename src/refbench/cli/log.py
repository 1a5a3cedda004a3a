"""`refbench log`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refbench.record import RefBenchError


def log_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    to: Annotated[
        str,
        Parameter(help="wandb[:PROJECT], mlflow[:URI], tensorboard[:DIR] or trackio[:PROJECT], also with ?name=..."),
    ],
    model: Annotated[list[str] | None, Parameter(help="Only the numbers of this model; may be given again")] = None,
    series: Annotated[
        str | None, Parameter(help="The run is a checkpoint of this series: its model is called so in keys")
    ] = None,
    step: Annotated[int | None, Parameter(help="With --series: which checkpoint it is, for example 2000")] = None,
    worst: Annotated[int, Parameter(help="How many of each model's worst pictures to log, with the judges' words")] = 4,
    again: Annotated[bool, Parameter(help="Log the same numbers once more, beside those there", negative=())] = False,
) -> int:
    """Log a run's numbers with their intervals, its tables and its worst pictures to an experiment tracker.

    What has no value is not logged as a number; its failures are. The same numbers are not logged twice unless you
    say --again.
    """
    from refbench.report.trackers.kinds import log_run
    from refbench.report.trackers.logged import Wanted

    if worst < 0 or (step is not None and step < 0):
        raise RefBenchError("--worst and --step are whole numbers from 0")
    wanted = Wanted(models=tuple(model or ()), worst=worst, series=series or "", step=step)
    receipt = log_run(run, to, wanted, again=again)
    if receipt.known:
        print(f"{run} is logged already, with the same numbers: {receipt.place} (--again logs it once more)")
    else:
        print(f"{run} is logged: {receipt.place}")
    return 0
