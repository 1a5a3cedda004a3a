"""ICE-Bench as RefBench runs it: 31 tasks, eleven metrics and a question to a judge."""

from __future__ import annotations

from functools import partial

from refbench.benchmarks.icebench.anomalies import KINDS, anomalies
from refbench.benchmarks.icebench.cases import ICECase, describe, is_checkout, load, not_applicable, output_names
from refbench.benchmarks.icebench.judge import judging
from refbench.benchmarks.icebench.measures import measuring
from refbench.benchmarks.icebench.replies import import_replies, read_corrected, read_paper
from refbench.benchmarks.icebench.table import CORRECTED, PAPER, published
from refbench.benchmarks.icebench.tasks import PARTS, QA
from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import Asking, Data, Reporting, Setting, ShownQuestion
from refbench.benchmarks.kit.published import read_faults

_ASKED = "Is the edit the one that was asked for, with nothing else changed that nobody asked for?"


def questions(case: ICECase) -> list[ShownQuestion]:
    """The judge's one question, where the task has one."""
    return [] if QA in not_applicable(case) else [ShownQuestion(QA, _ASKED, "1")]


BENCHMARK = benchmark(
    name="icebench",
    title="ICE-Bench",
    paper="arXiv 2503.14482",
    data=Data(
        load,
        ICECase,
        is_checkout,
        describe=describe,
        output_names=output_names,
        layout="data.jsonl is not in it, nor in a folder dataset or data inside",
        landmark="data.jsonl",
        anomalies=anomalies,
        anomaly_kinds=KINDS,
    ),
    asking=Asking(
        parts={part: (part,) for part in PARTS},
        judging=judging,
        settings=(Setting("prompts", ("own",), "Whose wording of the question", folder=True),),
        not_applicable=not_applicable,
        measuring=measuring,
        measured=frozenset(part for part in PARTS if part != QA),
        import_replies=import_replies,
        questions=questions,
    ),
    protocols={
        "corrected": Variant(read=lambda case, part, reply: {part: read_corrected(reply)}, aggregate=CORRECTED),
        "paper": Variant(read=lambda case, part, reply: {part: read_paper(reply)}, aggregate=PAPER),
    },
    lower={"l1_raw", "lpips_src@lpips_alex"},
    reporting=Reporting(
        published=published,
        published_on={None: 6538},
        faults=partial(read_faults, "refbench.benchmarks.icebench"),
    ),
)
