"""`refbench profile`."""

from __future__ import annotations

import csv as tables
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import Json, enough_draws
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from rich.console import Console

    from refbench.analysis.profile import Profile, Standing

_AT_ONCE = 3
"""Benchmarks beside each other: so many fit into eighty columns."""


def profile_command(
    *runs: Annotated[str, Parameter(help="Run directories, or benchmarks whose item scores were released (creval)")],
    same: Annotated[
        list[str] | None, Parameter(help="A=B: the model B of one run is A of the others; several times")
    ] = None,
    protocol: Annotated[
        Literal["paper", "corrected"] | None, Parameter(help="Which numbers; by default each benchmark's first")
    ] = None,
    judge: Annotated[str | None, Parameter(help="Only the numbers of this judge; default is each by itself")] = None,
    draws: Annotated[int, Parameter(help="Resamples for an interval")] = 2000,
    json: Json = False,
    csv: Annotated[bool, Parameter(help="Print one row for each model and measure as CSV")] = False,
) -> int:
    """Put several benchmarks of the same models side by side, on one scale and with intervals: which abilities tell
    the models apart, and where benchmarks disagree."""
    from refbench.analysis.profile import profile
    from refbench.text.console import console

    if not runs:
        raise RefBenchError("name the runs, for example: refbench profile runs/creval runs/multibanana")
    if json and csv:
        raise RefBenchError("--json and --csv exclude each other: give one of them")
    enough_draws(draws)
    found = profile(runs, same=_same(same or ()), protocol=protocol, judge=judge, draws=draws)
    if json:
        print(found.model_dump_json(indent=2))
    elif csv:
        print(_csv(found), end="")
    else:
        print_profile(found, console())
    return 0


def _same(texts: Sequence[str]) -> dict[str, str]:
    """From each further name to the one that is shown."""
    found = {}
    for text in texts:
        shown, equals, other = text.partition("=")
        if not equals or not shown or not other or shown == other:
            raise RefBenchError(f"--same {text}: write it as A=B, two names of one model")
        found[other] = shown
    return found


def print_profile(found: Profile, out: Console) -> None:
    from rich.text import Text

    from refbench.text.tables import Grid

    heads = found.headlines()
    said = "standard deviations of single outputs above the mean of the models, more is better; 95 % intervals"
    out.print(Text.assemble(("Side by side", "bold"), f": {said}\n"))
    for start in range(0, len(heads), _AT_ONCE):
        grid = Grid()
        grid.add_column("model")
        some = heads[start : start + _AT_ONCE]
        for ability in some:
            grid.add_column(f"{ability.source} {ability.measure}", justify="right")
        for model in found.models:
            grid.add_row(Text(model), *(Text(_standing(ability.standings[model])) for ability in some))
        out.print(grid)
        out.print()
    grid = Grid()
    grid.add_column("ability")
    for title in ("spread", "pairs told apart"):
        grid.add_column(title, justify="right")
    for title in ("highest", "lowest"):
        grid.add_column(title)
    for ability in sorted(found.abilities, key=lambda one: (-(one.resolved / max(one.pairs, 1)), -(one.spread or 0.0))):
        order = sorted(
            (model for model in found.models if ability.standings[model].standard is not None),
            key=lambda model: -(ability.standings[model].standard or 0.0),
        )
        ends = (order[0], order[-1]) if len(order) > 1 and ability.spread else ("-", "-")
        spread = "-" if ability.spread is None else f"{ability.spread:.2f}"
        told = f"{ability.resolved} of {ability.pairs}"
        grid.add_row(*(Text(cell) for cell in (f"{ability.source} {ability.measure}", spread, told, *ends)))
    out.print("Which abilities tell the models apart", style="bold")
    out.print(grid)
    _print_agreements(found, out)
    gaps = [f"{model}, {a.source}: {s.why}" for a in heads for model, s in a.standings.items() if s.why]
    for line in (*found.notes, *(gap for gap in gaps if not gap.endswith("not in this benchmark"))):
        out.print(Text(f"Note: {line}."))


def _print_agreements(found: Profile, out: Console) -> None:
    from rich.text import Text

    if not found.agreements:
        return
    out.print("\nWhere benchmarks disagree", style="bold")
    for one in found.agreements:
        both = f"{one.first} and {one.second}, {counted(len(one.models), 'model')} in both"
        tau = "no rank correlation of fewer than 3 models" if one.tau is None else f"Kendall's tau {one.tau:+.2f}"
        if one.range95 is not None:
            tau += f" ({one.range95[0]:+.2f} to {one.range95[1]:+.2f} over resamples)"
        out.print(Text(f"{both}: {tau}; {counted(len(one.reversed), 'pair')} resolved the other way round"))
        for line in one.reversed:
            out.print(Text(f"  {line}"))


def _standing(standing: Standing) -> str:
    if standing.standard is None:
        return "-"
    if standing.ci95 is None:
        return f"{standing.standard:+.2f}"
    return f"{standing.standard:+.2f} ({standing.ci95[0]:+.2f}, {standing.ci95[1]:+.2f})"


def _csv(found: Profile) -> str:
    from refbench.text.console import csv_cell

    text = io.StringIO()
    writer = tables.writer(text, lineterminator="\n")
    titles = ("model", "source", "benchmark", "measure", "headline", "value", "standard", "ci95_low", "ci95_high",
              "n_scored", "n_expected", "why")  # fmt: skip
    writer.writerow(titles)
    for ability in found.abilities:
        for model in found.models:
            one = ability.standings[model]
            low, high = one.ci95 or (None, None)
            place = (model, ability.source, ability.benchmark, ability.measure, ability.headline)
            cells = (*place, one.value, one.standard, low, high, one.n_scored, one.n_expected, one.why)
            writer.writerow(map(csv_cell, cells))
    return text.getvalue()
