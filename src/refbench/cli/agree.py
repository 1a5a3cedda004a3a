"""`refbench agree`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json
from refbench.record import RefBenchError


def agree_command(
    *sources: Annotated[Path, Parameter(help="Run directories of one benchmark, or one CSV file of scores")],
    humans: Annotated[
        Path | None, Parameter(help="CSV of people's scores: case, model, metric, rater, score, or a column a rater")
    ] = None,
    human_raters: Annotated[
        str | None, Parameter(help="Raters of a CSV of scores who are people, as A,B; default: by their names")
    ] = None,
    judges: Annotated[str | None, Parameter(help="Only these judges, as A,B")] = None,
    level: Annotated[str, Parameter(help="What a point is: item, task, system, or several")] = "item,task,system",
    by: Annotated[str, Parameter(help="Also rows for each value of these groups of cases, as category,n_refs")] = "",
    task: Annotated[
        str | None, Parameter(help="The group that is a task at task level; default task, dimension")
    ] = None,
    scale: Annotated[
        str | None, Parameter(help="same, people's scale as 1-5, or theirs and the judges' as 1-5:1-10")
    ] = None,
    bins: Annotated[
        str | None, Parameter(help="Bins of plain kappa: how many, or edges as 2.5,3.5; default whole marks, else 5")
    ] = None,
    alpha: Annotated[
        Literal["nominal", "ordinal", "interval"], Parameter(help="Distance of Krippendorff's alpha")
    ] = "interval",
    icc: Annotated[
        Literal["1,1", "2,1", "3,1", "1,k", "2,k", "3,k"], Parameter(help="Which intraclass correlation")
    ] = "2,1",
    partitions: Annotated[
        int, Parameter(help="Mean figure over so many random parts of the cases, with Student's interval")
    ] = 0,
    repeats: Annotated[
        Literal["repeat", "seed"] | None, Parameter(help="Standard error of means over repeats of judges, or seeds")
    ] = None,
    failures: Annotated[bool, Parameter(help="Share of answers that each rater did not give")] = False,
    self_preference: Annotated[bool, Parameter(help="Does a judge favour models of its own family")] = False,
    family: Annotated[
        list[str] | None, Parameter(help="NAME=FAMILY of a judge or model; may be given several times")
    ] = None,
    protocol: Annotated[Literal["paper", "corrected"], Parameter(help="Which scores of a run")] = "corrected",
    draws: Annotated[int, Parameter(help="Bootstrap draws of the intervals; 0 for none")] = 1000,
    seed: Annotated[int | None, Parameter(help="Seed of the draws; default as for tables")] = None,
    json: Json = False,
    csv: Annotated[bool, Parameter(help="Print every row of agreement as CSV")] = False,
) -> int:
    """Say how far raters agree: judges with judges, judges with people, people with people."""
    if json and csv:
        raise RefBenchError("--json and --csv exclude each other: give one of them")
    if partitions == 1 or partitions < 0 or draws < 0:
        raise RefBenchError("--partitions takes two or more, --draws takes none or more")
    from refbench.analysis.agree.ratings import Scale
    from refbench.analysis.agree.rows import LEVELS, Question
    from refbench.analysis.agree.runs import agree
    from refbench.analysis.agree.self_preference import families_said
    from refbench.report.agreement import agreement_csv, print_agreement
    from refbench.stats.agreement import Forms
    from refbench.tables.table import SEED

    levels = tuple(name for name in LEVELS if name in _names(level))
    if len(levels) != len(_names(level)):
        raise RefBenchError(f"--level {level}: choose among {', '.join(LEVELS)}")
    found = agree(
        *sources,
        humans=humans,
        human_raters=None if human_raters is None else _names(human_raters),
        judges=None if judges is None else _names(judges),
        question=Question(
            levels=levels,
            by=[name for name in _names(by) if name != "metric"],
            task=task,
            scale=Scale.parse(scale),
            bins=bins,
            forms=Forms(alpha=alpha, icc=icc),
            draws=draws,
            seed=SEED if seed is None else seed,
            partitions=partitions,
        ),
        protocol=protocol,
        repeats=repeats,
        preference=self_preference,
        families=families_said(family or ()),
        failures=failures,
    )
    if json:
        said = found.model_dump(mode="json")
        said["rows"] = [row.flat() for row in found.rows]
        said["failures"] = [{**row.model_dump(), "rate": row.rate} for row in found.failures]
        print(orjson.dumps(said).decode())
    elif csv:
        print(agreement_csv(found), end="")
    else:
        print_agreement(found)
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
