"""`refbench plan`."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import App, Group, Parameter

from refbench.cli.options import OUTPUT, Command, Json
from refbench.cli.run import Words, all_settings, called_with_settings, run_options
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from refbench.benchmarks.kit.definition import Setting
    from refbench.engine.designs import Spending
    from refbench.engine.options import RunOptions
    from refbench.engine.plan import Plan, Precision

SPLIT = Group("Splitting money", sort_key=6)


plan_command = App(name="plan", help_flags=(), version_flags=())

_OPTIONS = (
    "benchmark", "models", "judges", "out", "data", "subset", "metrics", "seeds", "repeats", "rubric", "settings",
    "limit", "budget", "concurrency",
)  # fmt: skip


@plan_command.default
def _plan(*words: Words) -> int:
    return called_with_settings("plan", words, _command, *_OPTIONS)


def _command(settings: Sequence[Setting]) -> Command:
    def plan(
        benchmark: str,
        *,
        like: Annotated[
            Path | None,
            Parameter(name=("--like", "--pilot"), help="An earlier run to expect precision, length and speed from"),
        ] = None,
        decide: Annotated[
            list[str] | None,
            Parameter(
                consume_multiple=True,
                group=SPLIT,
                help="How to split --budget over cases, seeds, judges and repeats, to tell these models apart",
            ),
        ] = None,
        gap: Annotated[
            float | None, Parameter(group=SPLIT, help="With --decide: the cheapest design that finds such a difference")
        ] = None,
        human_price: Annotated[
            float | None,
            Parameter(group=SPLIT, help="With --decide: dollars for a mark by a person, to correct the judge"),
        ] = None,
        human_agreement: Annotated[
            float | None,
            Parameter(
                group=SPLIT, help="Correlation of a judge's and people's marks of single outputs (refbench agree)"
            ),
        ] = None,
        json: Annotated[Json, Parameter(group=OUTPUT)] = False,
        **given: Any,
    ) -> int:
        """Say what a run will cost before it costs anything: calls, tokens, money, time, and what it can show.

        With --out of a run that would be continued, its calls are not counted again. A benchmark's settings are
        options, as of refbench run.
        """
        from refbench.engine.plan import make_plan

        given["settings"] = all_settings(given, settings)
        options = run_options(benchmark, given).model_copy(update={"shard": None})  # the plan is for the whole run
        if not options.judges:
            raise RefBenchError("give at least one --judge: a plan counts what judges are asked")
        if decide is not None:
            return _split(options, decide, given, (gap, like, human_price, human_agreement), json)
        if gap is not None or human_price is not None or human_agreement is not None:
            raise RefBenchError("--gap, --human-price and --human-agreement are about --decide: add it")
        return show_plan(asyncio.run(make_plan(options, like=like)), options.concurrency, json=json)

    return plan


def _split(
    options: RunOptions,
    decide: list[str],
    given: dict[str, Any],
    asked: tuple[float | None, Path | None, float | None, float | None],
    json: bool,
) -> int:
    """The table of designs, and the line that runs the best of them."""
    from refbench.engine.designs import People, split

    gap, pilot, price, agreement = asked
    if (price is None) != (agreement is None):
        raise RefBenchError("--human-price and --human-agreement go together: what a mark costs, and what it tells")
    people = None if price is None or agreement is None else People(price, agreement)
    found = asyncio.run(split(options, decide, gap=gap, pilot=pilot, people=people))
    line = _line_of(options, found, given)
    if json:
        print(orjson.dumps({**found.model_dump(mode="json"), "command": line}).decode())
    else:
        _print_split(found, line)
    return 0


def _line_of(options: RunOptions, found: Spending, given: dict[str, Any]) -> str:
    """The best design as a command to run."""
    best = found.designs[0]
    words = ["refbench", "run", options.benchmark]
    named = {str(spec).partition("=")[0]: spec for spec in given.get("models", ())}
    words += [word for name in found.decide for word in ("--model", str(named.get(name, name)))]
    words += [word for spec in list(given.get("judges", ()))[: len(best.judges)] for word in ("--judge", str(spec))]
    for key in ("data", "subset", "rubric"):
        if given.get(key):
            words += [f"--{key}", str(given[key])]
    words += [word for key, value in given.get("settings", {}).items() for word in ("--set", f"{key}={value}")]
    words += ["--seeds", str(best.seeds)] if best.seeds > 1 else []
    words += ["--repeats", str(best.repeats)] if best.repeats > 1 else []
    words += ["--limit", str(best.cases)] if best.cases < found.all_cases else []
    if found.budget_usd is not None:  # people are paid elsewhere
        words += ["--budget", f"{found.budget_usd - best.marks_usd:g}usd"]
    words += ["--out", str(options.out or f"runs/{found.benchmark}")]
    return shlex.join(words)


def _print_split(found: Spending, line: str) -> None:
    from rich.text import Text

    from refbench.engine.designs import says
    from refbench.text.console import console
    from refbench.text.tables import Grid

    out = console()
    among = f"{len(found.decide)} models, {counted(found.family, 'pair')}"
    money = "" if found.budget_usd is None else f", at most {found.budget_usd:g} usd"
    out.print(
        Text.assemble((found.benchmark, "bold"), f" {found.measure}: {among}{money}; errors from {found.source}\n")
    )
    grid = Grid()
    grid.add_column("design")
    people = any(one.marks for one in found.designs)
    titles = ["cases", "seeds", "judges", "repeats", *(["people's marks"] if people else []), "calls", "usd", "finds"]
    for title in titles:
        grid.add_column(title, justify="right")
    for one in found.designs:
        cells = [one.cases, one.seeds, len(one.judges), one.repeats, *([one.marks] if people else []), one.calls]
        finds = "-" if one.detectable is None else f"{one.detectable:.2f}"
        grid.add_row(Text(one.label), *(Text(str(cell)) for cell in cells), f"{one.cost_usd:.2f}", finds)
    out.print(grid)
    out.print(Text("finds: the true gap that is found at least 4 times in 5"))
    out.print(Text(says(found)))
    if not people:
        out.print(Text("This is the judge's gap; what people would say takes marks of theirs (--human-price)."))
    for remark in found.remarks:
        out.print(Text(f"Note: {remark}."))
    if found.assumptions:
        out.print(Text(f"assumed: {', '.join(found.assumptions)}"))
    out.print("\nTo run the best", style="bold")
    out.print(Text(line), soft_wrap=True)


def show_plan(plan: Plan, concurrency: int, *, json: bool) -> int:
    """A plan as a record or in words; returns the exit code."""
    if json:
        print(plan.model_dump_json())
    else:
        _print_plan(plan, concurrency)
    return 0


def _print_plan(plan: Plan, concurrency: int) -> None:
    known = f", {plan.calls_known} of them on record" if plan.calls_known else ""
    size = f"{counted(plan.cases, 'case')}, {counted(plan.models, 'model')}, {counted(plan.calls, 'call')}"
    print(f"{plan.benchmark}: {size}{known}")
    for one in plan.judges:
        money = "price not known"
        if one.cost_usd is not None:
            money = f"about {one.cost_usd:.2f} usd, at most {one.worst_usd:.2f} ({one.price_source or 'free'})"
        tokens = f"{one.input_tokens:,} tokens in, {one.output_tokens:,} out"
        print(f"  {one.judge}: {one.calls} calls, {tokens}, {money}")
    if plan.pictures:
        money = "at prices that are not known" if plan.pictures_usd is None else f"for {plan.pictures_usd:.2f} usd"
        print(f"  {plan.pictures} pictures are still to be made, {money}")
    print(f"  time: about {plan.seconds / 60:.0f} min with {concurrency} calls in flight")
    for said in (plan.lacking, plan.elsewhere, *plan.missing):
        if said:
            print(f"  {said}")
    if plan.assumptions:
        print(f"  assumed: {', '.join(plan.assumptions)}")
    if plan.fits_cases is not None:
        spent = f", of which {plan.spent_usd:.4f} are spent," if plan.spent_usd else ""
        print(
            f"  {plan.budget_usd:g} usd{spent} cover {plan.fits_cases} of {plan.cases} cases: a run begins a case while"
        )
        print(f"  the most that all its calls can cost is left, and sets that aside ({plan.set_aside_usd:.4f} usd)")
    if plan.precision is None:
        print("  precision: no earlier scores to tell from; give --like RUN")
    else:
        _print_precision(plan.precision)


def _print_precision(p: Precision) -> None:
    sharp = f"{p.metric} to within {p.half_width:.2f}, a gap to within {p.gap_half_width:.2f}"
    for remark in p.remarks:
        print(f"  {remark}")
    print(f"  precision, from {p.source}: {sharp}")
    pairs = f" among {p.family} pairs" if p.family > 1 else ""
    if p.detectable is not None:
        print(f"  a true gap of {p.detectable:.2f} would be found at least 4 times in 5{pairs}")
