"""Which outputs of a run an audit is made of: good ones, by somebody else's word than the audited judge's.

A damage shows on a good output only, and what is good by the judge's own first mark falls on mere asking again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.runs.run import fair_order
from refbench.tables.scoring import derived_of, run_result

TRUTH = "truth"
TOP = 1 / 3
"""The share of outputs that count as good."""


@dataclass(frozen=True)
class Anchors:
    """A good output for each of some cases, in the run's fair order, and by whose word."""

    by: str
    asked: Mapping[str, str]
    outputs: Mapping[str, tuple[str, tuple[Path, ...]]]
    """By case: whose it is, and its files."""


def anchors_of(
    run: Run, bench: Benchmark, cases: Sequence[AnyCase], root: Path | None, *, anchor: str | None, people: Path | None
) -> Anchors:
    """The outputs of a run that are good by people's word, by a judge's of the run, or golden ones (`truth`); by
    default the first of these that there is. `root` is where the cases' pictures lie."""
    by_id = {case.id: case for case in fair_order(cases)}
    judges = [] if people is not None or anchor == TRUTH else judges_of(run)
    if people is not None:
        return Anchors("people", {}, _best(run, by_id, _by_people(people)))
    if anchor is None and any(case.targets for case in cases) and root is not None:
        anchor = TRUTH
    if anchor == TRUTH:
        golden = {case.id: _golden(case, root) for case in by_id.values() if case.targets and root is not None}
        if not golden:
            raise RefBenchError(f"--anchor truth: the cases of {run.path} have no golden pictures")
        return Anchors(TRUTH, {}, {name: (TRUTH, paths) for name, paths in golden.items()})
    if not judges:
        raise RefBenchError(
            f"{run.path} has no marks that say which outputs are good, and no golden pictures: judge it with another "
            "judge than the audited one first, or give --people marks.csv"
        )
    judge = anchor or judges[0]
    if judge not in judges:
        raise RefBenchError(f"--anchor {judge}: the judges of {run.path} are {', '.join(judges)}")
    return Anchors(judge, asked_as(run, judge), _best(run, by_id, _by_judge(run, bench, cases, judge)))


def judges_of(run: Run) -> list[str]:
    """The judges of a run, also those whose replies were imported or who are functions."""
    noted = run.notes("family of ")
    return sorted(noted or {purpose.judge for purpose, act in run.evidence() if act.kind == "chat"})


def asked_as(run: Run, judge: str) -> dict[str, str]:
    """Kind and model that a judge of a run was."""
    for purpose, act in run.evidence():
        if purpose.judge == judge and act.asked is not None:
            return {"kind": str(act.asked["kind"]), "model": str(act.asked["model"])}
    return {}


def _golden(case: AnyCase, root: Path) -> tuple[Path, ...]:
    return tuple(root / picture.name for picture in case.targets[: case.request.n_pictures])


_Marks = Mapping[tuple[str, str], float]
"""By case and model."""


def _by_judge(run: Run, bench: Benchmark, cases: Sequence[AnyCase], judge: str) -> _Marks:
    result = run_result(run, bench, cases, derived=derived_of(run))
    rows = (row for row in result.items() if row["judge"] == judge and row["protocol"] == "corrected")
    return {(row["case"], row["model"]): row["total"] for row in rows if row["total"] is not None and row["seed"] == 0}


def _by_people(path: Path) -> _Marks:
    """The mean of what people said of an output, each measure on its own range."""
    from refbench.analysis.agree.people import read_people

    marks = [mark for mark in read_people(path).marks if mark.value is not None and not mark.item.seed]
    ends: dict[str, tuple[float, float]] = {}
    for mark in marks:
        low, high = ends.get(mark.item.metric, (math.inf, -math.inf))
        ends[mark.item.metric] = min(low, mark.value or 0.0), max(high, mark.value or 0.0)
    said: dict[tuple[str, str], list[float]] = {}
    for mark in marks:
        low, high = ends[mark.item.metric]
        share = ((mark.value or 0.0) - low) / (high - low) if high > low else 1.0
        said.setdefault((mark.item.case, mark.item.model), []).append(share)
    return {place: sum(values) / len(values) for place, values in said.items()}


def _best(run: Run, cases: Mapping[str, AnyCase], marks: _Marks) -> dict[str, tuple[str, tuple[Path, ...]]]:
    """Of each case the output with the best mark, where that is among the best third of all."""
    there = {
        (output.case, output.model): tuple(run.blobs.path(p.sha256, p.format) for p in output.pictures)
        for output in run.outputs()
        if output.step is None and output.seed == 0 and output.pictures
    }
    known = {place: mark for place, mark in marks.items() if place in there and place[0] in cases}
    if not known:
        raise RefBenchError(
            f"{run.path}: no output that it holds has a mark: an audit is made of outputs that are good"
        )
    bar = sorted(known.values(), reverse=True)[math.ceil(TOP * len(known)) - 1]
    best: dict[str, tuple[float, str]] = {}
    for (case, model), mark in sorted(known.items()):
        if mark >= bar and (case not in best or mark > best[case][0]):
            best[case] = mark, model
    return {case: (best[case][1], there[case, best[case][1]]) for case in cases if case in best}
