"""MultiRef-Bench as RefBench runs it: follow references of ten types; each is extracted again and compared."""

from __future__ import annotations

from functools import partial

from refbench.benchmarks.kit.constructor import Variant, benchmark
from refbench.benchmarks.kit.definition import (
    Asking,
    Condition,
    Data,
    PaperFigure,
    Reporting,
    Setting,
    ShownQuestion,
    Source,
)
from refbench.benchmarks.kit.hardening import hardenable
from refbench.benchmarks.kit.published import read_faults
from refbench.benchmarks.kit.wording import HARDEN
from refbench.benchmarks.multiref import anomalies, cases, evaluations, judge, measures, replies, table
from refbench.benchmarks.multiref.cases import AXES, TYPES, MultiRefCase

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
        cases.load,
        MultiRefCase,
        cases.released_files,
        layout="no combined1990.json, benchmark990v3.json or final_1000_prompts_taxonomy.json is in it or one folder "
        "below",
        subsets={
            "synthetic": "the 990 cases with two or three references of ten types",
            "synthetic-900": "the first 900 of them, which the older release says are used",
            "real-world": "the 1,000 requests of people with two to six pictures",
        },
        anomalies=anomalies.anomalies,
        anomaly_kinds=anomalies.KINDS,
        describe=cases.describe,
        output_names=cases.output_names,
        sources=(
            Source("ONE-Lab/MultiRef-benchmark", code="Dipsy0830/MultiRef-code", licence="CC BY-NC 4.0"),
            Source("ONE-Lab/MultiRef-dataset", licence="CC BY-NC 4.0", name="training"),
        ),
        listed_outputs=evaluations.listed_outputs,
    ),
    asking=Asking(
        parts={
            replies.OVERALL_PART: AXES,
            replies.REFERENCES_PART: tuple(measures.judged(kind) for kind in measures.JUDGEABLE),
            **{part: (part,) for part in (*measures.QUALITY, *measures.WAYS, *measures.FURTHER)},
            "derived": measures.DERIVED,
        },
        judging=hardenable(judge.judging),
        given=judge.given,
        settings=(
            Setting("prompts", ("own",), "Whose wording of the rubric", folder="overall.txt, none was released"),
            Setting("prompt", ("structured", "enhanced"), "Which of the two prompts of a synthetic case"),
            Setting("reference_axis", ("no", "yes", "all"), "Ask about the references of two types too, or of all"),
            HARDEN,
        ),
        not_applicable=measures.not_applicable,
        not_asked=judge.not_asked,
        measuring=measures.measuring,
        abilities={"IF": "IA", "SF": "RC", "IQ": "VQ", **{measures.judged(kind): "RC" for kind in measures.JUDGEABLE}},
        measured=measures.MEASURED,
        import_replies=replies.import_replies,
        official_replies=False,
        questions=questions,
    ),
    derived=measures.derived,
    protocols={
        name: Variant(scores=partial(table.read_scores, protocol=name), aggregate=aggregate)
        for name, aggregate in {"corrected": table.CORRECTED, "paper": table.PAPER}.items()
    },
    lower=measures.LOWER,
    further_rows=measures.ratio_to_truth,
    reporting=Reporting(
        published=table.published,
        published_on={"synthetic": 990, "real-world": 1000},
        notes=table.notes,
        faults=lambda: read_faults(__package__),
        conditions=(Condition("SF", "IF", 0.8),),
        figures=(
            PaperFigure(
                "taxonomy",
                "the judge's three marks by category of real requests",
                "heatmap",
                by=("category",),
                measures=AXES,
                paper="Table 5",
            ),
            PaperFigure(
                "combinations",
                "every combination of references",
                "heatmap",
                by=("combination",),
                measures=("fidelity", *AXES),
                paper="Table 7",
            ),
            PaperFigure(
                "types", "how well each type of reference is followed", "rows", measures=TYPES, paper="Table 6"
            ),
        ),
    ),
)
