"""CREval as RefBench runs it: the parts of this package put together."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from refbench.benchmarks.creval import table as aggregate
from refbench.benchmarks.creval.anomalies import KINDS, anomalies
from refbench.benchmarks.creval.cases import METRICS, CREvalCase, is_checkout, load
from refbench.benchmarks.creval.imports import import_replies
from refbench.benchmarks.creval.judge import SETTINGS, judging
from refbench.benchmarks.creval.replies import read_choice
from refbench.benchmarks.creval.table import (
    ALL_FIXES,
    NO_FIXES,
    explain_changes,
    published,
    read_scores,
    released_scores,
)
from refbench.benchmarks.kit.benchmark import Benchmark, Protocol, Question
from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.published import read_faults


def describe(dataset: Dataset) -> dict[str, Any]:
    """Questions for each metric: how many, per item, and by weight."""
    found: dict[str, Any] = {}
    for metric in METRICS:
        lists = [case.details.questions[metric] for case in dataset.cases]
        counts = [len(questions) for questions in lists]
        weights = Counter(question.weight for questions in lists for question in questions)
        found[metric] = {
            "questions": sum(counts),
            "per_item": [min(counts), max(counts)],
            "weights": {str(weight): n for weight, n in sorted(weights.items())},
        }
    return {"questions": found}


def questions(case: CREvalCase) -> list[Question]:
    """The item's yes/no questions with reference and weight as `corrected` takes them."""
    return [
        Question(
            metric,
            question.text,
            (read_choice(question.reference) or question.reference).capitalize(),
            question.written_weight or question.weight,
        )
        for metric in METRICS
        for question in case.details.questions[metric]
    ]


BENCHMARK = Benchmark(
    name="creval",
    title="CREval",
    paper="arXiv 2603.26174",
    case_type=CREvalCase,
    is_checkout=is_checkout,
    layout="bench/instruction.json is not in it",
    load=load,
    subsets={"paper874": "the 874 of 904 items that the paper's tables are about (inferred)"},
    anomalies=anomalies,
    anomaly_kinds=KINDS,
    parts={metric: (metric,) for metric in METRICS},
    protocols={
        "corrected": Protocol(
            name="corrected",
            read=partial(read_scores, fixes=ALL_FIXES, protocol="corrected"),
            aggregate=aggregate.CORRECTED,
            versions={"reader": 1, "grading": 1, "aggregate": 1},
        ),
        "paper": Protocol(
            name="paper",
            read=partial(read_scores, fixes=NO_FIXES, protocol="paper"),
            aggregate=aggregate.PAPER,
            versions={"reader": 1, "grading": 1, "aggregate": 1},
        ),
    },
    import_replies=import_replies,
    published=published,
    published_on={"paper874": 874},
    explain_changes=explain_changes,
    describe=describe,
    judging=judging,
    released=released_scores,
    settings=SETTINGS,
    questions=questions,
    faults=partial(read_faults, "refbench.benchmarks.creval"),
)
