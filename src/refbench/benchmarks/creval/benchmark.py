"""CREval as RefBench runs it: creative edits, judged by yes/no questions on three metrics."""

from __future__ import annotations

from functools import partial

from refbench.benchmarks.creval.anomalies import KINDS, anomalies
from refbench.benchmarks.creval.cases import METRICS, CREvalCase, describe, is_checkout, load
from refbench.benchmarks.creval.judge import judging
from refbench.benchmarks.creval.replies import import_replies, read_choice
from refbench.benchmarks.creval.table import (
    ALL_FIXES,
    CORRECTED,
    NO_FIXES,
    PAPER,
    explain_changes,
    published,
    read_scores,
    released_scores,
)
from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import Asking, Condition, Data, Reporting, Setting, ShownQuestion
from refbench.benchmarks.kit.published import read_faults

VERSIONS = {"reader": 1, "grading": 1, "aggregate": 1}


def questions(case: CREvalCase) -> list[ShownQuestion]:
    """The item's yes/no questions with reference and weight as `corrected` takes them."""
    return [
        ShownQuestion(
            metric,
            question.text,
            (read_choice(question.reference) or question.reference).capitalize(),
            question.written_weight or question.weight,
        )
        for metric in METRICS
        for question in case.details.questions[metric]
    ]


BENCHMARK = benchmark(
    name="creval",
    title="CREval",
    paper="arXiv 2603.26174",
    data=Data(
        load,
        CREvalCase,
        is_checkout,
        layout="bench/instruction.json is not in it",
        landmark="bench/instruction.json",
        subsets={"paper874": "the 874 of 904 items that the paper's tables are about (inferred)"},
        anomalies=anomalies,
        anomaly_kinds=KINDS,
        describe=describe,
    ),
    asking=Asking(
        parts={metric: (metric,) for metric in METRICS},
        judging=judging,
        settings=(
            Setting("prompts", ("own", "official"), "Whose wording of the rubric"),
            Setting("questions", ("all", "one"), "All questions of a metric in a call, or one"),
            Setting("show_instruction", ("no", "yes"), "Show the judge the editing instruction"),
        ),
        import_replies=import_replies,
        questions=questions,
    ),
    protocols={
        "corrected": Variant(
            scores=partial(read_scores, fixes=ALL_FIXES, protocol="corrected"), aggregate=CORRECTED, versions=VERSIONS
        ),
        "paper": Variant(
            scores=partial(read_scores, fixes=NO_FIXES, protocol="paper"), aggregate=PAPER, versions=VERSIONS
        ),
    },
    reporting=Reporting(
        published=published,
        published_on={"paper874": 874},
        released=released_scores,
        explain_changes=explain_changes,
        faults=partial(read_faults, "refbench.benchmarks.creval"),
        conditions=(Condition("VC", "IF", 80.0),),
    ),
)
