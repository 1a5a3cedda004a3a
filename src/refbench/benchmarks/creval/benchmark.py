"""CREval as RefBench runs it: creative edits, judged by yes/no questions on three metrics."""

from __future__ import annotations

from functools import partial

from refbench.benchmarks.creval import anomalies, cases, judge, replies, table
from refbench.benchmarks.creval.cases import METRICS, CREvalCase
from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import (
    Asking,
    Condition,
    Data,
    PaperFigure,
    Reporting,
    Setting,
    ShownQuestion,
    Source,
)
from refbench.benchmarks.kit.hardening import hardenable
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.kit.wording import ASK, HARDEN, OFFICIAL

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
        cases.data_root,
        layout="neither bench/instruction.json nor CREval-Bench/instruction.json is in it",
        landmark="bench/instruction.json",
        subsets={"paper874": "the 874 of 904 items that the paper's tables are about (inferred)"},
        anomalies=anomalies.anomalies,
        anomaly_kinds=anomalies.KINDS,
        describe=cases.describe,
        output_extensions=(".jpeg", ".png", ".gif", ".bmp", ".jpg", ".webp"),
        sources=(Source("ChonghuinanWang/CREval", code="ChonghuinanWang/CREval"),),
    ),
    asking=Asking(
        parts={metric: (metric,) for metric in METRICS},
        abilities={"IF": "IA", "VC": "RC", "VQ": "VQ"},
        judging=hardenable(judge.judging),
        settings=(
            Setting(
                "prompts",
                ("own", OFFICIAL),
                "Whose wording of the rubric",
                folder="system.txt and answer.txt",
                checkout="code/answer_with_gpt4o.py and its template; official alone is the data's own checkout",
            ),
            ASK,
            Setting("questions", ("all", "one"), "All questions of a metric in a call, or one"),
            Setting("show_instruction", ("no", "yes"), "Show the judge the editing instruction"),
            HARDEN,
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
        figures=(
            PaperFigure(
                "dimensions", "the nine dimensions in each metric", "radar", by=("dimension",), measures=METRICS
            ),
            PaperFigure(
                "categories",
                "the three categories in each metric and the average",
                "bars",
                by=("category",),
                measures=(*METRICS, "avg"),
            ),
        ),
    ),
)
