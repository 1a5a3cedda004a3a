"""`refbench track`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from refbench.cli.options import Data, Json, Refusals, given_settings
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from rich.console import Console

    from refbench.analysis.track.drift import Drift
    from refbench.analysis.track.series import Checkpoint, Track

ANCHOR = Group("Is the judge the same?", sort_key=5)


def track_command(
    *runs: Annotated[str, Parameter(help="Checkpoints in their order, the newest last: RUN, or RUN:MODEL")],
    baseline: Annotated[str, Parameter(help="What they are compared with: RUN, or RUN:MODEL")],
    gate: Annotated[float, Parameter(help="The worst gap to the baseline that is let through, for example -0.5")] = 0.0,
    metric: Annotated[str | None, Parameter(help="Measure to compare; default is what the table is sorted by")] = None,
    protocol: Annotated[
        Literal["paper", "corrected"] | None, Parameter(help="Which numbers; by default the benchmark's first")
    ] = None,
    by_judge: Annotated[str | None, Parameter(help="Of runs with several judges: whose numbers the gate is on")] = None,
    refusals: Refusals = "conditional",
    looks: Annotated[
        int | None, Parameter(help="How many checkpoints there will be, if known: narrower intervals for late ones")
    ] = None,
    anchor: Annotated[
        Path | None, Parameter(help="Run whose recorded outputs the judge is asked about again first", group=ANCHOR)
    ] = None,
    judge: Annotated[
        list[str] | None, Parameter(help="The judges of the anchor, as refbench run was given them", group=ANCHOR)
    ] = None,
    frozen: Annotated[int | None, Parameter(help="About how many outputs of it (100)", group=ANCHOR)] = None,
    on_drift: Annotated[
        Literal["refuse", "warn"] | None,
        Parameter(help="When the judge moved: give no verdict (refuse, the default), or warn", group=ANCHOR),
    ] = None,
    again: Annotated[bool, Parameter(help="Check afresh, beside earlier ones", group=ANCHOR, negative=())] = False,
    budget: Annotated[str | None, Parameter(help="Most that a check may cost, for example 1usd", group=ANCHOR)] = None,
    cases: Annotated[Path | None, Parameter(help="Of own cases: the file that they are in", group=ANCHOR)] = None,
    settings: Annotated[
        list[str] | None, Parameter(name="--set", help="KEY=VALUE for judging, as the anchor was judged", group=ANCHOR)
    ] = None,
    data: Annotated[Data, Parameter(group=ANCHOR)] = None,
    json: Json = False,
) -> int:
    """Compare checkpoints of one model with a baseline, and end in an exit code for CI.

    0: not worse than the gate allows. 1: worse, beyond the gate. 4: cannot be told, or the judge moved. Intervals
    are widened so that all looks at a series, however long, hold together.
    """
    from refbench.analysis.track.series import Rules, read_series, verdicts
    from refbench.text.console import console

    if not runs:
        raise RefBenchError(
            "name the runs to track, for example: refbench track runs/step1000 runs/step2000 --baseline runs/base"
        )
    _check_anchor(anchor, judge, again, (frozen, on_drift, budget, cases, settings, data))
    asked: dict[str, Any] = {"metric": metric, "protocol": protocol, "judge": by_judge, "looks": looks}
    rules = Rules(gate=gate, refusals=refusals, let_drift=on_drift == "warn", **asked)
    series = read_series(runs, baseline, rules)
    drifts: dict[str, Drift] = {}
    if anchor is not None:
        given = {"budget": budget, "benchmark": str(cases) if cases else None, "data": data, "size": frozen}
        drifts = _checked(runs, anchor, (judge or (), given_settings(settings or ()), given, again), json)
    found = verdicts(series, drifts)
    if json:
        print(found.model_dump_json(indent=2))
    else:
        _print(found, console())
    return found.exit_code


def _check_anchor(anchor: Path | None, judge: list[str] | None, again: bool, others: tuple[object, ...]) -> None:
    """Refuses options that would say nothing. `others` are those about the anchor, beside its judges."""
    if anchor is None and any(option not in (None, False) for option in (judge, again, *others)):
        raise RefBenchError(
            "--judge, --frozen, --on-drift, --again, --budget, --cases, --set and --data are about --anchor: add it"
        )
    if again and not judge:
        raise RefBenchError("--again asks the judge afresh: give --judge SPEC as the anchor was judged")


def _checked(
    runs: Sequence[str],
    anchor: Path,
    asking: tuple[Sequence[str], dict[str, str], dict[str, Any], bool],
    json: bool,
) -> dict[str, Drift]:
    """What the checks of the judge say, by run; that of the newest run is made, or gone on with, first."""
    from refbench.analysis.compare.runs import split_operand
    from refbench.analysis.track.drift import drift_of
    from refbench.engine.anchor import ask_again, checks_of, further_check, place_of

    judges, settings, given, again = asking
    size = given["size"]
    if size is not None and size < 10:
        raise RefBenchError(f"--frozen {size}: a shift of a judge is not seen on fewer than 10 outputs")
    places = {word: Path(split_operand(word)[0]) for word in runs}
    newest = places[runs[-1]]
    there = checks_of(anchor, newest)
    if judges:
        out = further_check(anchor, newest) if again else there[-1] if there else place_of(anchor, newest)
        evaluation = asyncio.run(ask_again(anchor, out, judges=judges, settings=settings, given=given, show=not json))
        if evaluation.stopped:
            print(f"refbench: the check of the judge stopped early ({evaluation.stopped})", file=sys.stderr)
    elif not there:
        raise RefBenchError(
            f"{runs[-1]}: its judge has not been checked against {anchor} yet: give --judge SPEC as the anchor was "
            "judged, to ask about its recorded outputs again"
        )
    drifts = {}
    for word, place in places.items():
        checks = [drift_of(anchor, check) for check in checks_of(anchor, place)]
        if checks:
            drifts[word] = checks[-1].model_copy(update={"earlier": tuple(checks[:-1])})
    return drifts


def _print(found: Track, out: Console) -> None:
    from rich.text import Text

    from refbench.analysis.compare.records import between, signed
    from refbench.text.tables import Grid

    lower = " (lower is better)" if found.lower_is_better else ""
    by = f", judge {found.judge}" if found.judge else ""
    base = f"{found.baseline_model} ({found.baseline_run})"
    head = f" {found.metric}{lower}, {found.protocol}{by}: less {base}, gate {signed(found.gate, found.digits)}\n"
    out.print(Text.assemble((found.title, "bold"), head))
    grid = Grid()
    grid.add_column("run")
    for title in ("gap", "interval", "level", "n"):
        grid.add_column(title, justify="right")
    grid.add_column("verdict")
    for one in found.checkpoints:
        gap = "-" if one.gap is None else signed(one.gap, found.digits)
        reach = between(one.interval, found.digits) if one.interval else "-"
        level = f"{100 * one.level:.4g} %"
        cells = (_name(one, found), gap, reach, level, str(one.n_cases), one.verdict)
        grid.add_row(*(Text(cell) for cell in cells))
    out.print(grid)
    out.print(
        Text(
            "Intervals hold together with 95 % for "
            + (f"{found.looks} looks." if found.looks else "a series of any length: each look has a share of the 5 %.")
        )
    )
    for line in _remarks(found):
        out.print(Text(line))
    out.print("\nTo paste", style="bold")
    out.print(Text(found.sentence), soft_wrap=True)


def _name(one: Checkpoint, found: Track) -> str:
    alike = sum(other.run == one.run for other in found.checkpoints) > 1
    return f"{one.run}:{one.model}" if alike else one.run


def _remarks(found: Track) -> list[str]:
    """What is behind each verdict, and what is not the same; each line once."""
    from refbench.analysis.compare.records import between

    lines = []
    for one in found.checkpoints:
        name = _name(one, found)
        if one.why:
            lines.append(f"{name}: {one.why}")
        if one.bounds is not None:
            lines.append(f"{name}: with what failed the gap is {between(one.bounds, found.digits)}")
        if one.left_out:
            lines.append(f"{name}: left out {', '.join(f'{why} {n}' for why, n in one.left_out.items())}")
        for check in (*one.drift.earlier, one.drift) if one.drift else ():
            asked = f" (asked {check.asked_at})" if check.asked_at else ""
            lines += [f"{name}{asked}: {judge.sentence}" for judge in check.judges]
        lines += [f"Warning: {name}: {line}" for line in one.warnings]
        lines += [f"not the same: {line}" for line in one.differences]
    return list(dict.fromkeys(lines))
