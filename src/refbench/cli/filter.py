"""`refbench filter`: a filter judge of one's own, from people's marks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import App, Parameter
from rich.text import Text

from refbench.builders.filter_judge.training import Training
from refbench.cli.calibrate import BudgetText, MaxFailed, Timeout, check_share
from refbench.cli.options import Concurrency, Json, not_negative
from refbench.record import RefBenchError
from refbench.text.console import console
from refbench.text.tables import Grid

if TYPE_CHECKING:
    from refbench.builders.filter_judge.report import FilterReport

filter_command = App(
    name="filter",
    help="A filter judge of one's own: people's marks of references, split, calibrated, trained on and tested.",
    default_parameter=Parameter(negative=()),
)


@filter_command.command(name="data")
def data_command(
    marks: Annotated[Path, Parameter(help="CSV of people's marks: type, metric, rater, score, original, reference")],
    *,
    pictures: Annotated[Path, Parameter(help="Folder below which the pictures that the file names lie")],
    out: Annotated[Path, Parameter(help="Folder of the set")],
    made: Annotated[float, Parameter(help="Share of the training part that is made bad on purpose, 0 to 0.25")] = 0.2,
    seed: Annotated[int, Parameter(help="Another seed splits otherwise", validator=not_negative)] = 0,
    json: Json = False,
) -> int:
    """Split people's marks of references into training, calibration and test, without leaks"""
    from refbench.builders.filter_judge.dataset import write_set

    about = write_set(marks, pictures, out, made=made, seed=seed)
    if json:
        print(orjson.dumps(about).decode())
        return 0
    _print_set(about)
    print(f"\nNext: refbench calibrate {out} --judge SPEC --out judge/, or refbench filter train {out} --base DIR ...")
    return 0


@filter_command.command(name="train")
def train_command(settings: Annotated[Training, Parameter(name="*")], *, json: Json = False) -> int:
    """Train a small vision-language model on the marks, resumably (extra train)"""
    from refbench.builders.filter_judge.training import train

    about = train(settings, lambda line: print(line, file=sys.stderr, flush=True))
    assert about is not None
    if json:
        print(orjson.dumps(about.model_dump(mode="json")).decode())
        return 0
    out = settings.out
    errors = ", ".join(f"{error:.3f}" for error in about.errors)
    print(f"MAE on {about.held_out} samples held out of the training part, by epoch: {errors}")
    print(f"epoch {about.chosen_epoch} is kept: {out}" + (f", and merged: {out / 'merged'}" if settings.merge else ""))
    print(f"\nNext: refbench calibrate {settings.dataset} --judge local:{out} --out judge/")
    return 0


@filter_command.command(name="test")
def test_command(
    dataset: Annotated[Path, Parameter(help="Folder that refbench filter data has written")],
    *judges: Annotated[str, Parameter(help="Judges: folders of refbench calibrate, openai:MODEL, local:REPOSITORY")],
    out: Annotated[Path, Parameter(help="Folder for the report and the replies; the same command resumes it")],
    budget: BudgetText = None,
    concurrency: Concurrency = 32,
    timeout: Timeout = 180.0,
    max_failed: MaxFailed = 0.1,
    json: Json = False,
) -> int:
    """Say what judges are worth on the test part: beside people, beside a constant, and as gates"""
    from refbench.builders.filter_judge.asking import Asking
    from refbench.builders.filter_judge.dataset import FilterSet
    from refbench.builders.filter_judge.report import judged_csv, judges_tested
    from refbench.builders.kit.folder import as_json, put_file

    if not judges:
        raise RefBenchError("name at least one judge: refbench filter test set/ openai:MODEL --out report/")
    check_share(max_failed)
    asking = Asking(budget, concurrency, timeout)
    report, judged = asyncio.run(
        judges_tested(dataset, judges, out, asking, lambda line: print(line, file=sys.stderr, flush=True))
    )
    put_file(out / "report.json", as_json(report.model_dump(mode="json")))
    put_file(out / "marks.csv", judged_csv(FilterSet(dataset), judged).encode())
    if json:
        print(orjson.dumps(report.model_dump(mode="json")).decode())
    else:
        _print_report(report)
        print(f"\nAll numbers: {out / 'report.json'}; marks for refbench agree: {out / 'marks.csv'}")
    for name, failed in report.failed.items():
        if failed:
            print(f"{name}: {failed} references without a mark, which count as not kept", file=sys.stderr)
    if any(one.stopped for one in judged):
        print("Exit code 3: the budget is spent. The same command with a larger --budget goes on.", file=sys.stderr)
        return 3
    return int(any(one.failed_share > max_failed for one in judged))


def _print_report(report: FilterReport) -> None:
    out = console()
    grid = Grid("type", names=3)
    grid.add_column("axis")
    grid.add_column("judge")
    for column in ("n", "Pearson", "Spearman", "QWK", "MAE", "95 %", "p to constant"):
        grid.add_column(column, justify="right")
    for row in report.agreement:
        figures = (row.pearson, row.spearman, row.qwk, row.mae)
        ends = "-" if row.mae.interval is None else "{:.2f} to {:.2f}".format(*row.mae.interval)
        p = "-" if row.p_constant is None else "<0.001" if row.p_constant < 0.001 else f"{row.p_constant:.3f}"
        cells = (str(row.n), *(_number(figure.value, 3) for figure in figures), ends, p)
        grid.add_row(row.type, row.axis, Text(row.judge), *cells)
    out.print(grid)
    gates = Grid("type", names=3)
    gates.add_column("judge")
    gates.add_column("at")
    for column in ("n", "good", "kept", "dropped", "people", "precision", "at least", "recall", "AUC"):
        gates.add_column(column, justify="right")
    for one in report.gates:
        counts = (one.n, one.good, one.kept, one.dropped, one.to_people)
        shares = (one.precision, one.precision_bound, one.recall, one.auc)
        gates.add_row(one.type, Text(one.judge), one.at, *map(str, counts), *(_number(share, 3) for share in shares))
    out.print()
    out.print(gates)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _print_set(about: Mapping[str, Any]) -> None:
    out = console()
    parts = about["references"]
    grid = Grid()
    grid.add_column("type")
    for part in parts:
        grid.add_column(part, justify="right")
    for kind in sorted({kind for of_part in parts.values() for kind in of_part}):
        grid.add_row(kind, *(f"{of_part.get(kind, 0):,}" for of_part in parts.values()))
    grid.add_row("all", *(f"{sum(of_part.values()):,}" for of_part in parts.values()))
    out.print(f"{about['marks']:,} marks by {about['raters']} raters on references of {about['originals']:,} originals")
    out.print(grid)
    levels = ", ".join(f"{level}: {n:,}" for level, n in about["levels"].items())
    out.print(f"marks: {levels}", highlight=False)
    if about["made"]:
        made = ", ".join(f"{n:,} {way}" for way, n in about["made"].items())
        out.print(f"made bad, for training alone: {made}", highlight=False)
    for line in about["left_out"]:
        out.print(line, highlight=False, markup=False)
