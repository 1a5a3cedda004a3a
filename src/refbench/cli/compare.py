"""`refbench compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import Data, Json
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from rich.table import Table as Grid

    from refbench.analysis.compare import Comparison, Driver, Pair


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
    by: Annotated[
        str | None, Parameter(help="Also print the gap in every slice of this level, for example category")
    ] = None,
    draws: Annotated[int, Parameter(help="Resamples for an interval; the test makes five times as many")] = 2000,
    seed: Annotated[int, Parameter(help="Seed of the resamples")] = 20251115,
    data: Data = None,
    json: Json = False,
) -> int:
    """Compare models in pairs on the cases they share, and end in a sentence to paste for each pair."""
    if not operands:
        raise RefBenchError("name what to compare, for example: refbench compare runs/x:A runs/x:B")
    if draws < 100:
        raise RefBenchError(f"--draws {draws}: an interval needs at least 100 resamples")
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
    )
    levels = list(dict.fromkeys(driver.slice["level"] for pair in comparison.pairs for driver in pair.drivers))
    if by is not None and by not in levels:
        raise RefBenchError(f"--by {by}: this comparison has the levels {', '.join(sorted(levels)) or 'overall only'}")
    if json:
        print(comparison.model_dump_json(indent=2))
    else:
        _show(comparison, by)
    return 0


_MOST_EXPLAINED = 6
"""Pairs whose leading slices are printed; with more of them the table and the sentences are what one reads."""


def _show(found: Comparison, by: str | None) -> None:
    from rich.text import Text

    from refbench.analysis.compare.records import REFUSALS, left_out
    from refbench.report.terminal import console
    from refbench.stats.interval import SYMMETRIC_BELOW

    out = console()
    counting = f", {REFUSALS[found.refusals]}" if found.refusals in REFUSALS else ""
    corrected = f", p corrected over {found.family} pairs (Holm)" if found.family > 1 else ""
    out.print(
        f"[bold]{found.title}[/bold] {found.metric}{' (lower is better)' if found.lower_is_better else ''}, "
        f"{found.protocol} protocol{counting}: first less second on the cases both "
        f"have{corrected}\n"
    )
    for why in dict.fromkeys(pair.hopeless for pair in found.pairs if pair.hopeless):
        out.print(Text(f"Nothing to be seen: {why}.\n", style="bold"))
    out.print(_pairs(found))
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
            out.print(Text(f"\n{_title(pair, found)} by {by} (intervals are of each slice alone, not corrected):"))
            out.print(_slices(pair, by, found.digits))
        elif by is None and len(found.pairs) <= _MOST_EXPLAINED and pair.leading:
            out.print(Text(_driving(pair, found)))
    out.print("\n[bold]To paste[/bold]")
    for pair in found.pairs:
        out.print(Text(pair.sentence), soft_wrap=True)


def _several_judges(found: Comparison) -> bool:
    return len({(pair.judge, pair.second_judge) for pair in found.pairs}) > 1


def _title(pair: Pair, found: Comparison) -> str:
    """The pair, with its judge where the comparison has several."""
    from refbench.analysis.compare.records import judged

    return f"{pair.first} - {pair.second}" + (f" ({judged(pair)})" if _several_judges(found) else "")


def _pairs(found: Comparison) -> Grid:
    from rich.table import Table as Grid
    from rich.text import Text

    from refbench.analysis.compare.records import probability, signed

    digits = found.digits
    judges = _several_judges(found)
    titles = ["first", "second", *(["judge"] if judges else [])]
    grid = Grid(header_style="bold", box=None, pad_edge=False)
    for title in titles:
        grid.add_column(title, overflow="fold")
    for title in ("gap", "95 % interval", "p", "verdict", "effect", "win/tie/loss", "n"):
        grid.add_column(title, justify="left" if title == "verdict" else "right")
    for pair in found.pairs:
        who = pair.judge if pair.judge == pair.second_judge else f"{pair.judge} / {pair.second_judge}"
        cells = [pair.first, pair.second, *([who or "none"] if judges else [])]
        if pair.gap is None or pair.p_adjusted is None:
            cells += ["-", "-", "-", "cannot compare", "-", "-", str(pair.n_cases)]
        else:
            cells += [
                signed(pair.gap, digits),
                _interval(pair.ci95, digits),
                probability(pair.p_adjusted, pair.p_is_bound).removeprefix("p ").removeprefix("= "),
                "not resolved" if not pair.resolved else "better" if found.better(pair.gap) else "worse",
                "-" if pair.effect is None else f"{pair.effect:+.2f}",
                f"{pair.wins}/{pair.ties}/{pair.losses}",
                str(pair.n_cases),
            ]
        grid.add_row(*(Text(cell) for cell in cells))
    return grid


def _driving(pair: Pair, found: Comparison) -> str:
    digits = found.digits
    parts = [
        f"{driver.slice['level']} {_name(driver)} {driver.contribution:+.{digits}f} "
        f"({_interval(driver.ci95, digits)}; {counted(driver.n_cases, 'case')})"
        for driver in pair.leading
    ]
    return f"largest parts of {_title(pair, found)}, {pair.gap:+.{digits}f}: {'; '.join(parts)}"


def _slices(pair: Pair, level: str, digits: int) -> Grid:
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(header_style="bold", box=None, pad_edge=False)
    grid.add_column(level, overflow="fold")
    for title in ("gap there", "95 % interval", "of the gap", "95 % interval", "n"):
        grid.add_column(title, justify="right")
    for driver in pair.drivers:
        if driver.slice["level"] == level:
            cells = [
                _name(driver),
                "-" if driver.gap is None else f"{driver.gap:+.{digits}f}",
                _interval(driver.gap_ci95, digits),
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
