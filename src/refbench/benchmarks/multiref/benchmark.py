"""MultiRef-Bench as RefBench runs it: follow references of ten types; each is extracted again and compared."""

from __future__ import annotations

from functools import partial

from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import Asking, Condition, Data, Reporting, Setting, ShownQuestion
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.multiref.anomalies import KINDS, anomalies
from refbench.benchmarks.multiref.cases import AXES, MultiRefCase, describe, is_checkout, load, output_names
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
from refbench.benchmarks.multiref.table import CORRECTED, PAPER, published, read_scores

_ASKED = (
    "Image quality: the picture as such, whatever was asked for",
    "Instruction following: all of what was asked for, and nothing against it",
    "Source fidelity: each reference, or what was taken from the inputs, as it should be",
)


def questions(case: MultiRefCase) -> list[ShownQuestion]:
    """The judge's three marks from 1 to 5; the same for every case."""
    return [ShownQuestion(axis, text) for axis, text in zip(AXES, _ASKED, strict=True)]


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
