"""EditReward-Bench of EditScore (arXiv 2509.23909): which judges prefer the edits that people prefer.

There is no model under test. A case is two edits of one picture, the first of which people preferred in one dimension;
a judge marks each by itself, as it would a model's output, and is right where the preferred one has the higher value.
Passes of a judge (`--repeats`) are averaged before they are compared. What is ranked is the judge.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refbench.benchmarks import kit
from refbench.benchmarks.kit import Derive, Material, Parts, Variant, asks, score_object
from refbench.benchmarks.kit.replies import BY_LOT, is_json, no_root, numbers_behind, unread, viescore_marks
from refbench.benchmarks.kit.scripts import Script
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import RefBenchError

GROUPS = {
    "subject": ("subject-add", "subject-remove", "subject-replace"),
    "appearance": ("color_alter", "material_alter", "style_change", "tone_transfer"),
    "scene": ("background_change", "extract"),
    "advanced": ("ps_human", "text_change", "motion_change", "compose"),
}
GROUP_OF = {task: group for group, tasks in GROUPS.items() for task in tasks}
DIMENSIONS = ("prompt_following", "consistency", "overall")
PLACES = {"preferred": 0, "other": 1}
PARTS = {f"{kind}_{place}": place for kind in ("SC", "PQ") for place in PLACES}
MARKS = {part: tuple(f"{part}_{number}" for number in (1, 2)) for part in PARTS}
ASKED = {"SC": ("done", "left_alone"), "PQ": ("natural", "undamaged")}
"""What judges are asked for: the same of both pictures, or the words would tell which one people preferred."""
COLUMNS = ("key", "instruction", "input_image", "output_images", "task_type", "dimension")


def load(root: Path) -> Iterator[AnyCase]:
    absent = set(GROUP_OF)
    for number, row in enumerate(kit.hub_rows(root, COLUMNS), 1):
        task, dimension = row["task_type"], row["dimension"]
        if task not in GROUP_OF or dimension not in DIMENSIONS or len(row["output_images"]) != 2:
            raise RefBenchError(f"{root}: row {number} is no pair of a known task and dimension: fetch it again")
        absent.discard(task)
        source, targets = row["input_image"], dict(zip(PLACES, row["output_images"], strict=True))
        groups, name = {"group": GROUP_OF[task], "task": task, "dimension": dimension}, f"{task}/{dimension}/{number}"
        pictures = {"source": source}
        yield kit.case(name, row["instruction"], pictures, groups=groups, cluster=source, targets=targets, outputs=2)
    if absent:
        raise RefBenchError(
            f"{root} has no pairs of {', '.join(sorted(absent))}: the mean is over 13 tasks, fetch again"
        )


def call(part: str) -> kit.Call:
    kind, place = part.split("_")

    named = dict(zip(ASKED[kind], MARKS[part], strict=True))

    @asks(part, score_object(ASKED[kind], 0, 25), named=named, released=kit.Sent())
    def ask(case: AnyCase, shown: Material) -> Parts:
        before = [shown.inputs[0]] if kind == "SC" else []
        return [shown.text(kind, instruction=case.request.instruction), *before, shown.outputs[PLACES[place]]]

    return ask


def not_applicable(case: AnyCase) -> dict[str, str]:
    own = case.groups["dimension"]
    others = [value for value in VALUES if not value.startswith(own)]
    unneeded = [mark for part in PARTS if part.startswith("PQ") and own != "overall" for mark in MARKS[part]]
    return dict.fromkeys([*others, *unneeded], f"people compared the two in {own}")


def value(dimension: str, place: str) -> Derive:
    """What a judge gives one picture, from 0 to 10, in each pass."""
    (done, left), quality = MARKS[f"SC_{place}"], MARKS[f"PQ_{place}"]
    formulas = {
        "prompt_following": lambda marks: marks[done] / 2.5,
        "consistency": lambda marks: marks[left] / 2.5,
        "overall": lambda marks: math.sqrt(min(marks[done], marks[left]) * min(marks[mark] for mark in quality)) / 2.5,
    }
    return Derive(formulas[dimension], (0, 10))


def right(dimension: str, tie: float) -> Derive:
    """Whether the preferred picture has the higher value."""
    return Derive(lambda m: tie if equal(m, dimension) else float(higher(m, dimension)), (0, 1))


def equal(marks: Any, dimension: str) -> bool:
    """Means of passes with one sum are equal, however they are rounded."""
    first, second = (marks[f"{dimension}_{place}"] for place in PLACES)
    return math.isclose(first, second, rel_tol=0, abs_tol=1e-9)


def higher(marks: Any, dimension: str) -> bool:
    first, second = (marks[f"{dimension}_{place}"] for place in PLACES)
    return bool(first > second)


def tied(marks: Any) -> float:
    return float(equal(marks, next(name for name in DIMENSIONS if marks.applies(f"{name}_other"))))


def read_released(case: AnyCase, part: str, reply: str) -> Mapping[str, Any] | Failure:
    """VIEScore's reader, and of an object that it cannot decode the first two numbers behind "score". The release
    takes 0 for what is not there; here that is a failure."""
    reply = reply.translate({8220: '"', 8221: '"', 8216: "'", 8217: "'"})
    found = viescore_marks(reply)
    if isinstance(found, Failure):
        if is_json(reply):
            return unread(f"{found.detail}: the release stops there")
        behind = numbers_behind(reply, "score", 2)
        if behind is None:
            return unread(f"{found.detail}: {BY_LOT}")
        if len(behind) < 2:
            return unread(f"{found.detail}: the release takes 0 for a mark that is not there")
        found = behind
    if min(found) < 0:
        return no_root(min(found))
    if part.startswith("PQ"):
        return dict.fromkeys(MARKS[part], min(found))
    if len(found) < 2:
        return unread("one number where two are asked for: the release stops there")
    return dict(zip(MARKS[part], found, strict=False))


def released_words(checkout: Path) -> dict[str, str]:
    script, prompt = Script(checkout, "editscore/vie_prompts.py"), "_prompts_0shot_"
    context = script.constant("_context_no_delimit_reasoning_first")
    edit, marks, quality = (
        script.constant(prompt + name) for name in ("two_image_edit_rule", "tie_rule_SC", "rule_PQ")
    )
    # The range is turned from 10 to 25 by replacing these digits wherever they stand.
    texts = {"SC": [context, edit, marks.replace("10", "25")], "PQ": [context, quality.replace("10", "25")]}
    return {name: "\n".join(parts).replace("<instruction>", "{instruction}") for name, parts in texts.items()}


VALUES = {f"{dimension}_{place}": value(dimension, place) for dimension in DIMENSIONS for place in PLACES}
BENCHMARK = kit.benchmark(
    name="editrewardbench",
    title="EditReward-Bench (EditScore)",
    paper="arXiv 2509.23909",
    load=load,
    layout="the Hub's files of EditScore/EditReward-Bench are not in it",
    judge=[call(part) for part in PARTS],
    not_applicable=not_applicable,
    derived=VALUES,
    settled={"tied": Derive(tied, (0, 1)), **{name: right(name, 0.5) for name in DIMENSIONS}},
    lower=("tied",),
    hidden=(*VALUES, *(mark for marks in MARKS.values() for mark in marks)),
    macro=("group", "task"),
    weights={group: len(tasks) for group, tasks in GROUPS.items()},
    protocols={"paper": Variant(read=read_released, derived={name: right(name, 0.0) for name in DIMENSIONS})},
    release=kit.Release(
        package=__package__,
        sources=(kit.Source("EditScore/EditReward-Bench", code="VectorSpaceLab/EditScore", licence="Apache-2.0"),),
        prompts=kit.Prompts(__package__, released_words, "editscore/vie_prompts.py"),
        look=kit.Look(lambda place, own, first: first if place == "output" else own),
        outputs="pairs=baseline:truth",
    ),
)
