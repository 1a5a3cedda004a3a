"""`refbench why`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import orjson
from cyclopts import Parameter

from refbench.cli.options import Data, Json
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from rich.console import Console

    from refbench.analysis.why.steps import Why


def why_command(
    first: Annotated[str, Parameter(help="RUN, RUN:MODEL, or BENCHMARK:MODEL for released item scores")],
    second: Annotated[str | None, Parameter(help="The other one, written the same way")] = None,
    *,
    metric: Annotated[
        str | None, Parameter(name=("--metric", "--measure"), help="Measure to explain; default the summary")
    ] = None,
    protocol: Annotated[
        str | None, Parameter(help="paper or corrected; default corrected, or paper beside released figures")
    ] = None,
    judge: Annotated[str | None, Parameter(help="Only this judge; default each judge with itself")] = None,
    protocols: Annotated[bool, Parameter(help="With one run: from the paper's number to the corrected one")] = False,
    data: Data = None,
    json: Json = False,
) -> int:
    """Say why two numbers differ: what was not the same, and how much of the difference comes from where."""
    from refbench.analysis.why.runs import why, why_protocols
    from refbench.text.console import console

    if protocols == (second is not None):
        raise RefBenchError("give two of RUN, RUN:MODEL, BENCHMARK:MODEL; or one run and --protocols")
    if second is None:
        if protocol is not None:
            raise RefBenchError("--protocols compares both protocols: leave --protocol out")
        answers = why_protocols(first, metric=metric, judge=judge)
    else:
        answers = why(first, second, metric=metric, protocol=protocol, judge=judge, data=data)
    if json:
        answered = {
            "why": [
                {**one.model_dump(mode="json"), "words": [one.words(step) for step in one.steps]} for one in answers
            ]
        }
        print(orjson.dumps(answered).decode())
        return 0
    out = console()
    _print_differences(answers, protocols, out)
    for one in answers:
        _print_one(one, out)
    return 0


def _print_differences(found: list[Why], protocols: bool, out: Console) -> None:
    from rich.text import Text

    lines = dict.fromkeys(line for one in found for line in one.differences)
    for line in lines:
        out.print(Text(f"not the same: {line}"))
    if not lines and not protocols:
        same = "data, judge, settings, protocol and the numbers of seeds and repeats"
        out.print(f"Nothing differs in how the two numbers were made: {same} are the same.")


_OUTPUTS = {"same": " (same output)", "some": " (further outputs on one side)", "other": " (another output)"}


def _print_one(one: Why, out: Console) -> None:
    from rich.text import Text

    from refbench.text.tables import Grid

    by = f" by {one.judge}" if one.judge else ""
    head = f"\n{one.first} against {one.second}: {one.measure}{by}, {counted(one.n_shared, 'case')} in both"
    out.print(Text(head, style="bold"))
    grid = Grid(show_header=False)
    grid.add_column(justify="right")
    grid.add_column()
    grid.add_row(one.number(one.first_value), Text(one.first))
    for step, delta in zip(one.steps, one.printed, strict=True):
        grid.add_row(delta, Text(one.words(step)), style="dim" if not step.delta else "")
    grid.add_row(one.number(one.second_value), Text(one.second))
    out.print(grid)
    for fix in one.fixes:
        out.print(Text(f"  {one.signed(fix.delta)} by {fix.name} ({fix.items} scores): {fix.what}"), style="dim")
    if one.movers:
        moved = "; ".join(
            f"{mover.case} {one.number(mover.first)} to {one.number(mover.second)}" + _OUTPUTS.get(mover.output, "")
            for mover in one.movers
        )
        out.print(Text(f"Moved most: {moved}"))
    out.print(Text(one.sentence))
