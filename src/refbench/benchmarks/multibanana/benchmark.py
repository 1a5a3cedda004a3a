"""MultiBanana as RefBench runs it: compose up to eight references; a judge marks five criteria."""

from __future__ import annotations

from functools import partial

from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import Asking, Condition, Data, Reporting, Setting, ShownQuestion
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.multibanana.anomalies import KINDS, anomalies
from refbench.benchmarks.multibanana.cases import (
    CRITERIA,
    LABELS,
    PART,
    WEIGHTS,
    MultiBananaCase,
    describe,
    is_checkout,
    load,
    output_names,
)
from refbench.benchmarks.multibanana.judge import judging
from refbench.benchmarks.multibanana.replies import import_replies, read_corrected, read_paper
from refbench.benchmarks.multibanana.table import AGGREGATE, published


def questions(case: MultiBananaCase) -> list[ShownQuestion]:
    """The five criteria, each a mark from 1 to 10; the same for every set."""
    return [ShownQuestion(criterion, LABELS[criterion], weight=WEIGHTS[criterion]) for criterion in CRITERIA]


BENCHMARK = benchmark(
    name="multibanana",
    title="MultiBanana",
    paper="arXiv 2511.22989",
    data=Data(
        load,
        MultiBananaCase,
        is_checkout,
        landmark="from_where.csv",
        anomalies=anomalies,
        anomaly_kinds=KINDS,
        layout="no task directory (single, add, 3_back, ...) with a prompt file such as 006_prompt.txt is in it",
        describe=describe,
        output_names=output_names,
    ),
    asking=Asking(
        parts={PART: CRITERIA},
        judging=judging,
        settings=(Setting("prompts", ("own",), "Whose wording of the rubric", folder=True),),
        import_replies=import_replies,
        questions=questions,
    ),
    protocols={
        "corrected": Variant(read=lambda case, part, reply: read_corrected(reply), aggregate=AGGREGATE),
        "paper": Variant(read=lambda case, part, reply: read_paper(reply), aggregate=AGGREGATE),
    },
    judges_mean=True,
    reporting=Reporting(
        published=published,
        published_on={None: 3769},
        faults=partial(read_faults, "refbench.benchmarks.multibanana"),
        conditions=(Condition("reference_consistency", "instruction_alignment", 7.0),),
    ),
)
