"""RISEBench (arXiv 2504.02826): edits that need reasoning about time, causes, space and logic.

Two or three calls about an output: is what should stay as it was (consistency), is the result right (reasoning), and
is it well made (quality). A case counts as solved when every mark that applies is full; that share is the headline.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refbench.benchmarks import kit
from refbench.benchmarks.kit import Dataset, Derive, Given, Material, Parts
from refbench.benchmarks.kit.official import script_prompts
from refbench.benchmarks.kit.replies import found_by, unread
from refbench.benchmarks.kit.scaled import LOST, scaled, share, thumbnail
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.judges import Contract
from refbench.record import RefBenchError
from refbench.text.sheets import sheet_rows

CASES = "datav2_total_w_subtask.json"
FLAGS = ("reasoning_img", "reasoning_wo_ins", "consistency_free")  # only whether they are there counts
SENT = kit.Sent(max_tokens=4096, detail="high", mime="image/jpeg")
PARTS = {"consistency": "judge_cons", "reasoning": "judge_reas", "quality": "judge_qua"}


def load(root: Path) -> Iterator[AnyCase]:
    base = "data/" if (root / "data").is_dir() else ""
    for row in kit.rows(root / CASES):
        row = {name: value for name, value in row.items() if value is not None}
        category, picture = row["category"].removesuffix("_reasoning"), row.get("reference_img")
        text = row.get("reference_txt" if category == "logical" else "reference")
        if text is None and picture is None:
            raise RefBenchError(f"{root / CASES}: {row['index']} has no reference to judge by: fetch the file again")
        pictures, targets = {"source": base + row["image"]}, [base + picture] if picture else []
        groups, flags = {"category": category, "subtask": row["subtask"]}, {flag: flag in row for flag in FLAGS}
        shown = bool(picture) and (category == "spatial" or (category == "logical" and text is None))
        details: dict[str, Any] = {"reference": text or "", "answer_shown": shown, **flags}
        yield kit.case(row["index"], row["instruction"], pictures, groups=groups, targets=targets, **details)


def form(case: AnyCase) -> Contract:
    return kit.last_mark("final_score", *ends(case))


def ends(case: AnyCase) -> tuple[int, int]:
    return (0, 1) if case.groups["category"] == "logical" else (1, 5)


def words(case: AnyCase, shown: Material, name: str) -> str:
    return shown.text(name, instruct=case.request.instruction, reference=case.details["reference"])


@scaled("consistency", form, {"final_score": "consistency"}, released=SENT)
def consistency(case: AnyCase, shown: Material) -> Parts:
    logical = "prompt_logical_cons_ans" if case.details["reference"] else "prompt_logical_cons"
    name = {"spatial": "prompt_spatial_cons", "logical": logical}.get(case.groups["category"], "prompt_consist")
    # The release compares with the answer wherever there is a picture of it, though its words say "original".
    swapped = shown.official and shown.protocol == "paper" and case.details["answer_shown"]
    return [words(case, shown, name), (shown.targets if swapped else shown.inputs)[0], shown.output]


@scaled("reasoning", form, {"final_score": "reasoning"}, released=SENT)
def reasoning(case: AnyCase, shown: Material) -> Parts:
    kind, details = case.groups["category"], case.details
    if details["answer_shown"]:
        # The release asks whether the flag is a column, not whether the case has it: never with the question.
        alone = details["reasoning_wo_ins"] or (shown.official and shown.protocol == "paper")
        puzzle = "prompt_logical_img_wo_q" if alone else "prompt_logical_img"
        name = puzzle if kind == "logical" else "prompt_spatial_ref_img"
        return [words(case, shown, name), shown.targets[0], shown.output]
    name = {"spatial": "prompt_spatial_ref", "logical": "prompt_logical_txt"}.get(kind, "prompt_reasoning")
    if kind == "logical" or not details["reasoning_img"]:
        return [words(case, shown, name), shown.output]
    return [words(case, shown, f"{name}_w_input"), shown.inputs[0], shown.output]


@scaled("quality", form, {"final_score": "quality"}, released=SENT)
def quality(case: AnyCase, shown: Material) -> Parts:
    name = "prompt_spatial_qual" if case.groups["category"] == "spatial" else "prompt_generation"
    return [shown.text(name), shown.output]


def read_released(case: AnyCase, part: str, reply: str) -> Mapping[str, Any] | Failure:
    """The whole numbers behind the first "Final Score" that has any; the release stops with an error at several."""
    for label in ("Final Score", "Final Scores"):
        for (run,) in found_by(rf"(?i){label}\*{{0,2}}:?\s*([\d*\s,]*)", reply):
            marks = [int(mark[:9]) for mark in run.replace("*", " ").replace(",", " ").split()]
            if len(marks) > 1:
                return unread(f"{len(marks)} numbers behind the score: the release cannot go on with them")
            if marks:
                return {part: share(min(marks[0], 1) if ends(case) == (0, 1) else marks[0], ends(case))}
    return unread("no number behind Final Score")


def weighted(ordinary: tuple[float, float, float]) -> Derive:
    """The weighted score from 1 to 5, as a share; halved, and at least 1, where nothing of the reasoning is right."""

    def score(marks: Any) -> float:
        puzzle, free = not marks.applies("quality"), not marks.applies("consistency")
        weights = (0.3, 0.7, 0.0) if puzzle else (0.0, 0.8, 0.2) if free else ordinary
        all_there = [marks[part] for part in marks.applying(tuple(PARTS))]  # one that failed leaves no score
        five = sum(weight * (1 + 4 * marks[part]) for part, weight in zip(PARTS, weights, strict=True) if weight)
        return float((max(1.0, five / 2) if all_there and marks["reasoning"] == 0 else five) - 1) / 4

    return Derive(score, (0, 1))


def not_applicable(case: AnyCase) -> dict[str, str]:
    away = {"consistency": "the whole picture should change"} if case.details["consistency_free"] else {}
    return away | ({"quality": "puzzles are not judged by it"} if case.groups["category"] == "logical" else {})


def given(dataset: Dataset, folder: Path) -> Iterator[Given]:
    for path in sorted(folder.glob("*_judge.xlsx")):
        for row in sheet_rows(path):
            for part, column in PARTS.items():
                said: str | Failure = row.get(column, "")
                if str(said).startswith("Failed to obtain answer via API"):
                    said = Failure(kind="api_error", detail=str(said).strip())
                if said:
                    yield Given(row["index"], part, said, path.name, model=path.name.removesuffix("_judge.xlsx"))


RELEASE = kit.Release(
    package=__package__,
    sources=(kit.Source("PhoenixZ/RISEBench", code="PhoenixZ810/RISEBench", unpack=True),),
    prompts=script_prompts(__package__, "utils.py"),
    look=kit.Look(thumbnail(768)),
    counts={"category": {"temporal": 85, "causal": 90, "spatial": 100, "logical": 85}},
    landmark=CASES,
    output_names=lambda case: [f"images/{case.groups['category']}_reasoning/{case.id}", case.id],
    given=given,
    judge="gpt-4.1-2025-04-14",
)
# An empty cell of the release's table counts as true: consistency never enters its weighted score.
PAPER = kit.Variant(
    read=read_released,
    derived={"score": weighted((0, 0.8, 0.2))},
    imputed=dict.fromkeys(LOST, 0),
    imputed_in=("accuracy",),
)
BENCHMARK = kit.benchmark(
    name="risebench",
    title="RISEBench",
    paper="arXiv 2504.02826",
    load=load,
    layout=f"{CASES} is not in it",
    judge=[consistency, reasoning, quality],
    not_applicable=not_applicable,
    derived={
        "score": weighted((0.3, 0.5, 0.2)),
        "accuracy": Derive(kit.all_full(*((part, 1) for part in PARTS)), (0, 1)),
    },
    scale=100,
    protocols={"paper": PAPER},
    abilities={"consistency": "RC", "reasoning": "IA", "quality": "VQ"},
    release=RELEASE,
)
