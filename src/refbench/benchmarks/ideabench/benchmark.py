"""IDEA-Bench as RefBench runs it: professional design, judged by six gated questions in three calls."""

from __future__ import annotations

from functools import partial

from refbench.benchmarks.ideabench.anomalies import KINDS, anomalies
from refbench.benchmarks.ideabench.cases import PARTS, SUBSETS, IdeaCase, describe, is_checkout, load
from refbench.benchmarks.ideabench.judge import judging
from refbench.benchmarks.ideabench.replies import import_replies, read_corrected, read_paper
from refbench.benchmarks.ideabench.table import (
    CORRECTED,
    FAILURE_RATE,
    PAPER,
    SCORE,
    derived,
    failure_table,
    not_applicable,
    notes,
    published,
)
from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import Asking, Data, Reporting, Setting, ShownQuestion
from refbench.benchmarks.kit.published import read_faults

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
        load,
        IdeaCase,
        is_checkout,
        layout="no case folder (poster_generation_0001, ...) with a meta.json is in it, in dataset/ or one folder "
        "below",
        landmark="task_split.json",
        subsets=SUBSETS,
        anomalies=anomalies,
        anomaly_kinds=KINDS,
        describe=describe,
    ),
    asking=Asking(
        parts={**{name: (name,) for name in PARTS}, "derived": (FAILURE_RATE, SCORE)},
        judging=judging,
        # The protocols show different pictures, so that no call serves both.
        settings=(Setting("ask", ("both", "corrected", "paper"), "Which protocol's calls to make"),),
        not_applicable=not_applicable,
        import_replies=import_replies,
        questions=questions,
    ),
    derived=derived,
    protocols={
        "corrected": Variant(read=lambda case, part, reply: {part: read_corrected(reply)}, aggregate=CORRECTED),
        "paper": Variant(read=lambda case, part, reply: {part: read_paper(reply)}, aggregate=PAPER),
    },
    lower={FAILURE_RATE},
    reporting=Reporting(
        published=published,
        notes=notes,
        faults=partial(read_faults, "refbench.benchmarks.ideabench"),
        failure_rates=failure_table,
    ),
)
