"""ICE-Bench by its released formulas: metrics are means over a task's items, dimensions and score follow from those
means once for each task, and everything above is the unweighted mean over tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oracle.core import Book, Case, Draw, Mean, Measure, State, Where, average, failed
from oracle.creval import SORRY

EDITING = ("aes", "img", "clip_cap", "clip_src", "l1_raw", "qa")
GLOBAL = """Color Editing, Motion Editing, Face Editing, Texture Editing, Style Editing, Scene Editing, Subject Addition,
Subject Removal, Subject Change, Text Render, Text Removal, Composite Editing, Inpainting, Outpainting,
Local Subject Addition, Local Subject Removal, Local Text Removal, Local Text Render""".replace("\n", " ").split(", ")
CREATED = (
    "Text-to-Image Creating",
    "Face Reference Creating",
    "Style Reference Creating",
    "Subject Reference Creating",
)
NAMES = (
    *CREATED,
    *GLOBAL,
    "Pose-guided Generation",
    "Edge-guided Generation",
    "Depth-guided Generation",
    "Image Colorization",
    "Image Deblurring",
    "Style Transfer",
    "Subject-guided Inpainting",
    "Virtual Try On",
    "Face Swap",
)
CONTROL = {23: "l1_pose", 24: "l1_canny", 25: "l1_depth", 26: "l1_colorize", 27: "ssim"}
LIKENESS = {
    2: "face_ref",
    3: "style_ref",
    4: "dino_ref",
    28: "style_ref",
    29: "dino_ref",
    30: "dino_ref",
    31: "face_ref",
}
OFFICIAL = (
    *("aes", "img", "clip_cap", "clip_src", "l1_raw", "clip_ref", "dino_ref", "style_ref", "face_ref"),
    *("l1_pose", "l1_canny", "l1_depth", "l1_colorize", "colorfulness", "ssim", "qa"),
)
LOCAL = {
    "clip_src": "clip_src@mobilenet_v2",
    "l1_raw": "lpips_src@lpips_alex",
    "clip_ref": "clip_ref@mobilenet_v2",
    "dino_ref": "dino_ref@mobilenet_v2",
    "face_ref": "face_ref@dlib_face",
    "l1_pose": "l1_pose@blazepose",
}
PARTS = (*OFFICIAL, *LOCAL.values(), "text@ppocr")
DIMENSIONS = {
    "aesthetic": ("aes",),
    "imaging": ("img",),
    "prompt_following": ("img", "clip_cap", "colorfulness", "qa"),
    "source_consistency": ("clip_src", "l1_raw"),
    "reference_consistency": ("dino_ref", "style_ref", "face_ref"),
    "controllability": ("l1_pose", "l1_canny", "l1_depth", "l1_colorize", "ssim"),
}


def number_of(case: Case) -> int:
    return NAMES.index(case["groups"]["task"]) + 1


def terms(number: int) -> dict[str, tuple[float, dict[str, tuple[float, float, float]]]]:
    """Dimension to its weight in the task's score and its terms: metric to (weight, offset, scale)."""
    aes, img = {"aes": (1, 0, 0.1)}, {"img": (1, 0, 0.01)}
    caption = {"clip_cap": (1, 0, 2.0)}
    asked = {"clip_cap": (0.5, 0, 2.0), "qa": (0.5, 0, 1.0)}
    source = {"clip_src": (0.5, 0, 1.0), "l1_raw": (0.5, 1, -1.0)}
    if number == 1:
        return {"aesthetic": (1 / 3, aes), "imaging": (1 / 3, img), "prompt_following": (1 / 3, caption)}
    if number <= 4:
        like = {LIKENESS[number]: (1, 0, 1.0)}
        return {
            "aesthetic": (0.25, aes),
            "imaging": (0.25, img),
            "prompt_following": (0.25, caption),
            "reference_consistency": (0.25, like),
        }
    if number <= 22:
        return {
            "aesthetic": (0.3, aes),
            "imaging": (0.3, img),
            "prompt_following": (0.3, asked),
            "source_consistency": (0.1, source),
        }
    if number <= 27:
        coloured = {"clip_cap": (0.75, 0, 2.0), "colorfulness": (0.25, 0, 1.0)}
        following = {26: coloured, 27: img}.get(number, caption)
        return {
            "aesthetic": (0.3, aes),
            "imaging": (0.3, img),
            "prompt_following": (0.2, following),
            "controllability": (0.2, {CONTROL[number]: (1, 0, 1.0)}),
        }
    return {
        "aesthetic": (0.25, aes),
        "imaging": (0.25, img),
        "prompt_following": (0.2, asked),
        "reference_consistency": (0.2, {LIKENESS[number]: (1, 0, 1.0)}),
        "source_consistency": (0.1, source),
    }


def metrics_of(number: int) -> set[str]:
    found = {metric for _, inside in terms(number).values() for metric in inside}
    found |= {"clip_ref"} if number in (2, 3, 4) else set()
    found |= {"text@ppocr"} if NAMES[number - 1].endswith("Text Render") else set()
    return found | {LOCAL[metric] for metric in found if metric in LOCAL}


