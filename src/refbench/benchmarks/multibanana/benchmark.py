"""MultiBanana as RefBench runs it: compose up to eight references; a judge marks five criteria."""

from __future__ import annotations

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
from refbench.benchmarks.kit.wording import ASK, HARDEN
from refbench.benchmarks.multibanana import anomalies, cases, judge, replies, table
from refbench.benchmarks.multibanana.cases import CRITERIA, LABELS, PART, WEIGHTS, MultiBananaCase


def questions(case: MultiBananaCase) -> list[ShownQuestion]:
    """The five criteria, each a mark from 1 to 10; the same for every set."""
    return [ShownQuestion(criterion, LABELS[criterion], weight=WEIGHTS[criterion]) for criterion in CRITERIA]


FIGURES = (
    PaperFigure("groups", "the columns of Table 3, side by side", "bars", by=("group",)),
    PaperFigure("by-references", "each criterion by number of references", "bars", by=("n_refs",),
                measures=(*CRITERIA, "total"), paper="Figures 5 and 15 to 17"),
    PaperFigure("by-tag", "each criterion on the sets with and without each tag", "bars", by=("tag",),
                measures=(*CRITERIA, "total"), paper="Figures 7 and 19"),
    PaperFigure("by-source", "real and generated references, GPT-Image-1 and Nano Banana kept apart", "bars",
                by=("source", "generator"), paper="Figure 12", interval=99),
)  # fmt: skip
"""The paper's figures that a table has the numbers of."""

BENCHMARK = benchmark(
    name="multibanana",
    title="MultiBanana",
    paper="arXiv 2511.22989",
    data=Data(
        cases.load,
        MultiBananaCase,
        cases.data_root,
        landmark="from_where.csv",
        anomalies=anomalies.anomalies,
        anomaly_kinds=anomalies.KINDS,
        layout="no task directory (single, add, 3_back, ...) with a prompt file such as 006_prompt.txt is in it",
        describe=cases.describe,
        output_names=cases.output_names,
        output_extensions=cases.EXTENSIONS,
        sources=(Source("kohsei/MultiBanana-Benchmark", code="matsuolab/multibanana", licence="CC BY-NC 4.0"),),
    ),
    asking=Asking(
        parts={PART: CRITERIA},
        abilities=dict(zip(CRITERIA, ("IA", "RC", "BM", "PR", "VQ"), strict=True)),
        judging=hardenable(judge.judging),
        settings=(
            Setting(
                "prompts",
                ("own",),
                "Whose wording of the rubric",
                folder="a.txt, b.txt and c.txt",
                checkout="judge.py and qwenvl_judge.py of the authors' code",
            ),
            ASK,
            HARDEN,
        ),
        import_replies=replies.import_replies,
        questions=questions,
    ),
    protocols={
        "corrected": Variant(read=lambda case, part, reply: replies.read_corrected(reply), aggregate=table.AGGREGATE),
        "paper": Variant(read=lambda case, part, reply: replies.read_paper(reply), aggregate=table.AGGREGATE),
    },
    judges_mean=True,
    reporting=Reporting(
        published=table.published,
        published_on={None: 3769},
        faults=lambda: read_faults(__package__),
        conditions=(Condition("reference_consistency", "instruction_alignment", 7.0),),
        figures=FIGURES,
    ),
)
