"""`refbench items`."""

from __future__ import annotations

import csv as csv_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import CsvRows, Data, Json
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from rich.console import Console

    from refbench.analysis.items import ItemReport


def items_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    judge: Annotated[str | None, Parameter(help="By this judge's marks; by default the mean of all")] = None,
    humans: Annotated[
        Path | None, Parameter(help="CSV of people's scores, as `agree --humans` reads it: where the judge is apart")
    ] = None,
    protocol: Annotated[Literal["paper", "corrected"], Parameter(help="Which scores of the run")] = "corrected",
    most: Annotated[int, Parameter(help="Cases to list; all are in --json and --csv")] = 20,
    data: Data = None,
    json: Json = False,
    csv: CsvRows = False,
) -> int:
    """Say what each case tells about the models: ceiling, floor, discrimination, copies, judge against people.

    Then which cases tell nothing or point the wrong way, and what dropping them does to the ranks.
    """
    if json and csv:
        raise RefBenchError("--json and --csv exclude each other: give one of them")
    from refbench.analysis.agree.people import read_people
    from refbench.analysis.copies import copies_of
    from refbench.analysis.items import item_report
    from refbench.report.site.boards import picture_root
    from refbench.runs import Run
    from refbench.tables.scoring import run_draws, score_run

    result = score_run(run, protocol=protocol, draws=0)
    result.needs_all_calls("refbench items")
    opened = Run.open(run)
    metrics = list(dict.fromkeys(row.metric for row in result.table.rows))
    report = item_report(
        result,
        protocol,
        judge=judge,
        humans=None if humans is None else read_people(humans, metrics=metrics),
        copies=copies_of(result, opened, picture_root([opened], result.bench, result.cases, data)),
        answered=run_draws(run, protocol=protocol),
    )
    if json:
        print(report.model_dump_json(indent=2))
    elif csv:
        _print_csv(report)
    else:
        _print(report, most)
    return 0


def _print_csv(report: ItemReport) -> None:
    from refbench.analysis.items import Item
    from refbench.text.console import csv_cell

    reasons = {one.case: "; ".join(one.reasons) for one in report.doubtful}
    names = list(Item.model_fields)
    writer = csv_format.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*names, "reasons"])
    for item in report.items:
        cells = [getattr(item, name) for name in names]
        writer.writerow([csv_cell(cell) for cell in [*cells, "" if item.question else reasons.get(item.case, "")]])


def _print(report: ItemReport, most: int) -> None:
    from rich.text import Text

    from refbench.text.console import console

    out = console()
    n, models = counted(report.n_cases, "case"), counted(len(report.models), "model")
    said = f": {n}, {models}, {report.judge}, {report.protocol} protocol, fingerprint {report.fingerprint}"
    out.print(Text.assemble((report.title, "bold"), said))
    _print_measures(report, out)
    for note in report.notes:
        out.print(Text(f"Note: {note}."))
    out.print("\nCases to look at", style="bold")
    _print_doubtful(report, most, out)
    if len(report.models) > 1:
        out.print("\nRanks without the cases that tell nothing", style="bold")
        _print_standings(report, out)


def _print_measures(report: ItemReport, out: Console) -> None:
    from rich.text import Text

    from refbench.text.tables import Grid

    grid = Grid()
    questions = any(one.n_questions for one in report.measures)
    titles = ["cases", "ceiling", "floor", "discrimination", "below 0"]
    titles += ["questions", "ceiling", "floor"] if questions else []
    grid.add_column("measure")
    for title in titles:
        grid.add_column(title, justify="right")
    for one in report.measures:
        tells = "-" if one.discrimination is None else f"{one.discrimination:.2f}"
        below = f"{one.n_below_zero} of {one.n_discriminating}" if one.n_discriminating else "-"
        cells = [one.measure, f"{one.n_cases}", f"{one.at_ceiling}", f"{one.at_floor}", tells, below]
        if questions:
            cells += [f"{one.n_questions}", f"{one.questions_at_ceiling}", f"{one.questions_at_floor}"]
        grid.add_row(*(Text(cell) for cell in cells))
    out.print(grid)
    out.print(Text("Ceiling, floor: every model at that end. Discrimination: median over cases."))


def _print_doubtful(report: ItemReport, most: int, out: Console) -> None:
    from rich.text import Text

    from refbench.text.tables import Grid

    if not report.doubtful:
        out.print(Text("None stands out."))
        return
    grid = Grid()
    grid.add_column("case")
    grid.add_column("why")
    for one in report.doubtful[: max(most, 0)]:
        grid.add_row(Text(one.case), Text("; ".join(one.reasons)))
    out.print(grid)
    if len(report.doubtful) > most:
        out.print(Text(f"... and {len(report.doubtful) - most} more (--most, --json, --csv)."))


def _print_standings(report: ItemReport, out: Console) -> None:
    from rich.text import Text

    from refbench.score import digits_of
    from refbench.text.tables import Grid

    if not report.n_dropped:
        out.print(Text("No case was found to tell nothing: there is nothing to drop."))
        return
    digits = digits_of([one.value for one in report.standings])
    grid = Grid()
    grid.add_column("model")
    for title in (report.measure, "rank", "without", "rank", "by others*"):
        grid.add_column(title, justify="right")
    for one in report.standings:
        without = "-" if one.without is None else f"{one.without:.{digits}f}"
        ranks = [f"{rank}" if rank else "-" for rank in (one.rank_without, one.rank_apart)]
        grid.add_row(*(Text(cell) for cell in [one.model, f"{one.value:.{digits}f}", f"{one.rank}", without, *ranks]))
    out.print(grid)
    out.print(Text("* its rank where the cases to drop are chosen by the other models' marks alone."))
    for sentence in _what_it_does(report):
        out.print(Text(sentence))


def _what_it_does(report: ItemReport) -> list[str]:
    sentences = []
    n = counted(report.n_dropped, "case")
    if report.swapped is None:
        sentences.append(f"{n} would go, which leaves nothing to rank by.")
    elif report.swapped == 0:
        sentences.append(f"Dropping {n} of {report.n_cases} leaves the order as it is.")
    else:
        sentences.append(f"Dropping {n} of {report.n_cases} turns {counted(report.swapped, 'pair')} of models round.")
    if report.as_many_at_random is not None and report.swapped:
        share = 100 * report.as_many_at_random
        sentences.append(f"As many cases dropped at random turn as many round in {share:.0f} % of draws.")
    sentences.append(
        "The cases were found in these very numbers: dropping them suits the order that is there, and the new numbers "
        "are no published benchmark's. Report both, or choose the cases on other models."
    )
    return sentences
