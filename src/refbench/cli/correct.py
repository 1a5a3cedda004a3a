"""`refbench correct`."""

from __future__ import annotations

import csv as csv_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import CsvRows, Json
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.analysis.humans.correct import Corrected, Correction, Number


def correct_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    humans: Annotated[
        Path,
        Parameter(help="CSV of people's marks of some outputs: case, model, score, and if there are several, rater"),
    ],
    sampled: Annotated[
        Path | None,
        Parameter(help="The list that refbench sample wrote, where people's CSV lacks its column probability"),
    ] = None,
    judge: Annotated[str | None, Parameter(help="Correct this judge; by default the judges' mean, or each")] = None,
    metric: Annotated[str | None, Parameter(help="Only this measure; by default all that people marked")] = None,
    scale: Annotated[
        str | None, Parameter(help="same, people's scale as 1-5, or theirs and the judge's as 1-5:1-10")
    ] = None,
    these_cases: Annotated[
        bool, Parameter(help="Intervals about these cases alone, not cases of their kind", show_default=False)
    ] = False,
    protocol: Annotated[Literal["paper", "corrected"], Parameter(help="Which scores of the run")] = "corrected",
    json: Json = False,
    csv: CsvRows = False,
) -> int:
    """Correct a judge's numbers by people's marks of some outputs: judge alone, people alone, and both together.

    The judge may be biased and on another scale: what comes out is on the people's. The better the judge goes with
    people, the narrower the interval is than that of their marks alone.
    """
    if json and csv:
        raise RefBenchError("--json and --csv exclude each other: give one of them")
    from refbench.analysis.agree.ratings import RaterScales
    from refbench.analysis.humans.correct import CorrectOptions, correct

    options = CorrectOptions(
        judge=judge, metric=metric, scale=RaterScales.parse(scale), protocol=protocol, these_cases=these_cases
    )
    found = correct(run, humans, sampled=sampled, options=options)
    if json:
        print(found.model_dump_json(indent=2))
    elif csv:
        _print_csv(found)
    else:
        _print(found)
    return 0


_NUMBERS = ("judge_alone", "people_alone", "corrected")


def _print_csv(found: Correction) -> None:
    from refbench.text.console import csv_cell

    facts = [name for name in type(found.rows[0]).model_fields if name not in (*_NUMBERS, "failure")]
    writer = csv_format.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*facts, *(f"{name}{end}" for name in _NUMBERS for end in ("", "_low", "_high")), "failure"])
    for row in found.rows:
        cells = [getattr(row, name) for name in facts]
        for name in _NUMBERS:
            number: Number | None = getattr(row, name)
            cells += [None, None, None] if number is None else [number.value, *(number.ci95 or (None, None))]
        writer.writerow([csv_cell(cell) for cell in [*cells, row.failure and row.failure.detail]])


def _print(found: Correction) -> None:
    from rich.text import Text

    from refbench.analysis.humans.correct import by_whom
    from refbench.text.console import console

    out = console()
    people = f"{len(found.raters)} raters" if len(found.raters) > 1 else "one rater"
    out.print(
        Text.assemble((found.title, "bold"), f", {found.protocol} protocol, fingerprint {found.fingerprint}; {people}")
    )
    out.print(Text(f"Intervals are about {found.target}."))
    pasted: list[Corrected] = []
    groups = dict.fromkeys((row.metric, row.judge) for row in found.rows)
    for metric, judge in groups:
        mine = [row for row in found.rows if (row.metric, row.judge) == (metric, judge)]
        lower = " (of the judge, lower is better)" if metric in found.lower_is_better else ""
        out.print(Text(f"\n{metric}{lower}, {by_whom(judge)}", style="bold"))
        _table([row for row in mine if row.versus is None], found.judge_on_scale)
        gaps = [row for row in mine if row.versus is not None]
        shown = _shown(mine)
        if gaps:
            title = f"\nGaps{_corrected_over(gaps)}"
            title += f"; all {len(gaps)} are in --json and --csv" if len(shown) < len(gaps) else ""
            out.print(Text(title, style="bold"))
            _table(shown, found.judge_on_scale)
        pasted += [row for row in mine if row.versus is None or row in shown]
    if not found.judge_on_scale:
        out.print(Text("\n* The judge alone is in its own units; --scale says how they compare with people's."))
    for note in found.notes:
        out.print(Text(f"Note: {note}."))
    out.print("\nTo paste", style="bold")
    for row in pasted:
        out.print(Text(row.sentence), soft_wrap=True)


_MOST_GAPS = 28
"""Gaps up to which all are printed: those of eight models."""


def _shown(rows: list[Corrected]) -> list[Corrected]:
    """The gaps to print: all, or of many those to the model with the highest corrected number."""
    gaps = [row for row in rows if row.versus is not None]
    known = [row for row in rows if row.versus is None and row.corrected is not None]
    if len(gaps) <= _MOST_GAPS or not known:
        return gaps[:_MOST_GAPS]
    first = max(known, key=lambda row: row.corrected.value if row.corrected else 0.0).model
    return [gap for gap in gaps if first in (gap.model, gap.versus)]


def _corrected_over(gaps: list[Corrected]) -> str:
    tested = sum(gap.p is not None for gap in gaps)
    return f", p corrected over {tested} (Holm)" if tested > 1 else ""


def _table(rows: list[Corrected], on_scale: bool) -> None:
    from rich.text import Text

    from refbench.analysis.compare.records import probability
    from refbench.text.console import console
    from refbench.text.tables import Grid

    grid = Grid()
    gaps = rows[0].versus is not None
    grid.add_column("gap" if gaps else "model")
    judge = "judge alone" if on_scale else "judge alone*"
    for title in ("rated", judge, "people alone", "corrected", *(["p"] if gaps else ["r"]), "worth"):
        grid.add_column(title, justify="right")
    for row in rows:
        name = row.model if row.versus is None else f"{row.model} - {row.versus}"
        last = "-" if row.worth is None else f"{max(round(row.worth), 0)}"
        if gaps:
            extra = "-" if row.p is None else probability(row.p).removeprefix("p ").removeprefix("= ")
        else:
            extra = "-" if row.correlation is None else f"{row.correlation:.2f}"
        numbers = [_cell(row.judge_alone), _cell(row.people_alone, row.digits), _cell(row.corrected, row.digits)]
        cells = [name, f"{row.n_rated}", *numbers, extra, last]
        if row.failure is not None:
            cells[4] = row.failure.detail
        grid.add_row(*(Text(cell) for cell in cells))
    console().print(grid)


def _cell(number: Number | None, digits: int | None = None) -> str:
    """The value, and under it the interval."""
    from refbench.score import digits_of

    if number is None:
        return "-"
    if digits is None:
        digits = digits_of([number.value, *(number.ci95 or ())])
    ends = "" if number.ci95 is None else "\n" + " to ".join(f"{end:.{digits}f}" for end in number.ci95)
    return f"{number.value:.{digits}f}{ends}"
