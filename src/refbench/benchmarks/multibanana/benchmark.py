"""MultiBanana as RefBench runs it: compose up to eight references; a judge marks five criteria."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.dataset import Dataset
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
from refbench.benchmarks.multibanana.imports import import_replies
from refbench.benchmarks.multibanana.judge import judging
from refbench.benchmarks.multibanana.replies import read_corrected, read_paper
from refbench.benchmarks.multibanana.table import AGGREGATE, published


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many sets there are, by task, group, number of references, tag and source."""
    by = {name: Counter(case.groups[name] for case in dataset.cases) for name in ("group", "task", "n_refs", "source")}
    tags = Counter(tag for case in dataset.cases for tag in case.tags)
    return {
        "sets": {
            "group": {name: by["group"][name] for name in GROUPS if name in by["group"]},
            "task": {name: by["task"][name] for name in TASKS if name in by["task"]},
            "n_refs": {name: by["n_refs"][name] for name in sorted(by["n_refs"], key=int)},
            "tag": {name: tags[name] for name in TAGS.values() if name in tags},
            "source": dict(sorted(by["source"].items())),
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