def away(case: Case) -> set[str]:
    gone = set(PARTS) - metrics_of(number_of(case))
    return gone if case["details"]["wanted_text"] else gone | {"text@ppocr"}


def needs(measure: Measure, case: Case) -> Sequence[str]:
    """A dimension has other terms in other tasks."""
    number = number_of(case)
    if measure.name in DIMENSIONS:
        inside = terms(number).get(measure.name, (0, {}))[1]
        return [part for part in measure.parts if part in inside] or measure.parts
    return measure.parts


def read_paper(case: Case, part: str, reply: str) -> Draw:
    """The whole reply as a number, whatever number it is."""
    text = "".join(reply.split())
    if not text:
        return {"qa": failed("empty_reply")}
    try:
        return {"qa": State(float(text))}
    except ValueError:
        return {"qa": failed("unparsable")}


def read_corrected(case: Case, part: str, reply: str) -> Draw:
    words = reply.strip().lower()
    if not words:
        return {"qa": failed("empty_reply")}
    if words in ("1", "0", "yes", "no"):
        return {"qa": State(1.0 if words in ("1", "yes") else 0.0)}
    if words.isdigit():
        return {"qa": failed("out_of_range")}
    return {"qa": failed("refused" if reply.startswith(SORRY) else "unparsable")}


def slices(cases: Sequence[Case]) -> list[Where]:
    def over_tasks(label: Mapping[str, str], chosen: Sequence[Case]) -> Where:
        parts = []
        for number, name in enumerate(NAMES, 1):
            ids = tuple(case["id"] for case in chosen if case["groups"]["task"] == name)
            if ids:
                parts.append(Where({"level": "task", "number": str(number), "task": name}, ids))
        return Where(label, tuple(case["id"] for case in chosen), tuple(parts))

    overall = over_tasks({"level": "overall"}, cases)
    found = [overall]
    for level in ("kind", "reference", "scope", "source_type", "region"):
        for name in dict.fromkeys(case["groups"].get(level, "") for case in cases):
            if name:
                here = [case for case in cases if case["groups"].get(level) == name]
                found.append(over_tasks({"level": level, level: name}, here))
    return [*found, *overall.parts]


def of_task(mean: Mean, where: Where) -> dict[str, float | None]:
    number = NAMES.index(where.label["task"]) + 1
    found: dict[str, float | None] = {metric: mean(metric, where.cases) for metric in metrics_of(number)}
    total: float | None = 0.0
    there: list[tuple[float, float]] = []
    for dimension, (share, inside) in terms(number).items():
        value: float | None = 0.0
        for metric, (weight, offset, scale) in inside.items():
            raw = found[metric]
            if raw is None:
                value = None
                continue
            there.append((share * weight, offset + scale * raw))
            value = None if value is None else value + weight * (offset + scale * raw)
        found[dimension] = value
        total = None if total is None or value is None else total + share * value
    found["score"] = total
    found["partial"] = sum(w * v for w, v in there) / sum(w for w, _ in there) if there else None
    return found


def summarise(paper: bool) -> Any:
    def summary(mean: Mean, where: Where, cases: Mapping[str, Case]) -> dict[str, float | None]:
        tasks = [of_task(mean, part) for part in where.parts or (where,)]
        names = {name for task in tasks for name in task if not (paper and name == "partial")}
        return {name: average(task[name] for task in tasks if name in task) for name in names}

    return summary


COSINES = ("clip_cap", "clip_src", "clip_ref", "dino_ref", "style_ref", "face_ref")
SHARES = ("l1_raw", "l1_pose", "l1_canny", "l1_depth", "l1_colorize", "ssim")
SCORED = tuple(part for part in OFFICIAL if part != "clip_ref")


def _book(paper: bool) -> Book:
    ranges = {**dict.fromkeys(COSINES, (-1.0, 1.0)), **dict.fromkeys(SHARES, (0.0, 1.0))}
    ranges |= {part: (-1.0, 1.0) for part in PARTS if part.endswith("@mobilenet_v2")}
    ranges |= dict.fromkeys(("face_ref@dlib_face", "l1_pose@blazepose", "text@ppocr"), (0.0, 1.0))
    ranges |= {} if paper else {"qa": (0.0, 1.0), "colorfulness": (0.0, 1.0)}
    of_dimension = {"reference_consistency": (-1.0, 1.0), "controllability": (0.0, 1.0)}
    partial = () if paper else (Measure("partial", SCORED, any_part=True),)
    return Book(
        metrics=PARTS,
        measures=(
            *(Measure(part, (part,), *ranges.get(part, (None, None))) for part in PARTS),
            *(Measure(name, parts, *of_dimension.get(name, (None, None))) for name, parts in DIMENSIONS.items()),
            *partial,
            Measure("score", SCORED),
        ),
        slices=slices,
        read=read_paper if paper else read_corrected,
        parts={"qa": ("qa",)},
        summarise=summarise(paper),
        measured=frozenset(PARTS) - {"qa"},
        away=away,
        ranges=ranges,
        zeros=frozenset({"no_detection"}) if paper else frozenset(),
        lower=frozenset({"l1_raw", "lpips_src@lpips_alex"}),
        needs=needs,
    )


BOOKS = {"corrected": _book(False), "paper": _book(True)}
