"""`refbench attribute`: which references each output of a run uses, and which one is missing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import AllowFailures, Batch, Concurrency, Data, Json, PlanOnly, Retry, ShardText
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.analysis.attribution.planted import Planted
    from refbench.analysis.attribution.records import OutputUse
    from refbench.builders.attribution.ask import AttributionRequest

_MOST_LISTED = 20


def attribute_command(
    run: Annotated[Path, Parameter(help="Run directory, or that of an audit, whose damages are the truth")],
    *,
    judge: Annotated[
        list[str], Parameter(help="[NAME=]KIND:MODEL of who is asked; without one, what is on record is shown")
    ] = [],  # noqa: B006
    way: Annotated[
        Literal["call", "each", "offline"],
        Parameter(help="All references in one call, a call for each of them, or networks on this machine"),
    ] = "call",
    data: Data = None,
    variants: Annotated[
        Path | None, Parameter(help="Of an audit: its variants, where they are not in its own folder")
    ] = None,
    budget: Annotated[str | None, Parameter(help="Most that it may cost, for example 2usd")] = None,
    batch: Batch = False,
    shard: ShardText = None,
    retry: Retry = [],  # noqa: B006
    concurrency: Concurrency = 32,
    plan: PlanOnly = False,
    allow_failures: AllowFailures = 0.02,
    json: Json = False,
) -> int:
    """Say of each output with two or more references which of them it uses, and which is missing, distorted or doubled;
    resumably, in the run's folder attribution. Without --judge and --way offline, what is on record is shown.

    Of an audit's run it also says how well references are found missing that are known to be.
    """
    code = 0
    if judge or way == "offline":
        from refbench.builders.attribution.ask import AttributionRequest

        given = {"budget": budget, "batch": batch, "shard": shard, "retry": retry, "concurrency": concurrency}
        options = {name: value for name, value in given.items() if value is not None}
        request = AttributionRequest(run, way, judge, data, variants, options)
        if plan:
            from refbench.builders.attribution.ask import attribution_plan
            from refbench.cli.plan import show_plan

            return show_plan(asyncio.run(attribution_plan(request)), concurrency, json=json)
        code = _asked(request, allow_failures, json=json)
    elif plan:
        raise RefBenchError("--plan counts calls to a judge: give --judge")
    _show(run, json=json)
    return code


def _asked(request: AttributionRequest, allow_failures: float, *, json: bool) -> int:
    from refbench.builders.attribution.ask import attribute
    from refbench.cli.run import exit_code
    from refbench.text.console import printable

    evaluation = asyncio.run(attribute(request, show=not json))
    for sentence in evaluation.given_up:
        print(f"refbench: {printable(sentence, line=True)}", file=sys.stderr)
    # A measurement that finds no face is a failure of its own, and says something: only judges can fail to answer.
    return exit_code(evaluation, allow_failures if request.way != "offline" else 1.0)


def _show(path: Path, *, json: bool) -> None:
    import orjson

    from refbench.analysis.attribution.planted import planted
    from refbench.analysis.attribution.read import attributions, notes_of, seen_by
    from refbench.builders.attribution.ask import references
    from refbench.builders.audit.read import is_audit
    from refbench.runs import Run
    from refbench.tables.scoring import benchmark_of
    from refbench.text.console import printable

    run, found = Run.open(path), attributions(path)
    if not found:
        raise RefBenchError(f"{path} holds no attribution yet: give --judge, or --way offline")
    cases = run.cases(benchmark_of(run).data.case_type)
    rows = planted(found, {c.id: [n + 1 for n in references(c)] for c in cases}) if is_audit(run) else []
    if json:
        outputs = [
            {**one.model_dump(mode="json"), "used": one.used, "of": len(one.references), "said": one.said()}
            for one in found
        ]
        print(orjson.dumps({"outputs": outputs, "planted": [row.model_dump(mode="json") for row in rows]}).decode())
        return
    if rows:
        _print_planted(rows)
        return
    for note in notes_of(found):
        print(printable(f"{note}.", line=True))
    faulty = [one for one in found if one.images("missing", "distorted", "doubled")]
    for one in faulty[:_MOST_LISTED]:
        seed = f", seed {one.seed}" if one.seed else ""
        print(printable(f"  {one.case} by {one.model}{seed} ({seen_by(one)}): {one.said()}", line=True))
    _more(faulty)


def _more(faulty: Sequence[OutputUse]) -> None:
    if len(faulty) > _MOST_LISTED:
        print(f"And {len(faulty) - _MOST_LISTED} more: --json lists all.")


def _print_planted(rows: Sequence[Planted]) -> None:
    from rich.text import Text

    from refbench.analysis.audit.card import percent
    from refbench.text.console import console
    from refbench.text.tables import Grid

    out = console()
    grid = Grid("")
    for row in rows:
        grid.add_column(Text(row.by))
    told = (
        ("exchanged reference called missing (3)", "recall"),
        ("called missing and exchanged", "precision"),
        ("there and called missing (clean)", "false_alarms"),
        ("subject cut out, some reference called missing (4)", "gone"),
        ("the same of their clean outputs", "gone_clean"),
        ("references with a state", "known"),
    )
    for title, name in told:
        grid.add_row(title, *(f"{percent(getattr(row, name))} of {getattr(row, name).n} cases" for row in rows))
    out.print(grid)
