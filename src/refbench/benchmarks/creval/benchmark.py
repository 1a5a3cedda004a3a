"""CREval as RefBench runs it: creative edits, judged by yes/no questions on three metrics."""

from __future__ import annotations

from functools import partial

from refbench.benchmarks.creval import anomalies, cases, judge, replies, table
from refbench.benchmarks.creval.cases import METRICS, CREvalCase
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
            (replies.read_choice(question.reference) or question.reference).capitalize(),
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
        cases.load,
        CREvalCase,
        cases.is_checkout,
        layout="bench/instruction.json is not in it",
        landmark="bench/instruction.json",
        subsets={"paper874": "the 874 of 904 items that the paper's tables are about (inferred)"},
        anomalies=anomalies.anomalies,
        anomaly_kinds=anomalies.KINDS,
        describe=cases.describe,
    ),
    asking=Asking(
        parts={metric: (metric,) for metric in METRICS},
        judging=judge.judging,
        settings=(
            Setting("prompts", ("own", "official"), "Whose wording of the rubric"),
            Setting("questions", ("all", "one"), "All questions of a metric in a call, or one"),
            Setting("show_instruction", ("no", "yes"), "Show the judge the editing instruction"),
        ),
        import_replies=replies.import_replies,
        questions=questions,
    ),
    protocols={
        name: Variant(
            scores=partial(table.read_scores, fixes=fixes, protocol=name), aggregate=aggregate, versions=VERSIONS
        )
        for name, fixes, aggregate in (
            ("corrected", table.ALL_FIXES, table.CORRECTED),
            ("paper", table.NO_FIXES, table.PAPER),
        )
    },
    reporting=Reporting(
        published=table.published,
        published_on={"paper874": 874},
        released=table.released_scores,
        explain_changes=table.explain_changes,
        faults=lambda: read_faults(__package__),
        conditions=(Condition("VC", "IF", 80.0),),
    ),
)
