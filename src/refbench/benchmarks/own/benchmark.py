"""A benchmark made of a rubric, of metrics or of both: the user's cases, judged, measured and tabled like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from refbench.benchmarks.kit.aggregate import Total
from refbench.benchmarks.kit.asks import Call
from refbench.benchmarks.kit.constructor import benchmark
from refbench.benchmarks.kit.definition import Benchmark, Dataset, Derived, Measured, ShownQuestion, mean_over, numbered
from refbench.benchmarks.kit.hardening import hardenable
from refbench.benchmarks.kit.wording import HARDEN
from refbench.benchmarks.own.cases import OwnCase, load_cases
from refbench.benchmarks.own.judge import LABELS, check_questions, request
from refbench.benchmarks.own.replies import measures_in
from refbench.case import Picture
from refbench.judges import Rubric, Text, parse_rubric
from refbench.judges.panel import WEIGHING
from refbench.judges.rubric import RubricPart, load_rubric, shipped_rubrics
from refbench.metrics import Metric, find_metric
from refbench.record import RefBenchError
from refbench.score import Score

_REFERENCE = "reference"
_NO_REFERENCES = ("source", "mask")
"""Roles of pictures that a metric does not take for a reference."""


def own_benchmark(
    rubric_text: str | None, rubric_name: str = "", metrics: Mapping[str, int] | None = None
) -> Benchmark:
    """The benchmark `own` under a rubric; `rubric_name` is how errors call it (a path or a shipped name).

    `metrics` are measured beside the judge's marks, or, without a rubric, instead of them; as `own_metrics` gives them.
    """
    rubric = parse_rubric(rubric_text, rubric_name) if rubric_text is not None else None
    most = {find_metric(name): number for name, number in sorted((metrics or {}).items())}

    def load(path: Path) -> Dataset:
        dataset = load_cases(path)
        if rubric is not None:
            check_questions(rubric, dataset.cases)
        return dataset

    made = benchmark(
        name="own",
        title=rubric.title if rubric is not None else "Own cases without a rubric",
        load=load,
        measure=(lambda case: [one for one in measuring(case) if "#" not in one.part]) if most else None,
        measured={metric.id: metric.id for metric in most},
        not_applicable=lambda case: _not_applicable(most, case),
        case_type=OwnCase,
        layout="it holds no cases",
        **(_judged(rubric) if rubric is not None else {}),
    )

    def measuring(case: OwnCase) -> list[Measured]:
        return [
            Measured(numbered(metric.id, number), metric.id, pictures)
            for metric in most
            for number, pictures in enumerate(_ways(metric, case), 1)
        ]

    def derived(case: OwnCase, protocol: str, scores: Mapping[str, Score]) -> dict[str, Derived]:
        """A metric that compares with references has the mean over them, where there are several."""
        counts = {metric: len(_ways(metric, case)) for metric in most}
        return {metric.id: mean_over(scores, metric.id, count) for metric, count in counts.items() if count > 1}

    further = [numbered(metric.id, number) for metric, count in most.items() for number in range(2, count + 1)]
    plain = made.asking.judging
    asking = replace(
        made.asking,
        judging=None if plain is None else hardenable(plain, lambda settings: _users_words(rubric)),
        settings=(HARDEN,) if plain is not None else (),
        questions=lambda case: _questions(rubric, case) if rubric is not None else [],
        parts={**made.asking.parts, **{part: (part,) for part in further}},
        measured=made.asking.measured | set(further),
        measuring=measuring if most else None,
    )
    return replace(
        made,
        data=replace(made.data, is_checkout=Path.is_file),  # a folder holds pictures, not cases
        asking=asking,
        scoring=replace(made.scoring, derived=derived if further else None),
        code=rubric.sha256[:16] if rubric is not None else "",
    )


def own_metrics(names: Sequence[str], cases: Sequence[OwnCase]) -> dict[str, int]:
    """The metrics of these names, each with how often it is measured of an output at most: once for each reference."""
    counts = {}
    for name in names:
        metric = find_metric(name)
        most = max(len(_ways(metric, case)) for case in cases)
        if not most:
            needs = " and ".join(sorted(metric.needs()))
            raise RefBenchError(f"--metrics {name}: {metric.id} needs {needs}, and no case has that")
        counts[metric.id] = most
    return counts


def _ways(metric: Metric, case: OwnCase) -> list[dict[str, Picture]]:
    """What the metric is given: pictures by role, and each reference in turn; nothing where the case lacks one."""
    given: dict[str, Picture] = {}
    for name in metric.needs() - {_REFERENCE}:
        of_role = [picture for picture in case.request.pictures if picture.role == name]
        if len(of_role) != 1:
            return []
        given[name] = of_role[0]
    if _REFERENCE not in metric.needs():
        return [given]
    return [{**given, _REFERENCE: p} for p in case.request.pictures if p.role not in _NO_REFERENCES]


def _not_applicable(most: Mapping[Metric, int], case: OwnCase) -> dict[str, str]:
    away: dict[str, str] = {}
    for metric, count in most.items():
        there = len(_ways(metric, case))
        reason = f"it has {there} references" if there else f"it has no {' and '.join(sorted(metric.needs()))}"
        away |= {numbered(metric.id, number): reason for number in range(there + 1, count + 1)}
    return away


def _judged(rubric: Rubric) -> dict[str, Any]:
    """What a rubric gives to the benchmark: what is asked, how it is read, and the total."""
    weights = {measure: weight for part in rubric.parts for measure, weight in part.headline().items()}
    counted = weights if rubric.total in WEIGHING else {}
    return {
        "judge": [_call(rubric, part) for part in rubric.parts],
        "abilities": rubric.abilities,
        "total": Total(rule=rubric.total, over=tuple(weights), weights=counted, range=rubric.range),
        "recorded": {"rubric": rubric.name, "wording": rubric.sha256, "labels": LABELS},
    }


def _users_words(rubric: Rubric | None) -> str:
    """Why the sentence is not put before a rubric of the user's; empty for a shipped one."""
    if rubric is None or rubric.sha256 in {load_rubric(name).sha256 for name in shipped_rubrics()}:
        return ""
    return f"it goes with the shipped rubrics; write such a sentence into {rubric.name} itself"


def _call(rubric: Rubric, part: RubricPart) -> Call:
    return Call(
        part.name,
        part.measures(),
        lambda case, material: request(rubric, part, case, material),
        lambda case, reply: measures_in(rubric, case, part, reply),
    )


def _questions(rubric: Rubric, case: OwnCase) -> list[ShownQuestion]:
    """Each criterion in the rubric's words, and the case's own questions, which are right when answered yes."""
    questions = []
    for part in rubric.parts:
        questions += [
            ShownQuestion(criterion.name, criterion.description or criterion.label, weight=weight)
            for criterion, weight in zip(part.criteria, part.weights, strict=True)
            if not isinstance(criterion.kind, Text)
        ]
        questions += [ShownQuestion(part.questions, text, "Yes") for text in case.details.questions if part.questions]
    return questions
