"""ICE-Bench as RefBench runs it: 31 tasks, eleven metrics and a question to a judge."""

from __future__ import annotations

from refbench.benchmarks.icebench import anomalies, cases, judge, measures, replies, table
from refbench.benchmarks.icebench.cases import ICECase
from refbench.benchmarks.icebench.tasks import DIMENSIONS, PARTS, QA
from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import Asking, Data, PaperFigure, Reporting, Setting, ShownQuestion, Source
from refbench.benchmarks.kit.hardening import hardenable
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.kit.wording import HARDEN

_ASKED = "Is the edit the one that was asked for, with nothing else changed that nobody asked for?"


def questions(case: ICECase) -> list[ShownQuestion]:
    """The judge's one question, where the task has one."""
    return [] if QA in cases.not_applicable(case) else [ShownQuestion(QA, _ASKED, "1")]


BENCHMARK = benchmark(
    name="icebench",
    title="ICE-Bench",
    paper="arXiv 2503.14482",
    data=Data(
        cases.load,
        ICECase,
        cases.data_root,
        describe=cases.describe,
        output_names=cases.output_names,
        layout=cases.LAYOUT,
        landmark="data.jsonl",
        anomalies=anomalies.anomalies,
        anomaly_kinds=anomalies.KINDS,
        sources=(Source("ali-vilab/ICE-Bench", code="ali-vilab/ICE-Bench", leave=("models*",), unpack=True),),
    ),
    asking=Asking(
        parts={part: (part,) for part in PARTS},
        abilities={QA: "IA"},
        judging=hardenable(judge.judging),
        settings=(
            Setting(
                "prompts",
                ("own",),
                "Whose wording of the question",
                folder="plain.txt, mask.txt, reference.txt and mask_reference.txt",
                checkout="evaluators/vllm.py of the authors' code",
            ),
            HARDEN,
        ),
        not_applicable=cases.not_applicable,
        measuring=measures.measuring,
        measured=frozenset(part for part in PARTS if part != QA),
        import_replies=replies.import_replies,
        questions=questions,
    ),
    protocols={
        "corrected": Variant(
            read=lambda case, part, reply: {part: replies.read_corrected(reply)},
            aggregate=table.CORRECTED,
            formulas=table.FORMULAS["corrected"],
        ),
        "paper": Variant(
            read=lambda case, part, reply: {part: replies.read_paper(reply)},
            aggregate=table.PAPER,
            formulas=table.FORMULAS["paper"],
        ),
    },
    lower={"l1_raw", "lpips_src@lpips_alex"},
    reporting=Reporting(
        published=table.published,
        published_on={None: 6538},
        notes=table.notes,
        faults=lambda: read_faults(__package__),
        figures=(
            PaperFigure("dimensions", "the six dimensions, over all tasks", "radar", measures=DIMENSIONS),
            PaperFigure("tasks", "a row for each of the 31 tasks", "rows", by=("task",)),
        ),
    ),
)
