"""A small ICE-Bench in the official layout, made on the spot in our own words, and outputs of a model for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from refbench.benchmarks.icebench.tasks import OFFICIAL, TASKS, Task
from refbench.pictures import encode

SIZE = (40, 48)
"""Height and width of every picture."""


@dataclass
class Item:
    """One item of a task, by the paper's name; `fields` are put over those of the line."""

    task: str
    number: int = 0
    source_type: str = "Real Image"
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return hashlib.md5(f"{self.task} {self.number}".encode(), usedforsecurity=False).hexdigest()

    @property
    def spec(self) -> Task:
        return TASKS[self.task]

    @property
    def masked(self) -> bool:
        return self.spec.scope == "Local" or self.task in ("Subject-guided Inpainting", "Virtual Try On")


def every_task(per_task: int = 2) -> list[Item]:
    kinds = ("Real Image", "Generated Image")
    return [Item(name, number, kinds[number % 2]) for name in TASKS for number in range(per_task)]


def write_dataset(root: Path, items: Sequence[Item], *, folder: str = "") -> Path:
    """data.jsonl and images/ in `root` (or a folder inside it); pictures differ from item to item."""
    place = root / folder
    place.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(line(place, item)) for item in items]
    (place / "data.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def line(place: Path, item: Item, prefix: str = "") -> dict[str, Any]:
    """The item's line, its pictures written into `place` as it names them behind the prefix."""
    task = item.spec
    level1 = f"{'Reference' if task.reference else 'No-reference'} {task.kind}"
    level2 = f"{task.scope or task.name} {task.kind}"
    folder = f"{prefix}images/{level1}/{level2}/{task.code}"
    source = f"{folder}/{item.id}_src.png" if task.kind == "Editing" else ""
    mask = f"{folder}/{item.id}_mask.png" if item.masked else ""
    references = [f"{folder}/{item.id}_ref1.png"] if task.reference else []
    wanted = " with <REF_1>" if references else ""
    quoted = f' "SALE {item.number}"' if task.name.endswith("Text Render") else ""
    said: dict[str, Any] = {
        "ItemID": item.id,
        "TaskLevel1": level1,
        "TaskLevel2": level2,
        "Task": task.code,
        "SourceImageType": item.source_type if source else "",
        "RegionBased": item.masked,
        "SourceImage": source,
        "SourceMask": mask,
        "ReferenceImages": references,
        "Instruction": f"Do {task.name.lower()}{quoted}{wanted} in {'<SOURCE>' if source else 'a new picture'}.",
        "SourceCaption": "A plain scene.",
        "TargetCaption": f"The scene after {task.name.lower()}, number {item.number}.",
        **item.fields,
    }
    pictures = [("source", said["SourceImage"]), ("mask", said["SourceMask"])]
    for role, name in [*pictures, *(("reference", name) for name in said["ReferenceImages"])]:
        if name:
            path = place / name.removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encode(mask_pixels() if role == "mask" else pixels(item.id, role)))
    return said


def pixels(*seed: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A smooth picture of its own for every seed: noise has neither edges nor structure worth comparing."""
    digest = hashlib.sha256("\0".join(seed).encode()).digest()
    rng = np.random.default_rng(list(digest[:8]))
    height, width = SIZE
    made = np.full((height, width, 3), rng.integers(0, 255, 3), dtype=np.uint8)
    for _ in range(4):
        y, x = int(rng.integers(0, height - 8)), int(rng.integers(0, width - 8))
        made[y : y + 14, x : x + 14] = rng.integers(0, 255, 3)
    return made


def mask_pixels() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """White, where editing is allowed, in the left half."""
    height, width = SIZE
    made = np.zeros((height, width, 3), dtype=np.uint8)
    made[:, : width // 2] = 255
    return made


def write_outputs(folder: Path, items: Iterable[Item], *, model: str = "m") -> Path:
    """A picture for every item, as <ItemID>.png, and the official result file that lists them."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = {}
    for item in items:
        (folder / f"{item.id}.png").write_bytes(encode(pixels(model, item.id)))
        listed[item.id] = f"{item.id}.png"
    (folder / "result.json").write_text(json.dumps(listed))
    return folder


def write_release(root: Path, items: Sequence[Item], method: str = "painter") -> Path:
    """A checkout as the released code is used from its root: the archive's `data/`, whose lines name pictures from the
    root, and under results/ the pictures of a method under names of their own, gen_info.json and eval_result.txt."""
    lines = [json.dumps(line(root / "data", item, "data/"), ensure_ascii=False) for item in items]
    (root / "data/data.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    made = root / "results" / method
    (made / "images").mkdir(parents=True)
    listed, results = {}, []
    for number, item in enumerate(items, 1):
        listed[item.id] = f"results/{method}/images/image{number}.jpg"
        (root / listed[item.id]).write_bytes(encode(pixels(method, item.id), "jpeg"))
        results.append(result_line(item))
    (made / "gen_info.json").write_text(json.dumps(listed, indent=4))
    (made / "eval_result.txt").write_text("\n".join(results) + "\n")
    return root


_KEYS = {"aes": "aes_v2.5", "img": "musiq_koniq", "qa": "vllmqa"}
_UNUSUAL = {"aes": 6.0, "img": 70.0, "clip_cap": 0.3, "clip_src": 0.9, "l1_raw": 0.2, "qa": 1.0, "dino_ref": 0.8}


def result_line(item: Item, **changed: float) -> str:
    """What the released code writes of an item: every official metric of its task, 0.9 where nothing else is said."""
    parts = [part for part in item.spec.parts if part in OFFICIAL]
    values = {_KEYS.get(part, part): {**_UNUSUAL, **changed}.get(part, 0.9) for part in parts}
    return f"{item.id}#;#{item.spec.code}#;#{json.dumps(values)}"
