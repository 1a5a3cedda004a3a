"""`refbench calibrate`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
from cyclopts import Parameter

from refbench.cli.options import Concurrency, Json
from refbench.record import RefBenchError
from refbench.text.console import console
from refbench.text.tables import Grid

if TYPE_CHECKING:
    from refbench.builders.filter_judge.gate import Cuts, Gate

MaxFailed = Annotated[float, Parameter(help="Share of references without a mark above which the exit code is 1")]
BudgetText = Annotated[str | None, Parameter(help="Most that the judge may cost, for example 5usd")]
Timeout = Annotated[float, Parameter(help="Seconds to wait for a reply")]


def check_share(max_failed: float) -> None:
    """Refuses a share that is none, before anything is paid for."""
    if not 0 <= max_failed <= 1:
        raise RefBenchError(f"--max-failed {max_failed:g}: give a share from 0 to 1")


def calibrate_command(
    dataset: Annotated[Path, Parameter(help="Folder that refbench filter data has written")],
    *,
    judge: Annotated[str, Parameter(help="The judge, which is left as it is: openai:MODEL, local:REPOSITORY, ...")],
    out: Annotated[Path, Parameter(help="Folder for judge.toml and the replies; the same command resumes it")],
    budget: BudgetText = None,
    concurrency: Concurrency = 32,
    timeout: Timeout = 180.0,
    max_failed: MaxFailed = 0.1,
    json: Json = False,
) -> int:
    """Find where a judge's marks of references may be trusted, from people's marks."""
    from refbench.builders.filter_judge.asking import Asking, calibrate

    check_share(max_failed)
    asking = Asking(budget, concurrency, timeout)
    gate, judged = asyncio.run(
        calibrate(dataset, judge, out, asking, lambda line: print(line, file=sys.stderr, flush=True))
    )
    if judged.stopped:
        spent = "Exit code 3: the budget is spent, no judge.toml is written. A larger --budget goes on."
        print(spent, file=sys.stderr)
        return 3
    if json:
        print(orjson.dumps({**gate.model_dump(mode="json"), "failed": len(judged.failed)}).decode())
    else:
        _print_gate(gate, out)
    if judged.failed:
        first = next(iter(judged.failed.values()))
        print(f"{len(judged.failed)} references have no mark, first: {first.kind}: {first.detail}", file=sys.stderr)
    return int(judged.failed_share > max_failed)


def _print_gate(gate: Gate, out: Path) -> None:
    page = console()
    grid = Grid("type")
    for column in ("originals", "keep from", "right at least", "drop to", "right at least"):
        grid.add_column(column, justify="right")
    for kind, cuts in gate.cuts.items():
        grid.add_row(kind, f"{cuts.n:,}", *_end(cuts.keep, cuts.keep_bound), *_end(cuts.drop, cuts.drop_bound))
    page.print(f"{gate.judge}, on the lowest mark of a reference", markup=False, highlight=False)
    page.print(grid)
    page.print(
        f"What is between goes to people. Right at least: in truth, one-sided {gate.level:.0%}.", highlight=False
    )
    if none := [kind for kind, cuts in gate.cuts.items() if _undecided(cuts)]:
        page.print(f"No cut holds for {', '.join(none)}: all of these go to people.", highlight=False)
    page.print(f"\nNext: refbench blend build PICTURES --out data/ --judge {out}", markup=False, highlight=False)


def _end(at: float | None, bound: float | None) -> tuple[str, str]:
    return ("-", "-") if at is None or bound is None else (f"{at:g}", f"{bound:.3f}")


def _undecided(cuts: Cuts) -> bool:
    return cuts.keep is None and cuts.drop is None
