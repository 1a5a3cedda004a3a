"""MultiBanana as RefBench runs it: compose up to eight references; a judge marks five criteria."""

from __future__ import annotations

from functools import partial
from typing import Any

from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.dataset import Dataset, ordered_counts
from refbench.benchmarks.kit.definition import Asking, Condition, Data, Question, Reporting, Setting
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.multibanana.anomalies import KINDS, anomalies
from refbench.benchmarks.multibanana.cases import (
    CRITERIA,
    GROUPS,
    LABELS,
    PART,
    TAGS,
    TASKS,
    WEIGHTS,
    MultiBananaCase,
    is_checkout,
    load,
)
from refbench.benchmarks.multibanana.judge import judging
from refbench.benchmarks.multibanana.replies import import_replies, read_corrected, read_paper
from refbench.benchmarks.multibanana.table import AGGREGATE, published


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many sets there are, by task, group, number of references, tag and source."""
    cases = dataset.cases
    by = {name: [case.groups[name] for case in cases] for name in ("group", "task", "n_refs", "source")}
    return {
        "sets": {
            "group": ordered_counts(by["group"], GROUPS),
            "task": ordered_counts(by["task"], TASKS),
            "n_refs": ordered_counts(by["n_refs"]),
            "tag": ordered_counts((tag for case in cases for tag in case.tags), TAGS.values()),
            "source": ordered_counts(by["source"]),
        }
    }


def output_names(case: MultiBananaCase) -> list[str]:
    """Where the released scripts expect a model's picture: beside the references, or under the task's usual name."""
    details = case.details
    return [f"{details.task_dir}/{details.number}_generated", f"{case.groups['task']}/{details.number}_generated"]


def questions(case: MultiBananaCase) -> list[Question]:
    """The five criteria, each a mark from 1 to 10; the same for every set."""
    return [Question(criterion, LABELS[criterion], weight=WEIGHTS[criterion]) for criterion in CRITERIA]


BENCHMARK = benchmark(
    name="multibanana",
    title="MultiBanana",
    paper="arXiv 2511.22989",
    data=Data(
        load,
        MultiBananaCase,
        is_checkout,
        layout="no task directory (single, add, 3_back, ...) with a prompt file such as 006_prompt.txt is in it",
        landmark="from_where.csv",
        anomalies=anomalies,
        anomaly_kinds=KINDS,
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
