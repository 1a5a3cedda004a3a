"""MultiBanana as RefBench runs it: compose up to eight references; a judge marks five criteria."""

from __future__ import annotations

from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import Asking, Condition, Data, Reporting, Setting, ShownQuestion
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.multibanana import anomalies, cases, judge, replies, table
from refbench.benchmarks.multibanana.cases import CRITERIA, LABELS, PART, WEIGHTS, MultiBananaCase


def questions(case: MultiBananaCase) -> list[ShownQuestion]:
    """The five criteria, each a mark from 1 to 10; the same for every set."""
    return [ShownQuestion(criterion, LABELS[criterion], weight=WEIGHTS[criterion]) for criterion in CRITERIA]


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
    ),
    asking=Asking(
        parts={PART: CRITERIA},
        judging=judge.judging,
        settings=(Setting("prompts", ("own",), "Whose wording of the rubric", folder=True),),
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
    ),
)
