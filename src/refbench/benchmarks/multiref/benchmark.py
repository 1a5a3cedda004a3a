"""MultiRef-Bench as RefBench runs it: the parts of this package put together."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from refbench.benchmarks.kit.benchmark import Benchmark, Protocol, Question
from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.multiref import table as aggregate
from refbench.benchmarks.multiref.anomalies import KINDS, anomalies
from refbench.benchmarks.multiref.cases import AXES, CATEGORIES, TYPES, MultiRefCase, is_checkout, load
from refbench.benchmarks.multiref.imports import import_replies
from refbench.benchmarks.multiref.judge import SETTINGS, judging, not_asked
from refbench.benchmarks.multiref.measures import (
    DERIVED,
    FURTHER,
    JUDGEABLE,
    LOWER,
    MEASURED,
    QUALITY,
    WAYS,
    derived,
    judged,
    measuring,
    not_applicable,
    ratio_to_truth,
)
from refbench.benchmarks.multiref.table import OVERALL_PART, REFERENCES_PART, published, read_scores


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many cases there are, by split, category, combination, number of references and reference type."""
    by = {
        name: Counter(case.groups[name] for case in dataset.cases if name in case.groups)
        for name in ("split", "category", "combination", "n_refs")
    }
    types = Counter(kind for case in dataset.cases for kind in case.details.types)
    order = {"category": [*CATEGORIES, "unknown"], "n_refs": sorted(by["n_refs"], key=int)}
    counts = {name: {key: by[name][key] for key in order.get(name, sorted(by[name])) if by[name][key]} for name in by}
    return {"cases": {**counts, "type": {kind: types[kind] for kind in TYPES if types[kind]}}}


def output_names(case: MultiRefCase) -> list[str]:
    """The release fixes no layout for outputs: the case's id, or its name alone."""
    return [case.id, case.id.partition("/")[2]]


_ASKED = (
    "Image quality: the picture as such, whatever was asked for",
    "Instruction following: all of what was asked for, and nothing against it",
    "Source fidelity: each reference, or what was taken from the inputs, as it should be",
)


def questions(case: MultiRefCase) -> list[Question]:
    """The judge's three marks from 1 to 5; the same for every case."""
    return [Question(axis, text) for axis, text in zip(AXES, _ASKED, strict=True)]


BENCHMARK = Benchmark(
    name="multiref",
    title="MultiRef-Bench",
    paper="arXiv 2508.06905",
    case_type=MultiRefCase,
    is_checkout=is_checkout,
    layout="no combined1990.json, benchmark990v3.json or final_1000_prompts_taxonomy.json is in it or one folder below",
    load=load,
    subsets={
        "synthetic": "the 990 cases with two or three references of ten types",
        "real-world": "the 1,000 requests of people with two to six pictures",
    },
    anomalies=anomalies,
    anomaly_kinds=KINDS,
    parts={
        OVERALL_PART: AXES,
        REFERENCES_PART: tuple(judged(kind) for kind in JUDGEABLE),
        **{part: (part,) for part in (*QUALITY, *WAYS, *FURTHER)},
        "derived": DERIVED,
    },
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
    official_replies=False,
    describe=describe,
    judging=judging,
    settings=SETTINGS,
    measuring=measuring,
    measured=MEASURED,
    derived=derived,
    not_applicable=not_applicable,
    not_asked=not_asked,
    further_rows=ratio_to_truth,
    output_names=output_names,
    questions=questions,
    faults=partial(read_faults, "refbench.benchmarks.multiref"),
    lower=LOWER,
)
