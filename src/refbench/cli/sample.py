"""`refbench sample`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import Json, not_negative
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from refbench.analysis.humans.sample import Drawn


def sample_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    for_humans: Annotated[int, Parameter(help="How many outputs people will rate")],
    out: Annotated[Path | None, Parameter(help="Write the list to this CSV file")] = None,
    replace: Annotated[
        bool, Parameter(help="Put the list in the place of another that has no marks yet", show_default=False)
    ] = False,
    model: Annotated[list[str] | None, Parameter(help="Only this model; may be given several times")] = None,
    aim: Annotated[
        Literal["gaps", "means"] | None,
        Parameter(
            help="gaps: all models on the same cases (of several models the default); means: outputs by themselves"
        ),
    ] = None,
    judge: Annotated[str | None, Parameter(help="Only by this judge's marks; by default by all")] = None,
    metric: Annotated[str | None, Parameter(help="Whose numbers are to be corrected; by default the table's")] = None,
    protocol: Annotated[Literal["paper", "corrected"], Parameter(help="Which scores of the run")] = "corrected",
    seed: Annotated[
        int | None, Parameter(help="Seed of the draw; default as for tables", validator=not_negative)
    ] = None,
    json: Json = False,
) -> int:
    """Choose which outputs people should rate, with the chance that each had of being chosen.

    More of those that the judge is less sure of: in the middle of its scale, or where judges, repeats or seeds differ.
    None is without a chance, and `refbench correct` weighs people's marks by it.
    """
    from refbench.analysis.humans.sample import SampleOptions, sample
    from refbench.analysis.humans.sampling import list_csv
    from refbench.tables.table import SEED

    if out is not None and out.suffix.lower() != ".csv":
        raise RefBenchError(f"--out {out}: the list is a CSV file, call it {out.with_suffix('.csv').name}")
    options = SampleOptions(
        outputs=for_humans,
        models=model or (),
        aim=aim,
        judge=judge,
        metric=metric,
        protocol=protocol,
        seed=SEED if seed is None else seed,
    )
    drawn = sample(run, options)
    there = out is not None and _written(out, list_csv(drawn.outputs).encode(), replace)
    if json:
        print(drawn.model_dump_json(indent=2))
    else:
        _print(drawn, run, out, there)
    return 0


def _written(out: Path, data: bytes, replace: bool) -> bool:
    """Write the list, never over people's marks; whether it was there already."""
    from refbench.analysis.humans.sampling import without_marks
    from refbench.cli.printing import is_there, write_file

    if is_there(out, data):
        return True
    if out.exists():
        if not without_marks(out):
            raise RefBenchError(
                f"--out {out}: the file is there and holds people's marks, or is no list of outputs; it stays as it "
                "is, give another name"
            )
        if not replace:
            raise RefBenchError(
                f"--out {out}: another list is there, without marks; give another name, or --replace to lose it"
            )
    write_file(out, data, quiet=True)
    return False


def _print(drawn: Drawn, run: Path, out: Path | None, there: bool) -> None:
    from rich.text import Text

    from refbench.text.console import console
    from refbench.text.tables import Grid

    screen = console()
    what = f"{counted(len(drawn.outputs), 'output')} of {counted(drawn.n_cases, 'case')}"
    together = ", all models on the same cases" if drawn.aim == "gaps" else ""
    screen.print(Text.assemble((drawn.title, "bold"), f": {what} for people to rate{together}, for {drawn.metric}"))
    if drawn.of:
        screen.print(Text(f"More of what the judge is less sure of, by {', '.join(drawn.of)}."))
    grid = Grid()
    unit = "cases" if drawn.aim == "gaps" else "outputs"
    grid.add_column("stratum")
    for title in (unit, "drawn", "chance of each", "uncertainty"):
        grid.add_column(title, justify="right")
    for stratum in drawn.strata:
        cells = [stratum.name, f"{stratum.n}", f"{stratum.drawn}", f"{stratum.probability:.3f}"]
        grid.add_row(*(Text(cell) for cell in [*cells, f"{stratum.uncertainty:.2f}"]))
    screen.print(grid)
    for note in drawn.notes:
        screen.print(Text(f"Note: {note}."))
    if out is None:
        screen.print(Text("Give --out items.csv to write the list."))
        return
    said = "The list was there already:" if there else "The list is"
    order = "in the random order to show it in; keep its columns, add score and rater:"
    screen.print(Text(f"{said} {out}, {order}"))
    screen.print(Text(f"  refbench correct {run} --humans {out}"), soft_wrap=True)
