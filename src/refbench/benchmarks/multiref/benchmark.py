"""MultiRef-Bench as RefBench runs it: follow references of ten types; each is extracted again and compared."""

from __future__ import annotations

from functools import partial
from typing import Any

from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.dataset import Dataset, ordered_counts
from refbench.benchmarks.kit.definition import Asking, Condition, Data, Question, Reporting, Setting
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.multiref.anomalies import KINDS, anomalies
from refbench.benchmarks.multiref.cases import AXES, CATEGORIES, TYPES, MultiRefCase, is_checkout, load
from refbench.benchmarks.multiref.judge import judging, not_asked
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
from refbench.benchmarks.multiref.replies import OVERALL_PART, REFERENCES_PART, import_replies
from refbench.benchmarks.multiref.table import (
    CORRECTED,
    PAPER,
    published,
    read_scores,
)


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many cases there are, by split, category, combination, number of references and reference type."""
    order = {"split": None, "category": [*CATEGORIES, "unknown"], "combination": None, "n_refs": None}
    counts = {
        group: ordered_counts((case.groups[group] for case in dataset.cases if group in case.groups), names)
        for group, names in order.items()
    }
    types = (kind for case in dataset.cases for kind in case.details.types)
    return {"cases": {**counts, "type": ordered_counts(types, TYPES)}}


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


BENCHMARK = benchmark(
    name="multiref",
    title="MultiRef-Bench",
    paper="arXiv 2508.06905",
    data=Data(
        load,
        MultiRefCase,
        is_checkout,
        layout="no combined1990.json, benchmark990v3.json or final_1000_prompts_taxonomy.json is in it or one folder "
        "below",
        subsets={
            "synthetic": "the 990 cases with two or three references of ten types",
            "real-world": "the 1,000 requests of people with two to six pictures",
        },
        anomalies=anomalies,
        anomaly_kinds=KINDS,
        describe=describe,
        output_names=output_names,
    ),
    asking=Asking(
        parts={
            OVERALL_PART: AXES,
            REFERENCES_PART: tuple(judged(kind) for kind in JUDGEABLE),
            **{part: (part,) for part in (*QUALITY, *WAYS, *FURTHER)},
            "derived": DERIVED,
        },
        judging=judging,
        settings=(
            Setting("prompt", ("structured", "enhanced"), "Which of the two prompts of a synthetic case"),
            Setting("reference_axis", ("no", "yes", "all"), "Ask about the references of two types too, or of all"),
        ),
        not_applicable=not_applicable,
        not_asked=not_asked,
        measuring=measuring,
        measured=MEASURED,
        import_replies=import_replies,
        official_replies=False,
        questions=questions,
    ),
    derived=derived,
    protocols={
        name: Variant(scores=partial(read_scores, protocol=name), aggregate=aggregate)
        for name, aggregate in {"corrected": CORRECTED, "paper": PAPER}.items()
    },
    lower=LOWER,
    further_rows=ratio_to_truth,
    reporting=Reporting(
        published=published,
        faults=partial(read_faults, "refbench.benchmarks.multiref"),
        conditions=(Condition("SF", "IF", 0.8),),
    ),
)
