"""OmniContext (OmniGen2): people, objects and scenes taken from one to three pictures, in eight tasks.

The judge marks prompt following (PF) and subject consistency (SC) from 0 to 10, each in a call of its own; a case
scores the root of their product, a task the mean over its cases, and the benchmark the mean over tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from pathlib import Path

from refbench.benchmarks import kit
from refbench.benchmarks.kit.looks import Place, Size
from refbench.benchmarks.kit.replies import BY_LOT, no_root, recorded_marks, unread, viescore_marks
from refbench.benchmarks.kit.scripts import Script
from refbench.case import AnyCase
from refbench.failure import Failure

TASKS = (
    "single_character", "single_object", "multi_character", "multi_object", "multi_character_object",
    "scene_character", "scene_object", "scene_character_object",
)  # fmt: skip
COLUMNS = ("key", "task_type", "instruction", "input_images")


def load(root: Path) -> Iterator[AnyCase]:
    """The English cases, which the published numbers are about."""
    for row in kit.hub_rows(root, COLUMNS):
        if row.get("instruction_language", "en") == "en":
            groups = {"task": row["task_type"]}
            pictures = {"reference": row["input_images"]}
            yield kit.case(f"{row['task_type']}/{row['key']}", row["instruction"], pictures, groups=groups)


def words_for(name: str, case: AnyCase, shown: kit.Material) -> str:
    """Scenes have a text of their own. In the release that of prompt following is never reached."""
    scene = case.groups["task"].startswith("scene_") and not (name == "pf" and shown.protocol == "paper")
    return shown.text(f"{name}_scene" if scene else name, instruction=case.request.instruction)


SENT = kit.Sent(max_tokens=1400)


@kit.asks("PF", reads=kit.score_object(("score",), 0, 10), released=SENT)
def prompt_following(case: AnyCase, shown: kit.Material) -> kit.Parts:
    return [words_for("pf", case, shown), *shown.inputs, shown.output]


@kit.asks("SC", reads=kit.score_object(("score",), 0, 10), released=SENT)
def subject_consistency(case: AnyCase, shown: kit.Material) -> kit.Parts:
    return [words_for("sc", case, shown), *shown.inputs, shown.output]


def read_paper(case: AnyCase, part: str, reply: str) -> Mapping[str, float] | Failure:
    """One number of whatever size. A list ends the release's statistics; what cannot be read is drawn by lot."""
    marks = viescore_marks(reply, delimited=False, bare_list=False)
    if isinstance(marks, Failure):
        return marks.model_copy(update={"detail": f"{marks.detail} ({BY_LOT})"})
    if len(marks) != 1:
        return unread(f"{len(marks)} numbers where one is asked for")
    return {part: marks[0]} if marks[0] >= 0 else no_root(marks[0])


def size(place: Place, own: Size, first: Size) -> Size:
    """References above a million pixels are scaled down to that, and all cut to multiples of 16; the output is not."""
    if place == "output":
        return own
    scale = min(1.0, sqrt(1024 * 1024 / (own[0] * own[1])))
    width, height = (max(16, int(side * scale) // 16 * 16) for side in own)
    return width, height


def official(checkout: Path) -> dict[str, str]:
    words = Script(checkout, "omnicontext/prompt_generator.py")
    context, rule = words.constant("_context_no_delimit"), "_prompts_0shot_in_context_generation_rule"
    kinds = {
        "pf": "PF_Single_and_Multiple",
        "pf_scene": "PF_Scene",
        "sc": "SC_Single_and_Multiple",
        "sc_scene": "SC_Scene",
    }
    texts = {name: context + words.constant(f"{rule}_{kind}") for name, kind in kinds.items()}
    return {name: text.replace("<instruction>", "{instruction}") for name, text in texts.items()}


def given(dataset: kit.Dataset, folder: Path) -> Iterator[kit.Given]:
    """`MODEL/gpt4dot1/TASK/score.jsonl`: score and reason of both calls."""
    for path in sorted(folder.rglob("score.jsonl")):
        model = path.parents[2].name if path.parents[1].name == "gpt4dot1" else ""
        for row in kit.rows(path):
            for part in ("PF", "SC"):
                reply = recorded_marks(row.get(f"{part}_score"), row.get(f"{part}_score_reason"))
                yield kit.Given(f"{row['task_type']}/{row['key']}", part, reply, path.name, model=model)


BENCHMARK = kit.benchmark(
    name="omnicontext",
    title="OmniContext",
    paper="arXiv 2506.18871",
    load=load,
    judge=[prompt_following, subject_consistency],
    total=kit.Total("geometric_mean", name="overall"),
    macro=("task",),
    protocols={"paper": kit.Variant(read=read_paper)},
    abilities={"PF": "IA", "SC": "RC"},
    release=kit.Release(
        __package__,
        sources=(kit.Source("OmniGen2/OmniContext", code="VectorSpaceLab/OmniGen2"),),
        prompts=kit.Prompts(__package__, official, "omnicontext/prompt_generator.py of the authors' code"),
        look=kit.Look(size, upright=True),
        counts={"task": dict.fromkeys(TASKS, 50)},
        output_names=lambda case: [case.id, f"fullset/{case.id}"],
        given=given,
        judge="gpt-4.1",
    ),
)
