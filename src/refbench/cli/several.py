"""`refbench run` over several benchmarks: what is printed in the end, and the exit code."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from refbench.cli.printing import explain, hint
from refbench.cli.run import exit_code
from refbench.engine.several import Share, evaluate_several
from refbench.record import RefBenchError, counted
from refbench.report.formats import to_json
from refbench.report.leaderboard import leaderboards, number
from refbench.text.console import console, printable

if TYPE_CHECKING:
    from refbench.engine.evaluation import Evaluation
    from refbench.engine.options import RunOptions


def run_several(options: RunOptions, allow_failures: float, *, json: bool) -> int:
    """Run them, print one page, and say of each what is not as it should be."""
    shares = asyncio.run(evaluate_several(options, show=not json))
    if json:
        print(orjson.dumps({"out": str(options.out), "benchmarks": [_told(share) for share in shares]}).decode())
    else:
        print_page(shares)
        hint(f"\nNext: refbench table {options.out}/NAME for one of them, or the same command again to resume")
    return _code(shares, allow_failures)


def _told(share: Share) -> dict[str, object]:
    told: dict[str, object] = {"benchmark": share.name, "out": str(share.out), "not_run": share.state or None}
    if share.evaluation is not None:
        told |= {"stopped": share.evaluation.stopped or None, "result": orjson.loads(to_json(share.evaluation.result))}
    return told


def print_page(shares: Sequence[Share]) -> None:
    """Every benchmark's number of every model, then, of several models, all of them on one scale."""
    from rich.text import Text

    from refbench.text.tables import Grid

    out, grid = console(), Grid(names=3)
    for title in ("benchmark", "model", "measure"):
        grid.add_column(title)
    for title in ("value", "95 % interval", "scored"):
        grid.add_column(title, justify="right")
    for share in shares:
        for row in [] if share.evaluation is None else _rows(share.name, share.evaluation):
            grid.add_row(*map(Text, row))
    out.print(grid)
    for share in shares:
        if share.state:
            out.print(Text(printable(f"{share.name} was not run: {share.state}.", line=True)))
        elif share.evaluation is not None and share.evaluation.stopped:
            out.print(Text(f"{share.name} is not finished: stopped by {share.evaluation.stopped}."))
    _print_profile(shares)


def _rows(name: str, evaluation: Evaluation) -> list[list[str]]:
    found = []
    for board in leaderboards(evaluation.result)[:1]:
        for who, line in zip(board.names, board.lines, strict=True):
            main, digits = line.main, line.digits
            interval = f"{main.ci95[0]:.{digits}f} to {main.ci95[1]:.{digits}f}" if main.ci95 else "-"
            scored = f"{main.n_scored}/{main.n_expected}"
            found.append([name, who, main.metric, number(main.value, digits), interval, scored])
    return found


def _print_profile(shares: Sequence[Share]) -> None:
    """Benchmarks side by side; nothing where there are not two of them with two models."""
    from refbench.analysis.profile import profile
    from refbench.cli.profile import print_profile

    runs = [
        str(share.out)
        for share in shares
        if share.evaluation is not None and any(row.value is not None for row in share.evaluation.table.rows)
    ]
    models = {row.model for share in shares if share.evaluation is not None for row in share.evaluation.table.rows}
    if len(runs) < 2 or len(models) < 2:
        return
    out = console()
    try:
        found = profile(runs)
    except RefBenchError as error:
        out.print(f"\nNot side by side: {printable(str(error), line=True)}.", markup=False)
        return
    out.print()
    print_profile(found, out)


def _own_code(name: str, evaluation: Evaluation, allow_failures: float) -> int:
    """The code that this benchmark alone would have ended with; what is said about it names the benchmark."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        code = exit_code(evaluation, allow_failures)
    if said.getvalue():
        print(f"{name}: {said.getvalue()}", end="", file=sys.stderr)
    return code


_WORST_FIRST = (130, 75, 3, 1)


def _code(shares: Sequence[Share], allow_failures: float) -> int:
    """The code of the benchmark that came off worst; 1 where one that was asked for was not run."""
    codes = {_own_code(share.name, share.evaluation, allow_failures) for share in shares if share.evaluation}
    absent = [share.name for share in shares if share.state]
    if absent:
        codes.add(1)
        what = counted(len(absent), "benchmark")
        explain(1, f"{what} of {len(shares)} not run: {', '.join(absent)}; name only those that you want, as A,B")
    return next((code for code in _WORST_FIRST if code in codes), 0)
