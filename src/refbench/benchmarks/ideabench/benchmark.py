"""IDEA-Bench as RefBench runs it: the parts of this package put together."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from refbench.benchmarks.ideabench import table as aggregate
from refbench.benchmarks.ideabench.anomalies import KINDS, anomalies
from refbench.benchmarks.ideabench.cases import CATEGORIES, PARTS, SUBSETS, IdeaCase, is_checkout, load
from refbench.benchmarks.ideabench.imports import import_replies
from refbench.benchmarks.ideabench.judge import SETTINGS, judging
from refbench.benchmarks.ideabench.table import (
    FAILURE_RATE,
    SCORE,
    derived,
    not_applicable,
    notes,
    published,
    read_scores,
)
from refbench.benchmarks.kit.benchmark import Benchmark, Protocol, Question
from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.published import read_faults


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many tasks, cases and questions there are, by category, for judges and for people."""
    cases = dataset.cases
    by = {
        "tasks": Counter(category for category, _ in {(c.groups["category"], c.groups["task"]) for c in cases}),
        "cases": Counter(case.groups["category"] for case in cases),
        "cases for a judge": Counter(case.groups["category"] for case in cases if case.details.judged),
    }
    found: dict[str, Any] = {
        what: {category: counts[category] for category in CATEGORIES if counts[category]} for what, counts in by.items()
    }
    found["questions"] = {
        "for a judge": sum(len(case.details.auto) for case in cases),
        "for people": sum(len(case.details.human) for case in cases),
    }
    return found


def output_names(case: IdeaCase) -> list[str]:
    """The release wants `<case>/0001.jpg`, `0002.jpg`, ...: the folder, numbers are put behind it."""
    return [case.id]


GATES = (None, None, "questions 1 and 2 earned", "questions 1 and 2 earned", *["questions 1 to 4 earned"] * 2)
"""What must hold, in the same call, for each of the six questions to count."""


def questions(case: IdeaCase) -> list[Question]:
    """The six questions in each of the three calls: a call has its own gates, so each answer stands for itself."""
    if not case.details.judged:
        return []
    return [
        Question(name, case.details.auto[number - 1].text, "1", gate=GATES[number - 1])
        for name, (number, _) in PARTS.items()
    ]


BENCHMARK = Benchmark(
    name="ideabench",
    title="IDEA-Bench",
    paper="arXiv 2412.11767",
    case_type=IdeaCase,
    is_checkout=is_checkout,
    layout="no case folder (poster_generation_0001, ...) with a meta.json is in it, in dataset/ or one folder below",
    load=load,
    subsets=SUBSETS,
    anomalies=anomalies,
    anomaly_kinds=KINDS,
    parts={**{name: (name,) for name in PARTS}, "derived": (FAILURE_RATE, SCORE)},
    protocols={
        "corrected": Protocol(
            name="corrected",
            read=partial(read_scores, protocol="corrected"),
            aggregate=aggregate.CORRECTED,
            versions={"reader": 1, "aggregate": 1},
        ),
        "paper": Protocol(
            name="paper",
            read=partial(read_scores, protocol="paper"),
            aggregate=aggregate.PAPER,
            versions={"reader": 1, "aggregate": 1},
        ),
    },
    import_replies=import_replies,
    published=published,
    describe=describe,
    judging=judging,
    settings=SETTINGS,
    derived=derived,
    not_applicable=not_applicable,
    notes=notes,
    output_names=output_names,
    questions=questions,
    faults=partial(read_faults, "refbench.benchmarks.ideabench"),
    lower=frozenset({FAILURE_RATE}),
)
