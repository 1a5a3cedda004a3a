"""GEdit-Bench (Step1X-Edit): 606 edits in English and 606 in Chinese, each one source picture and one instruction.

Semantic consistency (SC) is the lower of two marks that the judge gives with source and result before it, perceptual
quality (PQ) the lower of two that it gives of the result alone; O is the root of their product. Each language is tabled
by itself, on all cases and on the intersection, as a mean over its eleven tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from refbench.benchmarks import kit
from refbench.benchmarks.kit.replies import BY_LOT, no_root, viescore_marks
from refbench.benchmarks.kit.scripts import Script
from refbench.case import AnyCase
from refbench.failure import Failure

CASES = {
    "background_change": 40, "color_alter": 40, "material_alter": 40, "motion_change": 40, "ps_human": 70,
    "style_change": 60, "subject-add": 60, "subject-remove": 57, "subject-replace": 60, "text_change": 99,
    "tone_transfer": 40,
}  # fmt: skip
"""Of each task in each language."""
COLUMNS = ("task_type", "key", "instruction", "instruction_language", "input_image", "Intersection_exist")
INTERSECTION = "intersection"


def load(root: Path) -> Iterator[AnyCase]:
    for row in kit.hub_rows(root, COLUMNS):
        task, language, key = row["task_type"], row["instruction_language"], row["key"]
        made = kit.case(
            f"{task}/{language}/{key}",  # a key alone is not unique
            row["instruction"],
            {"source": row["input_image"]},
            groups={"language": language, "task": task},
            cluster=f"{task}/{key}",
        )
        yield made.model_copy(update={"tags": (INTERSECTION,)}) if row["Intersection_exist"] else made


SENT = kit.Sent(max_tokens=1400)


@kit.asks("SC", reads=kit.score_object(("edit_success", "nothing_else"), 0, 10), combined="minimum", released=SENT)
def semantic_consistency(case: AnyCase, shown: kit.Material) -> kit.Parts:
    return [shown.text("sc", instruction=case.request.instruction), shown.inputs[0], shown.output]


@kit.asks("PQ", reads=kit.score_object(("naturalness", "artefacts"), 0, 10), combined="minimum", released=SENT)
def perceptual_quality(case: AnyCase, shown: kit.Material) -> kit.Parts:
    return [shown.text("pq"), shown.output]


def read_paper(case: AnyCase, part: str, reply: str) -> Mapping[str, float] | Failure:
    """The lowest of however many numbers of whatever size. What cannot be read is drawn by lot in the release."""
    marks = viescore_marks(reply)
    if isinstance(marks, Failure):
        return marks.model_copy(update={"detail": f"{marks.detail} ({BY_LOT})"})
    return {part: min(marks)} if min(marks) >= 0 else no_root(min(marks))


def official(checkout: Path) -> dict[str, str]:
    words = Script(checkout, "GEdit-Bench/viescore/vie_prompts.py")
    context = words.constant("_context_no_delimit")
    edit, tie = words.constant("_prompts_0shot_two_image_edit_rule"), words.constant("_prompts_0shot_tie_rule_SC")
    sc = "\n".join((context, edit, tie)).replace("<instruction>", "{instruction}")
    return {"sc": sc, "pq": f"{context}\n{words.constant('_prompts_0shot_rule_PQ')}"}


BENCHMARK = kit.benchmark(
    name="gedit",
    title="GEdit-Bench",
    paper="arXiv 2504.17761",
    load=load,
    judge=[semantic_consistency, perceptual_quality],
    total=kit.Total("geometric_mean", name="O"),
    slices=lambda cases: kit.split_slices(cases, "language", "task", (INTERSECTION,)),
    protocols={"paper": kit.Variant(read=read_paper)},
    abilities={"SC": "IA", "PQ": "VQ"},
    release=kit.Release(
        __package__,
        sources=(kit.Source("stepfun-ai/GEdit-Bench", code="stepfun-ai/Step1X-Edit", licence="MIT"),),
        prompts=kit.Prompts(__package__, official, "GEdit-Bench/viescore/vie_prompts.py of the authors' code"),
        # The result is squeezed to the size of its source, then both are encoded as JPEG.
        look=kit.Look(lambda place, own, first: first if place == "output" else own),
        counts={"task": {task: 2 * count for task, count in CASES.items()}, "language": {"en": 606, "cn": 606}},
        output_names=lambda case: [case.id, f"fullset/{case.id}"],
        published_on={"en": 606, "cn": 606},
    ),
)
