"""KRIS-Bench (arXiv 2505.16707): edits that need knowledge of facts, concepts and procedures.

Three calls about an output, marks from 1 to 5: visual consistency (VC), following of the instruction (IF), visual
quality (VQ), and with IF, where knowledge is asked for, its plausibility (KP). A case is the mean of its marks, and all
numbers are means over cases, which weighs the three kinds of knowledge as the paper's table does.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from refbench.benchmarks import kit
from refbench.benchmarks.kit import Dataset, Given, Material, Parts, Total, Variant
from refbench.benchmarks.kit.official import variable_of
from refbench.benchmarks.kit.pooled import pooled
from refbench.benchmarks.kit.replies import flat_object, found_by, no_reply, object_of, unread
from refbench.benchmarks.kit.rows import csv_rows
from refbench.benchmarks.kit.scaled import scaled, share
from refbench.benchmarks.kit.scripts import Script
from refbench.case import AnyCase
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale
from refbench.text.files import json_file

CATEGORIES = {row["category"]: row for row in csv_rows(__package__, "categories.csv")}
DUAL = {"instruction_score": "IF", "knowledge_score": "KP"}
MARKS = {"consistency_score": "VC", **DUAL, "quality_score": "VQ"}
SENT = kit.Sent(max_tokens=1000, mime="image/jpeg")
NO_KNOWLEDGE = "no knowledge is asked for"


def load(root: Path) -> Iterator[AnyCase]:
    folder = "KRIS_Bench/" if (root / "KRIS_Bench").is_dir() else ""
    for name, known in CATEGORIES.items():
        notes = json_file(root / f"{folder}{name}/annotation.json", "give --data the whole of KRIS_Bench")
        for number, row in notes.items():
            files = [row["ori_img"]] if isinstance(row["ori_img"], str) else row["ori_img"]
            pictures = {"source" if len(files) == 1 else "reference": [f"{folder}{name}/{file}" for file in files]}
            truth = [f"{folder}{name}/{row['gt_img']}"] if known["kind"] == "view" else []
            groups = {"knowledge": known["knowledge"], "dimension": known["dimension"], "category": name}
            details: dict[str, Any] = {"explanation": row.get("explain_en") or "", "kind": known["kind"]}
            details["frames"] = frames(files)
            yield kit.case(f"{name}/{number}", row["ins_en"], pictures, groups=groups, targets=truth, **details)


def frames(files: list[str]) -> list[int]:
    """The places of a course's frames, by the ends of their names, and last the one that is to be made."""
    ends = [Path(file).stem.rpartition("-")[2] for file in files if "-" in file]
    known = [int(end) for end in ends if end.isdecimal()]
    absent = sorted({1, 2, 3, 4} - set(known))
    return [*known, absent[0] if len(absent) == 1 else max(known, default=0) + 1]


def form(*names: str) -> Contract:
    return Contract("json_object", tuple(Criterion(name, Scale(1, 5, whole=True)) for name in names))


def words(case: AnyCase, shown: Material, name: str) -> str:
    number = str(case.details["frames"][-1])
    return shown.text(name, instruct=case.request.instruction, explanation=case.details["explanation"], N=number)


def compared(case: AnyCase, shown: Material) -> Parts:
    """The pictures that a call compares, each behind its name; frames in the order of time."""
    kind, inputs = case.details["kind"], list(shown.inputs)
    told: list[tuple[str, SentPicture]]
    if kind == "temporal":
        course = zip(case.details["frames"], [*inputs, shown.output], strict=True)
        names = {False: "frame_given", True: "frame_made"}
        told = [(shown.text(names[one is shown.output], number=str(n)), one) for n, one in sorted(course, key=first)]
    elif kind == "multi":
        told = [(shown.text("reference", number=str(n)), one) for n, one in enumerate(inputs, 1)]
        told.append((shown.text("composed"), shown.output))
    else:
        told = [(shown.text("before"), inputs[0]), (shown.text("after"), shown.output)]
    return [part for pair in told for part in pair]


def first(pair: tuple[int, Any]) -> int:
    return pair[0]


@scaled("consistency", lambda case: form("consistency_score"), {"consistency_score": "VC"}, released=SENT)
def consistency(case: AnyCase, shown: Material) -> Parts:
    name = {"temporal": "prompt_consist_temporal", "multi": "prompt_consist_multi"}.get(case.details["kind"])
    return [words(case, shown, name or "prompt_consist"), *compared(case, shown)]


def wanted(case: AnyCase) -> tuple[str, ...]:
    return ("instruction_score", "knowledge_score") if case.details["kind"] == "knowledge" else ("instruction_score",)


