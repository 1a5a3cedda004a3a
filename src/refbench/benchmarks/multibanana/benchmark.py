"""MultiBanana as RefBench runs it: the parts of this package put together."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from refbench.benchmarks.kit.benchmark import Benchmark, Protocol, Question
from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.multibanana import table as aggregate
from refbench.benchmarks.multibanana.anomalies import KINDS, anomalies
from refbench.benchmarks.multibanana.cases import (
    CRITERIA,
    GROUPS,
    LABELS,
    TAGS,
    TASKS,
    WEIGHTS,
    MultiBananaCase,
    is_checkout,
    load,
)
from refbench.benchmarks.multibanana.imports import import_replies
from refbench.benchmarks.multibanana.judge import SETTINGS, judging
from refbench.benchmarks.multibanana.table import PART, published, read_scores


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


BENCHMARK = Benchmark(
    name="multibanana",
    title="MultiBanana",
    paper="arXiv 2511.22989",
    case_type=MultiBananaCase,
    is_checkout=is_checkout,
    layout="no task directory (single, add, 3_back, ...) with a prompt file such as 006_prompt.txt is in it",
    load=load,
    subsets={},
    anomalies=anomalies,
    anomaly_kinds=KINDS,
    parts={PART: CRITERIA},
    protocols={
        "corrected": Protocol(
            name="corrected",
            read=partial(read_scores, protocol="corrected"),
            aggregate=aggregate.CORRECTED,
            versions={"reader": 1, "aggregate": 1},
        ),
        "paper": Protocol(
            name="paper",
            read=partial(read_scores, protocol="paper"),
            aggregate=aggregate.PAPER,
            versions={"reader": 1, "aggregate": 1},
        ),
    },
    import_replies=import_replies,
    published=published,
    published_on={None: 3769},
    describe=describe,
    judging=judging,
    settings=SETTINGS,
    judges_mean=True,
    output_names=output_names,
    questions=questions,
    faults=partial(read_faults, "refbench.benchmarks.multibanana"),
)
