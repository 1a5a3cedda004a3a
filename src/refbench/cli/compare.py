"""`refbench compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from refbench.cli.options import Data, Json, enough_draws, not_negative
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from refbench.analysis.compare import Comparison, Driver, Pair
    from refbench.text.tables import Grid


def compare_command(
    *operands: Annotated[
        str,
        Parameter(help="RUN_DIR:MODEL, RUN_DIR for all its models, or BENCHMARK:MODEL for released item scores"),
    ],
    metric: Annotated[str | None, Parameter(help="Measure to compare; default is what the table is sorted by")] = None,
    protocol: Annotated[
        str | None, Parameter(help="paper or corrected; default corrected, or paper beside released figures")
    ] = None,
    judge: Annotated[str | None, Parameter(help="Only this judge; default is each judge with itself")] = None,
    refusals: Annotated[
        Literal["conditional", "worst", "worst,unsupported"],
        Parameter(help="A model's own failures: left out with bounds beside, or as the worst value"),
    ] = "conditional",
    against: Annotated[str | None, Parameter(help="Compare this model with each other one, not all pairs")] = None,
    margin: Annotated[
        float | None, Parameter(help="Also test whether models are equal within so many points of the measure")
    ] = None,
    over_measures: Annotated[
        bool, Parameter(help="Correct p over all measures of the table, not over the pairs alone", negative=())
    ] = False,
    by: Annotated[
        str | None, Parameter(help="Also print the gap in every slice of this level, for example category")
    ] = None,
    draws: Annotated[int, Parameter(help="Resamples for an interval; the test makes five times as many")] = 2000,
    seed: Annotated[int, Parameter(help="Seed of the resamples", validator=not_negative)] = 20251115,
    data: Data = None,
    all_choices: Annotated[
        bool,
        Parameter(
            help="Of two models: the gap under every protocol, judge, weights, subset and treatment of failures",
            show_default=False,
        ),
    ] = False,
    leave_out: Annotated[
        str | None,
        Parameter(help="With --all-choices: also without each slice of this level in turn, for example category"),
    ] = None,
    figure: Annotated[Path | None, Parameter(help="With --all-choices: draw all of them to this .svg file")] = None,
    json: Json = False,
) -> int:
    """Compare models in pairs on the cases they share, and end in a sentence to paste for each pair."""
    if not operands:
        raise RefBenchError("name what to compare, for example: refbench compare runs/x:A runs/x:B")
    enough_draws(draws)
    if all_choices:
        if against is not None or by is not None or refusals != "conditional":
            raise RefBenchError("--all-choices makes every choice of two models: no --against, --by or --refusals")
        given = {"metric": metric, "protocol": protocol, "judge": judge, "leave_out": leave_out, "data": data}
        return _choices(operands, given, (draws, seed), figure, json)
    if leave_out is not None or figure is not None:
        raise RefBenchError("--leave-out and --figure are about --all-choices: add it")
    from refbench.analysis.compare.runs import compare

    comparison = compare(
        operands,
        metric=metric,
        protocol=protocol,
        judge=judge,
        against=against,
        refusals=refusals,
        data=Path(data) if data else None,
        draws=draws,
        seed=seed,
        margin=margin,
        over_measures=over_measures,
    )
    levels = list(dict.fromkeys(driver.slice["level"] for pair in comparison.pairs for driver in pair.drivers))
    if by is not None and by not in levels:
        raise RefBenchError(f"--by {by}: this comparison has the levels {', '.join(sorted(levels)) or 'overall only'}")
    if json:
        print(comparison.model_dump_json(indent=2))
    else:
        _show(comparison, by)
    return 0


def _choices(
    operands: Sequence[str], given: Mapping[str, Any], drawn: tuple[int, int], figure: Path | None, json: bool
) -> int:
    from refbench.analysis.compare.choices import all_choices
    from refbench.analysis.compare.draws import Resampling
    from refbench.report.choices import choices_figure, print_choices
    from refbench.text.console import console

    draws, seed = drawn
    found = all_choices(operands, **given, resampling=Resampling(draws, seed=seed))
    if json:
        print(found.model_dump_json(indent=2))
    else:
        print_choices(found, console())
    if figure is not None:
        from refbench.cli.printing import write_file

        write_file(figure, choices_figure(found).encode(), quiet=json)
    return 0


_MOST_EXPLAINED = 6
"""Pairs whose leading slices are printed; with more of them the table and the sentences are what one reads."""


def _show(found: Comparison, by: str | None) -> None:
    from rich.text import Text

    from refbench.analysis.compare.records import REFUSALS, left_out
    from refbench.stats.interval import SYMMETRIC_BELOW
    from refbench.text.console import console

    out = console()
    counting = f", {REFUSALS[found.refusals]}" if found.refusals in REFUSALS else ""
    what = "pairs" if all(pair.measures == 1 for pair in found.pairs) else "tests, of all measures"
    corrected = f", p corrected over {found.family} {what} (Holm)" if found.family > 1 else ""
    told = (
        f" {found.metric}{' (lower is better)' if found.lower_is_better else ''}, "
        f"{found.protocol} protocol{counting}: first less second on the cases both "
        f"have{corrected}\n"
    )
    out.print(Text.assemble((found.title, "bold"), told))
    for why in dict.fromkeys(pair.hopeless for pair in found.pairs if pair.hopeless):
        out.print(Text(f"Nothing to be seen: {why}.\n", style="bold"))
    out.print(_pairs(found))
    if found.family > 1:
        out.print(Text("all at once: intervals that hold for all of these together (Bonferroni)."))
    if any(pair.supplementary for pair in found.pairs):
        out.print(
            Text("What is asked is the judges' mean; single judges are supplementary, corrected among themselves.")
        )
    if any(pair.symmetric and pair.gap is not None for pair in found.pairs):
        out.print(Text(f"Fewer than {SYMMETRIC_BELOW} clusters: the test takes differences to be symmetric."))
    lines = [f"not the same: {line}" for line in found.differences] + [f"Note: {note}." for note in found.notes]
    for pair in found.pairs:
        parts = left_out(pair, found.digits)
        if parts:
            lines.append(f"{_title(pair, found)}: {'; '.join(parts)}")
    for line in dict.fromkeys(lines):
        out.print(Text(line))
    for pair in found.pairs:
        if by is not None and any(driver.slice["level"] == by for driver in pair.drivers):
            out.print(
                Text(
                    f"\n{_title(pair, found)} by {by} (intervals are of each slice alone; p is corrected over "
                    "all slices of the level and all pairs, Holm):"
                )
            )
            out.print(_slices(pair, by, found.digits))
        elif by is None and len(found.pairs) <= _MOST_EXPLAINED and pair.leading:
            out.print(Text(_driving(pair, found)))
    out.print("\nTo paste", style="bold")
    for pair in found.pairs:
        out.print(Text(pair.sentence), soft_wrap=True)


def _several_judges(found: Comparison) -> bool:
    return len({(pair.judge, pair.second_judge) for pair in found.pairs}) > 1


def _title(pair: Pair, found: Comparison) -> str:
    """The pair, with its judge where the comparison has several."""
    from refbench.analysis.compare.records import judged

    return f"{pair.first} - {pair.second}" + (f" ({judged(pair)})" if _several_judges(found) else "")


def _pairs(found: Comparison) -> Grid:
    from rich.text import Text

    from refbench.analysis.compare.records import probability, signed
    from refbench.text.tables import Grid

    digits = found.digits
    judges = _several_judges(found)
    titles = ["first", "second", *(["judge"] if judges else [])]
    grid = Grid(names=len(titles))
    for title in titles:
        grid.add_column(title)
    together = found.family > 1
    for title in ("gap", "95 % interval", *(["all at once"] if together else []), *_COLUMNS):
        grid.add_column(title, justify="left" if title == "verdict" else "right")
    for pair in found.pairs:
        who = pair.judge if pair.judge == pair.second_judge else f"{pair.judge} / {pair.second_judge}"
        cells = [pair.first, pair.second, *([who or "none"] if judges else [])]
        if pair.gap is None or pair.p_adjusted is None:
            cells += ["-", "-", *(["-"] if together else []), "-", "cannot compare", "-", "-", str(pair.n_cases)]
        else:
            cells += [
                signed(pair.gap, digits),
                _interval(pair.ci95, digits),
                *([_interval(pair.ci95_family, digits)] if together else []),
                probability(pair.p_adjusted, pair.p_is_bound).removeprefix("p ").removeprefix("= "),
                _verdict(pair, found),
                "-" if pair.effect is None else f"{pair.effect:+.2f}",
                f"{pair.wins}/{pair.ties}/{pair.losses}",
                str(pair.n_cases),
            ]
        grid.add_row(*(Text(cell) for cell in cells))
    return grid


_COLUMNS = ("p", "verdict", "effect", "win/tie/loss", "n")


def _verdict(pair: Pair, found: Comparison) -> str:
    if pair.resolved:
        return "better" if found.better(pair.gap or 0.0) else "worse"
    return "equal" if pair.equal else "not resolved"


def _driving(pair: Pair, found: Comparison) -> str:
    digits = found.digits
    parts = [
        f"{driver.slice['level']} {_name(driver)} {driver.contribution:+.{digits}f} "
        f"({_interval(driver.ci95, digits)}; {counted(driver.n_cases, 'case')})"
        for driver in pair.leading
    ]
    return f"largest parts of {_title(pair, found)}, {pair.gap:+.{digits}f}: {'; '.join(parts)}"


def _slices(pair: Pair, level: str, digits: int) -> Grid:
    from rich.text import Text

    from refbench.analysis.compare.records import probability
    from refbench.text.tables import Grid

    grid = Grid()
    grid.add_column(level)
    for title in ("gap there", "95 % interval", "p", "of the gap", "95 % interval", "n"):
        grid.add_column(title, justify="right")
    for driver in pair.drivers:
        if driver.slice["level"] == level:
            cells = [
                _name(driver),
                "-" if driver.gap is None else f"{driver.gap:+.{digits}f}",
                _interval(driver.gap_ci95, digits),
                "-"
                if driver.p_adjusted is None
                else probability(driver.p_adjusted).removeprefix("p ").removeprefix("= "),
                f"{driver.contribution:+.{digits}f}",
                _interval(driver.ci95, digits),
                str(driver.n_cases),
            ]
            grid.add_row(*(Text(cell) for cell in cells))
    return grid


def _name(driver: Driver) -> str:
    """The slice's own name, with those above it where it has several."""
    return " / ".join(value for key, value in driver.slice.items() if key != "level")


def _interval(ci95: tuple[float, float] | None, digits: int) -> str:
    from refbench.analysis.compare.records import between

    return between(ci95, digits) if ci95 else "-"
