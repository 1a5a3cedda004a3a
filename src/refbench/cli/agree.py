"""`refbench agree`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json, not_negative
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.analysis.agree.runs import Agreement


Humans = Annotated[
    Path | None, Parameter(help="CSV of people's scores: case, model, metric, rater, score, or a column a rater")
]
HumanRaters = Annotated[
    str | None, Parameter(help="Raters of a CSV of scores who are people, as A,B; default: by their names")
]
By = Annotated[str, Parameter(help="Also rows for each value of these groups of cases, as category,n_refs")]
Task = Annotated[str | None, Parameter(help="The group that is a task at task level; default task, dimension")]
ScaleText = Annotated[str | None, Parameter(help="same, people's scale as 1-5, or theirs and the judges' as 1-5:1-10")]
BinsText = Annotated[
    str | None, Parameter(help="Bins of plain kappa: how many, or edges as 2.5,3.5; default whole marks, else 5")
]
Alpha = Annotated[Literal["nominal", "ordinal", "interval"], Parameter(help="Distance of Krippendorff's alpha")]
Icc = Annotated[Literal["1,1", "2,1", "3,1", "1,k", "2,k", "3,k"], Parameter(help="Which intraclass correlation")]
Partitions = Annotated[
    int, Parameter(help="Mean figure over so many random parts of the cases, with Student's interval")
]
Repeats = Annotated[
    Literal["repeat", "seed"] | None, Parameter(help="Standard error of means over repeats of judges, or seeds")
]
Family = Annotated[list[str] | None, Parameter(help="NAME=FAMILY of a judge or model; may be given several times")]


def agree_command(
    *sources: Annotated[Path, Parameter(help="Run directories of one benchmark, or one CSV file of scores")],
    humans: Humans = None,
    human_raters: HumanRaters = None,
    judges: Annotated[str | None, Parameter(help="Only these judges, as A,B")] = None,
    level: Annotated[str, Parameter(help="What a point is: item, task, system, or several")] = "item,task,system",
    by: By = "",
    task: Task = None,
    scale: ScaleText = None,
    bins: BinsText = None,
    alpha: Alpha = "interval",
    icc: Icc = "2,1",
    partitions: Partitions = 0,
    repeats: Repeats = None,
    failures: Annotated[bool, Parameter(help="Share of answers that each rater did not give")] = False,
    self_preference: Annotated[bool, Parameter(help="Does a judge favour models of its own family")] = False,
    family: Family = None,
    protocol: Annotated[Literal["paper", "corrected"], Parameter(help="Which scores of a run")] = "corrected",
    draws: Annotated[int, Parameter(help="Bootstrap draws of the intervals; 0 for none")] = 1000,
    seed: Annotated[
        int | None, Parameter(help="Seed of the draws; default as for tables", validator=not_negative)
    ] = None,
    json: Json = False,
    csv: Annotated[bool, Parameter(help="Print every row of agreement as CSV")] = False,
) -> int:
    """Say how far raters agree: judges with judges, judges with people, people with people."""
    if json and csv:
        raise RefBenchError("--json and --csv exclude each other: give one of them")
    if partitions == 1 or partitions < 0 or draws < 0:
        raise RefBenchError("--partitions takes two or more, --draws takes none or more")
    from refbench.analysis.agree.ratings import RaterScales
    from refbench.analysis.agree.rows import LEVELS, AgreeOptions
    from refbench.analysis.agree.runs import agree
    from refbench.analysis.agree.self_preference import families_said
    from refbench.stats.agreement import Forms
    from refbench.tables.table import SEED

    levels = tuple(name for name in LEVELS if name in _names(level))
    if len(levels) != len(_names(level)):
        raise RefBenchError(f"--level {level}: choose among {', '.join(LEVELS)}")
    options = AgreeOptions(
        levels=levels,
        by=[name for name in _names(by) if name != "metric"],
        task=task,
        scale=RaterScales.parse(scale),
        bins=bins,
        forms=Forms(alpha=alpha, icc=icc),
        draws=draws,
        seed=SEED if seed is None else seed,
        partitions=partitions,
        judges=_names(judges or ""),
        repeats=repeats,
        failures=failures,
        self_preference=self_preference,
        families=families_said(family or ()),
    )
    people = None if human_raters is None else _names(human_raters)
    agreement = agree(*sources, humans=humans, human_raters=people, protocol=protocol, options=options)
    _show(agreement, json=json, csv=csv)
    return 0


def _show(found: Agreement, *, json: bool, csv: bool) -> None:
    from refbench.report.agreement import agreement_csv, print_agreement

    if json:
        data = found.model_dump(mode="json")
        data["rows"] = [row.flat() for row in found.rows]
        data["failures"] = [{**row.model_dump(), "rate": row.rate} for row in found.failures]
        print(orjson.dumps(data).decode())
    elif csv:
        print(agreement_csv(found), end="")
    else:
        print_agreement(found)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
