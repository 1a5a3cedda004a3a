"""`refbench build`: one command for each benchmark that can be made anew; its options are the builder's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeVar

from cyclopts import App, Parameter

from refbench.builders.creval import CREvalSettings
from refbench.builders.ideabench import IdeaBenchSettings
from refbench.builders.kit.settings import BuildSettings
from refbench.builders.multibanana import MultiBananaSettings
from refbench.builders.multiref_real import MultiRefRealSettings
from refbench.cli.options import Json

if TYPE_CHECKING:
    from refbench.builders import BuildReport

Settings = TypeVar("Settings", bound=BuildSettings)
Options = Annotated[Settings, Parameter(name="*")]

build_command = App(
    name="build",
    help="Make a benchmark of your own from your own pictures, in the official layout, with a data card.",
    default_parameter=Parameter(negative=()),
)


@build_command.command(name="creval")
def creval_command(settings: Options[CREvalSettings], *, json: Json = False) -> int:
    """Creative edits: instructions in nine dimensions, and yes/no questions to judge them by."""
    return _run(settings, json=json)


@build_command.command(name="multibanana")
def multibanana_command(settings: Options[MultiBananaSettings], *, json: Json = False) -> int:
    """Compositions of several references: filtered pictures, tasks, instructions."""
    return _run(settings, json=json)


@build_command.command(name="ideabench")
def ideabench_command(settings: Options[IdeaBenchSettings], *, json: Json = False) -> int:
    """Design tasks: six graded questions for each case."""
    return _run(settings, json=json)


@build_command.command(name="multiref-real")
def multiref_real_command(settings: Options[MultiRefRealSettings], *, json: Json = False) -> int:
    """Real-world edits of several pictures: instructions with tokens, from before and after."""
    return _run(settings, json=json)


def _run(settings: BuildSettings, *, json: bool) -> int:
    """Run the build of these settings and print how it went; the exit code is 3 for a spent budget, 1 when nothing or
    too little was made."""
    import asyncio
    import sys
    from importlib import import_module

    build = import_module(f"{type(settings).__module__}.build").build
    report: BuildReport = asyncio.run(build(settings, None if json else lambda line: print(line, file=sys.stderr)))
    if json:
        import orjson

        print(orjson.dumps({**report.model_dump(), "lost_share": round(report.lost_share, 4)}).decode())
    else:
        _print_report(report, settings.max_dropped)
    if report.stopped == "budget":
        return 3
    if not report.made or report.stopped:
        return 1
    return 1 if report.lost_share > settings.max_dropped else 0


def _print_report(report: BuildReport, max_dropped: float) -> None:
    from rich.text import Text

    from refbench.text.console import console
    from refbench.text.tables import Grid

    out = console()
    said = f"{report.made:,} of {report.wanted:,} items made in {report.out}"
    out.print(Text(said, style="bold"))
    grid = Grid()
    for name in ("left out at", "why", "how many"):
        grid.add_column(name, justify="right" if name == "how many" else "left")
    for stage, reasons in report.dropped.items():
        for reason, number in reasons.items():
            grid.add_row(Text(stage), Text(reason), f"{number:,}")
    if report.dropped:
        out.print(grid)
    for name, reason in report.missing.items():
        out.print(Text(f"Not covered: {name}: {reason}"))
    for note in report.notes:
        out.print(Text(f"Note: {note}"))
    paid = "price not known" if report.cost_usd is None else f"{report.cost_usd:.4f} usd in all"
    out.print(Text(f"{report.asked:,} calls this time, {paid}."))
    if report.stopped == "budget":
        out.print(
            Text("The budget ended it: what is complete is there. Raise --budget and run the same command again.")
        )
    elif report.unfinished:
        out.print(Text(f"{report.unfinished:,} could not be finished for want of replies: run the same command again."))
    elif report.begun and report.lost_share > max_dropped:
        out.print(Text(f"More was dropped than --max-dropped {max_dropped:g} allows: dropped.jsonl says why."))
    if report.made:
        out.print(Text(f"\nNext: look at {report.out}/README.md, decide in {report.out}/review.jsonl, then"))
        for data in report.data:
            out.print(Text(f"  refbench check {report.benchmark} --data {data}"))
