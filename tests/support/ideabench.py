"""A small IDEA-Bench in the official layout, with pictures made on the spot and questions in our own words."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from refbench.pictures import encode

COUNT = "Look at the card. Is the number in the image the digit {count}?"


@dataclass
class Design:
    """One case folder. `meta` is put over the finished meta.json; None takes a key away."""

    slug: str
    uid: str
    category: str = "T2I"
    number: int = 1
    inputs: int = 0
    outputs: int = 1
    auto: bool = True
    count_question: int = 0
    """Which question asks for the number of outputs; 0 for none."""
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.slug}_{self.number:04d}"

    def questions(self) -> list[dict[str, Any]]:
        files = [f"{n:04d}.jpg" for n in range(1, self.outputs + 1)]
        references = [f"{n:04d}.jpg" for n in range(1, self.inputs + 1)]
        found = []
        for number in range(1, 7):
            text = f"Case {self.name}, question {number}: is it as asked? 0: no. 1: yes. Reply {{'score': int}}."
            if number == self.count_question:
                text = f"Case {self.name}, question {number}. {COUNT.format(count=self.outputs)}"
            found.append({"question": text, "input_images": references, "output_images": files})
        return found


def designs(cases_a_task: int = 2) -> list[Design]:
    """A task or two of every category, all in the released scorer's list, with the slips of the release's names."""
    tasks = [
        Design("poster_generation", "0024", "T2I"),
        Design("logo_generation", "0026", "T2I"),
        Design("image_blur_filed_blur", "0063", "I2I", inputs=1),
        Design("style_editing_era_editing", "0072", "I2I", inputs=1),
        Design("image_blending_artisic_collage", "0064", "Is2I", inputs=2),
        Design("style_group_generation_pixel_art", "0014", "T2Is", outputs=4, count_question=2),
        Design("three-view_generation", "0044", "I(s)2Is", inputs=1, outputs=3, count_question=2),
    ]
    return [
        Design(t.slug, t.uid, t.category, number, t.inputs, t.outputs, t.auto, t.count_question)
        for t in tasks
        for number in range(1, cases_a_task + 1)
    ]


def write_checkout(root: Path, items: Iterable[Design], *, place: str = "dataset") -> Path:
    """`dataset/<case>/` with all the files that a case has; returns the root."""
    items = list(items)
    for item in items:
        folder = root / place / item.name
        folder.mkdir(parents=True)
        (folder / "instruction.txt").write_text(f"Design {item.name}, please.")
        meta = {
            "task_name": item.slug.replace("_", " "),
            "num_of_cases": sum(other.slug == item.slug for other in items),
            "image_reference": item.inputs > 0,
            "multi_image_reference": item.inputs > 1,
            "multi_image_output": item.outputs > 1,
            "uid": item.uid,
            "output_image_count": item.outputs,
            "case_id": f"{item.number:04d}",
            **item.meta,
        }
        (folder / "meta.json").write_text(json.dumps({k: v for k, v in meta.items() if v is not None}))
        human = [{"question": f"Is point {n} met?", "0": "it is not", "1": "it is"} for n in range(1, 7)]
        (folder / "eval.json").write_text(json.dumps({"questions": human}))
        if item.auto:
            lines = [json.dumps(question) for question in item.questions()]
            (folder / "auto_eval.jsonl").write_text("\n".join(lines) + "\n")
        for number in range(1, item.inputs + 1):
            write_picture(folder / f"{number:04d}.jpg", f"{item.name} in {number}", (24, 20 + 4 * number))
    split: dict[str, list[str]] = {}
    for item in items:
        of_category = split.setdefault(item.category, [])
        of_category += [] if item.uid in of_category else [item.uid]
    (root / "task_split.json").write_text(json.dumps(split, indent=4))
    return root


def write_outputs(root: Path, items: Iterable[Design], *, missing: Sequence[int] = ()) -> Path:
    """`<case>/0001.jpg`, ... but for the numbers that are missing."""
    for item in items:
        for number in range(1, item.outputs + 1):
            if number not in missing:
                write_picture(root / item.name / f"{number:04d}.jpg", f"{root.name} {item.name} {number}", (32, 40))
    return root


def write_picture(path: Path, seed: str, size: tuple[int, int]) -> None:
    """A picture of its own for every seed; height and width."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = np.random.default_rng(list(seed.encode())).integers(0, 255, 3)
    pixels = np.full((*size, 3), colour, dtype=np.uint8)
    pixels[: size[0] // 2, : size[1] // 2] = 255 - colour
    path.write_bytes(encode(pixels, "jpeg"))


def write_release(root: Path, model: str = "model_results") -> Path:
    """The project as its README has it: the dataset under dataset/IDEA-Bench, a model's pictures under outputs/, and
    what the released judge script has written."""
    items = designs(1)
    write_checkout(root, items, place="dataset/IDEA-Bench")
    (root / "task_split.json").rename(root / "dataset/IDEA-Bench/task_split.json")
    (root / "dataset/IDEA-Bench/README.md").write_text("# IDEA-Bench\n")
    write_outputs(root / "outputs" / model, items)
    names = [f"{name}_{call}" for call in (1, 2, 3) for name in ("gemini_result", "score", "explanation")]
    lines = [["task_name", "task_id", "case_id", "question_id", "text_prompt", "stitched_image", *names]]
    said = ["{'score': 1, 'reason': 'fine'}", "1", "fine"] * 3
    for item in items:
        for number in range(1, 7):
            question = item.questions()[number - 1]["question"]
            lines.append([item.slug, item.uid, f"{item.number:04d}", str(number), question, f"000{number}.jpg", *said])
    (root / "eval_results").mkdir()
    with (root / "eval_results/gemini_results.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(lines)
    return root
