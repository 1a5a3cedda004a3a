"""IDEA-Bench as RefBench runs it: professional design, judged by six gated questions in three calls."""

from __future__ import annotations

from refbench.benchmarks.ideabench import anomalies, cases, judge, replies, table
from refbench.benchmarks.ideabench.cases import PARTS, IdeaCase
from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import Asking, Data, PaperFigure, Reporting, Setting, ShownQuestion, Source
from refbench.benchmarks.kit.hardening import hardenable
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.kit.wording import HARDEN, OFFICIAL

GATES = (None, None, "questions 1 and 2 earned", "questions 1 and 2 earned", *["questions 1 to 4 earned"] * 2)
"""What must hold, in the same call, for each of the six questions to count."""


def questions(case: IdeaCase) -> list[ShownQuestion]:
    """The six questions in each of the three calls: a call has its own gates, so each answer stands for itself."""
    if not case.details.judged:
        return []
    return [
        ShownQuestion(name, case.details.auto[number - 1].text, "1", gate=GATES[number - 1])
        for name, (number, _) in PARTS.items()
    ]


BENCHMARK = benchmark(
    name="ideabench",
    title="IDEA-Bench",
    paper="arXiv 2412.11767",
    data=Data(
        cases.load,
        IdeaCase,
        cases.data_root,
        layout="no case folder (poster_generation_0001, ...) with a meta.json is in it, in dataset/ or one folder "
        "below",
        landmark="task_split.json",
        subsets=cases.SUBSETS,
        anomalies=anomalies.anomalies,
        anomaly_kinds=anomalies.KINDS,
        describe=cases.describe,
        sources=(Source("ali-vilab/IDEA-Bench", code="ali-vilab/IDEA-Bench", licence="CC BY-NC 4.0"),),
    ),
    asking=Asking(
        parts={**{name: (name,) for name in PARTS}, "derived": (table.FAILURE_RATE, table.SCORE)},
        abilities={table.SCORE: "IA"},
        judging=hardenable(judge.judging),
        # The protocols show different pictures, so that no call serves both.
        settings=(
            Setting(
                "prompts",
                (judge.QUESTIONS, OFFICIAL),
                "The data's questions, or the release's whole request in paper",
                checkout="auto_eval.jsonl of the cases; official alone is the data's own checkout",
            ),
            Setting("ask", ("both", "corrected", "paper"), "Which protocol's calls to make"),
            HARDEN,
        ),
        not_applicable=table.not_applicable,
        import_replies=replies.import_replies,
        questions=questions,
    ),
    derived=table.derived,
    protocols={
        "corrected": Variant(
            read=lambda case, part, reply: {part: replies.read_corrected(reply)}, aggregate=table.CORRECTED
        ),
        "paper": Variant(
            read=lambda case, part, reply: {part: replies.read_paper(reply)},
            aggregate=table.PAPER,
            versions={"reader": 1, "aggregate": 2},
        ),
    },
    lower={table.FAILURE_RATE},
    reporting=Reporting(
        published=table.published,
        published_on={None: 51},
        notes=table.notes,
        faults=lambda: read_faults(__package__),
        failure_rates=table.failure_table,
        figures=(
            PaperFigure("categories", "the five categories", "radar", by=("category",)),
            PaperFigure("groups", "the groups of tasks", "rows", by=("group",)),
        ),
    ),
)
