"""Single edits, judged in two calls, in our own words.

    DIR/instructions.jsonl    {"key": "a1", "instruction": "...", "task_type": "color", "instruction_language": "en"}
    DIR/input/<key>.png       the source pictures

Semantic consistency (SC) sees source and output, perceptual quality (PQ) the output alone. Each is the lower of
two marks from 0 to 10; a case scores the square root of their product, and cases are averaged.
"""

from collections.abc import Iterator
from pathlib import Path

from refbench.benchmarks.kit import Material, Parts, asks, benchmark, case, rows
from refbench.case import AnyCase
from refbench.judges import Contract, Criterion, Scale

SC_MARKS = Contract("json_object", (Criterion("edit_success", Scale(0, 10)), Criterion("preservation", Scale(0, 10))))
PQ_MARKS = Contract("json_object", (Criterion("naturalness", Scale(0, 10)), Criterion("no_artifacts", Scale(0, 10))))
ASK_SC = """The second picture should be the first one after this edit: {instruction}
Give two marks from 0 to 10. edit_success: how much of the edit was done. preservation: how much of everything else
was left as it was."""
ASK_PQ = """Judge only how well this picture is made. Give two marks from 0 to 10. naturalness: light, shadows and
proportions are right. no_artifacts: nothing is distorted, smeared or broken."""


def load(root: Path) -> Iterator[AnyCase]:
    for row in rows(root / "instructions.jsonl"):
        groups = {"task": row["task_type"], "language": row["instruction_language"]}
        yield case(row["key"], row["instruction"], {"source": f"input/{row['key']}.png"}, groups=groups)


@asks("SC", reads=SC_MARKS, combined="minimum")
def semantic_consistency(case: AnyCase, shown: Material) -> Parts:
    text = ASK_SC.format(instruction=case.request.instruction)
    return ["Before:", shown.inputs[0], "After:", shown.output, text]


@asks("PQ", reads=PQ_MARKS, combined="minimum")
def perceptual_quality(case: AnyCase, shown: Material) -> Parts:
    return ["Picture:", shown.output, ASK_PQ]


BENCHMARK = benchmark(name="pairs", load=load, judge=[semantic_consistency, perceptual_quality], total="geometric_mean")
