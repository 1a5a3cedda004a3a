"""How steady a rater is: the same items rated several times, and the standard error of a model's mean over the repeats
(MultiBanana's Table 10); and how often a rater gave no answer (IDEA-Bench's Table 11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from refbench.analysis.ratings import Mark, Ratings, groups_of, marks_of
from refbench.benchmarks.ideabench.failures import TOTAL, FailureRate
from refbench.judges.panel import mean_of_judges, mean_of_repeats
from refbench.record import Record, RefBenchError
from refbench.result import Result
from refbench.score import Score
from refbench.scoring import run_draws


class Steadiness(Record):
    """A model's mean by one rater, over repeats of the same items."""

    rater: str
    model: str
    metric: str
    group: str
    repeats: int
    n_items: int
    """Items that have a mark in every repeat."""
    mean: float
    standard_error: float
    """Standard deviation of the repeats' means over the square root of their number."""


def steadiness(ratings: Ratings, by: Sequence[str] = ()) -> list[Steadiness]:
    """Standard errors over repeats, for each rater, model, metric and group; items that lack a repeat stay out."""
    marks: dict[tuple[str, str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    repeats: dict[str, dict[str, None]] = defaultdict(dict)
    for mark in ratings.marks:
        repeats[mark.rater][mark.repeat] = None
        if mark.value is not None:
            place = mark.rater, mark.item.model, mark.item.metric
            marks[place][mark.item.case][mark.repeat] = mark.value
    if not any(len(of_rater) > 1 for of_rater in repeats.values()):
        raise RefBenchError(
            "--repeats: nothing here was rated more than once; ask judges again with --repeats in refbench run, or "
            "give a column repeat or seed"
        )
    rows = []
    for (rater, model, metric), of_case in marks.items():
        names = list(repeats[rater])
        whole = {case: said for case, said in of_case.items() if len(said) == len(names)}
        for group, cases in _grouped(ratings, list(whole), by):
            if len(names) < 2 or not cases:
                continue
            means = np.array([np.mean([whole[case][name] for case in cases]) for name in names])
            rows.append(
                Steadiness(
                    rater=rater,
                    model=model,
                    metric=metric,
                    group=group,
                    repeats=len(names),
                    n_items=len(cases),
                    mean=float(means.mean()),
                    standard_error=float(means.std(ddof=1) / len(names) ** 0.5),
                )
            )
    return rows


def _grouped(ratings: Ratings, cases: Sequence[str], by: Sequence[str]) -> list[tuple[str, list[str]]]:
    found = [("", list(cases))]
    for name in by:
        values = sorted({value for case in cases if (value := ratings.group(case, name)) is not None})
        found += [(f"{name}={v}", [case for case in cases if ratings.group(case, name) == v]) for v in values]
    return found


def repeated_ratings(run: Path, result: Result, over: Literal["repeat", "seed"], protocol: str) -> Ratings:
    """What a run holds before its repeats (of the judge) or seeds (of the model) are averaged, as marks."""
    found: dict[int, list[Score]] = defaultdict(list)
    for score in run_draws(run, protocol=protocol):
        found[getattr(score, over)].append(score.model_copy(update={"seed": 0, "repeat": 0}))
    marks: list[Mark] = []
    for label, scores in found.items():
        one = mean_of_repeats(scores)  # over the other of the two: seeds within a repeat, repeats within a seed
        everyone = [*one, *mean_of_judges(one)] if result.bench.judges_mean else one
        marks += marks_of(result.bench, protocol, everyone, result.cases, str(label))
    return Ratings(marks=tuple(marks), groups=groups_of(result.cases), one_scale=True)


def failure_rates(ratings: Ratings) -> list[FailureRate]:
    """For each rater and model the marks that were expected and those that are missing, and the rater's total."""
    counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for mark in ratings.marks:
        place = counts[mark.rater][mark.item.model]
        place[0] += 1
        place[1] += mark.value is None
    rows = []
    for rater, by_model in counts.items():
        mine = [FailureRate(judge=rater, model=m, questions=n, failed=bad) for m, (n, bad) in by_model.items()]
        total = FailureRate(
            judge=rater, model=TOTAL, questions=sum(r.questions for r in mine), failed=sum(r.failed for r in mine)
        )
        rows += [*mine, total]
    return rows