@scaled("instruction", lambda case: form(*wanted(case)), DUAL, released=SENT)
def instruction(case: AnyCase, shown: Material) -> Parts:
    names = {"temporal": "instruction_temporal", "multi": "instruction_multi", "view": "view_instruction_following"}
    names |= {"knowledge": "dual_evaluation", "anomaly": "abnormal_instruction_following"}
    if shown.official and shown.protocol == "paper":
        del names["anomaly"]  # the release asks for a category of another name, and so never for the explanation
    name = names.get(case.details["kind"], "instruction_following")
    truth: Parts = [shown.text("truth"), shown.targets[0]] if case.details["kind"] == "view" else []
    return [words(case, shown, f"prompt_{name}"), *compared(case, shown), *truth]


@scaled("quality", lambda case: form("quality_score"), {"quality_score": "VQ"}, released=SENT)
def quality(case: AnyCase, shown: Material) -> Parts:
    alone = case.details["kind"] in ("temporal", "multi")
    return [shown.text("prompt_quality"), shown.text("alone" if alone else "after"), shown.output]


def read_released(case: AnyCase, part: str, reply: str) -> Mapping[str, Any] | Failure:
    """A flat object with the key, else marks behind labels, else, where one mark is asked for, n/5 or the first digit
    from 1 to 5 anywhere. Objects are not checked for the range of their marks."""
    if failure := no_reply(reply):
        return failure
    names = wanted(case) if part == "instruction" else (f"{part}_score",)
    given = flat_object(reply, names) or {name: labelled(reply, name, alone=len(names) == 1) for name in names}
    away = {"KP": NO_KNOWLEDGE} if part == "instruction" and len(names) == 1 else {}
    return {MARKS[name]: share(mark, (1, 5)) for name, mark in given.items()} | away


def labelled(reply: str, name: str, *, alone: bool) -> Any:
    label = name.removesuffix("_score")
    forms = [rf"(?i){label}[_\s]*+score\s*+[:：]?+\s*+([1-5])"]
    forms += [r"([1-5])\s*/\s*5", r"(?i)([1-5])\s+out\s+of\s+5", r"\b([1-5])\b"] if alone else []
    return next((int(mark) for one in forms for (mark,) in found_by(one, reply)), unread(f"no mark for {label}"))


def released_words(checkout: Path) -> dict[str, str]:
    own = {name: text for name, text in kit.Prompts(__package__).own.items() if name.startswith("prompt_")}
    texts = {name: variable_of(checkout, "utils/prompts.py", name, text) for name, text in own.items()}
    before, after, truth = Script(checkout, "metrics_view_change.py").captions("evaluate_with_gpt", {})
    multi, course = (Script(checkout, f"metrics_{name}.py") for name in ("multi_element", "temporal_prediction"))
    reference, composed = multi.captions("evaluate_multi_element_with_gpt", {"idx": "{number}"})
    (frame,) = course.captions("evaluate_temporal_with_gpt", {"frame_num": "{number}", "frame_type": "{role}"})
    texts |= {"frame_given": frame.replace("{role}", "Reference"), "frame_made": frame.replace("{role}", "Generated")}
    (alone,) = multi.captions("evaluate_with_gpt", {})
    captions = {"before": before, "after": after, "truth": truth, "reference": reference, "composed": composed}
    return {**texts, **captions, "alone": alone}


def given(dataset: Dataset, folder: Path) -> Iterator[Given]:
    """The marks in MODEL/CATEGORY/metrics.json, as the released reader took them of replies that it did not keep."""
    for path in sorted(folder.glob("*/*/metrics.json")):
        for number, row in json_file(path).items():
            for part in ("consistency", "instruction", "quality"):
                marks = {f"{name}_score": row.get(f"{name}_score") for name in (part, "knowledge")}
                if marks[f"{part}_score"] is not None:
                    case, model = f"{path.parent.name}/{number}", path.parent.parent.name
                    yield Given(case, part, object_of(marks), f"{case}: {path.name}", model=model)


POOLED = {"pooled": pooled(tuple(MARKS.values()), "avg", 100)}
BENCHMARK = kit.benchmark(
    name="krisbench",
    title="KRIS-Bench",
    paper="arXiv 2505.16707",
    load=load,
    layout="the folders of KRIS_Bench with their annotation.json are not in it",
    judge=[consistency, instruction, quality],
    not_applicable=lambda case: {} if case.details["kind"] == "knowledge" else {"KP": NO_KNOWLEDGE},
    total=Total("mean", name="avg"),
    scale=100,
    protocols={"corrected": Variant(formulas=POOLED), "paper": Variant(read=read_released, formulas=POOLED)},
    abilities={"VC": "RC", "IF": "IA", "VQ": "VQ"},
    release=kit.Release(
        package=__package__,
        sources=(kit.Source("Liang0223/KRIS_Bench", code="mercurystraw/Kris_Bench", licence="Apache-2.0"),),
        prompts=kit.Prompts(__package__, released_words, "utils/prompts.py and metrics_*.py"),
        counts={"category": {name: int(row["cases"]) for name, row in CATEGORIES.items()}},
        landmark="KRIS_Bench/count_change/annotation.json",
        given=given,
        given_protocol="paper",
        judge="gpt-4o",
    ),
)
