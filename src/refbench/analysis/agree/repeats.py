"""How steady a rater is: the same items rated several times, and the standard error of a model's mean over the repeats
(MultiBanana's Table 10); and how often a rater gave no answer (IDEA-Bench's Table 11)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from refbench.analysis.agree.ratings import MEASURED, Mark, RatedItem, Ratings, groups_of, marks_of
from refbench.benchmarks.kit.published import FailureRate, with_totals
from refbench.failure import CIRCUMSTANCES
from refbench.judges.panel import mean_of_judges, mean_of_repeats
from refbench.record import Record, RefBenchError
from refbench.runs import Run
from refbench.score import Score
from refbench.tables.result import Result
from refbench.tables.scoring import run_draws


class Steadiness(Record):
    """A model's mean by one rater, over repeats of the same items."""

    rater: str
    model: str
    metric: str
    group: str
    repeats: int
    n_items: int
    """Pictures that have a mark in every repeat."""
    mean: float
    standard_error: float
    """Standard deviation of the repeats' means over the square root of their number."""


def steadiness(ratings: Ratings, by: Sequence[str] = ()) -> list[Steadiness]:
    """Standard errors over repeats, for each rater, model, metric and group; pictures that lack a repeat stay out.

    Means are the table's: over cases, each the mean over its pictures.
    """
    marks: dict[tuple[str, str, str], dict[RatedItem, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    repeats: dict[str, dict[str, None]] = defaultdict(dict)
    for mark in ratings.marks:
        repeats[mark.rater][mark.repeat] = None
        if mark.value is not None:
            place = mark.rater, mark.item.model, mark.item.metric
            marks[place][mark.item][mark.repeat] = mark.value
    if not any(len(of_rater) > 1 for of_rater in repeats.values()):
        raise RefBenchError(
            "--repeats: nothing here was rated more than once; ask judges again with --repeats in refbench run, or "
            "give a column repeat or seed"
        )
    rows = []
    for (rater, model, metric), of_item in marks.items():
        names = list(repeats[rater])
        whole = {
            item: [marks_by_repeat[name] for name in names]
            for item, marks_by_repeat in of_item.items()
            if len(marks_by_repeat) == len(names)
        }
        for group, items in _grouped(ratings, list(whole), by):
            if len(names) < 2 or not items:
                continue
            of_case: dict[str, list[list[float]]] = defaultdict(list)
            for item in items:
                of_case[item.case].append(whole[item])
            means = np.mean([np.mean(marks_by_repeat, axis=0) for marks_by_repeat in of_case.values()], axis=0)
            rows.append(
                Steadiness(
                    rater=rater,
                    model=model,
                    metric=metric,
                    group=group,
                    repeats=len(names),
                    n_items=len(items),
                    mean=float(means.mean()),
                    standard_error=float(means.std(ddof=1) / len(names) ** 0.5),
                )
            )
    return rows


def _grouped(ratings: Ratings, items: Sequence[RatedItem], by: Sequence[str]) -> list[tuple[str, list[RatedItem]]]:
    groups = [("", list(items))]
    for name in by:
        values = sorted({value for item in items if (value := ratings.group(item.case, name)) is not None})
        groups += [(f"{name}={v}", [item for item in items if ratings.group(item.case, name) == v]) for v in values]
    return groups


def repeated_ratings(run: Path, result: Result, over: Literal["repeat", "seed"], protocol: str) -> Ratings:
    """What a run holds before its repeats (of the judge) or seeds (of the model) are averaged, as marks of pictures, or
    of cases where seeds are compared. What is measured has no repeats."""
    by_label: dict[int, list[Score]] = defaultdict(list)
    for score in run_draws(run, protocol=protocol):
        by_label[getattr(score, over)].append(score.model_copy(update={"repeat": 0}))
    marks: list[Mark] = []
    for label, scores in by_label.items():
        one = mean_of_repeats(scores)
        everyone = [*one, *mean_of_judges(one)] if result.bench.scoring.judges_mean else one
        for mark in marks_of(result.bench, protocol, everyone, result.cases, str(label)):
            if over == "seed":
                marks.append(mark._replace(item=mark.item._replace(seed=None)))
            elif mark.rater != MEASURED:
                marks.append(mark)
    return Ratings(marks=tuple(marks), groups=groups_of(result.cases), one_scale=True)


class RaterAnswer(NamedTuple):
    """One answer that a rater was asked for."""

    rater: str
    model: str
    given: bool | None
    """None while nobody can tell: not asked yet, or the endpoint could not be reached."""


def answers_of(run: Path, result: Result, protocol: str) -> Iterator[RaterAnswer]:
    """What the judges of a run were asked for: every metric of every picture and repeat, totals and measurements
    apart. Nobody is asked about a picture that is not there, or cannot be sent."""
    opened = Run.open(run)
    absent = {(o.case, o.model, o.seed) for o in opened.outputs() if o.step is None and o.failure is not None}
    asked: set[str] = set()
    unsent: set[tuple[str, str, int, str | None]] = set()
    for purpose, act in opened.evidence():
        if purpose.part == "*":
            unsent.add((purpose.case, purpose.model, purpose.seed, purpose.judge))
        elif act.kind != "measure":
            asked.update(result.bench.asking.parts.get(re.split("[/+]", purpose.part)[0], ()))
    for score in run_draws(run, protocol=protocol):
        picture = score.case, score.model, score.seed
        if score.judge is None or score.metric not in asked or score.not_applicable:
            continue
        if picture in absent or (*picture, score.judge) in unsent:
            continue
        undecided = score.not_asked or (score.failure is not None and score.failure.kind in CIRCUMSTANCES)
        yield RaterAnswer(score.judge, score.model, None if undecided else score.value is not None)


def failure_rates(answers: Iterable[RaterAnswer]) -> list[FailureRate]:
    """For each rater and model the answers that were asked for and those that are missing, and the rater's total."""
    counts: dict[str, dict[str, Counter[bool | None]]] = defaultdict(lambda: defaultdict(Counter))
    for answer in answers:
        counts[answer.rater][answer.model][answer.given] += 1
    return with_totals(
        [
            FailureRate(judge=rater, model=model, questions=n[True] + n[False], failed=n[False], open=n[None])
            for rater, by_model in counts.items()
            for model, n in by_model.items()
        ]
    )
