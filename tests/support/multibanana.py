"""A small MultiBanana in the official layout, and judge files as the released scripts write them, in our own words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refbench.benchmarks.multibanana.cases import LABELS, TASKS
from refbench.pictures import encode

PNG = encode(np.random.default_rng(1).integers(0, 255, (16, 24, 3), dtype=np.uint8))
MARKS = (7, 6, 5, 4, 8)
TOTAL = (3 * 7 + 3 * 6 + 5 + 4 + 8) / 9


@dataclass
class Set:
    """One set: its directory, its number, how many references it has, its labels in types.json and its source."""

    task_dir: str
    number: str
    n_refs: int
    labels: str | Sequence[str] = ()
    source: str | Sequence[str] = "real"
    """What from_where.csv says of all its references, or of each."""

    @property
    def id(self) -> str:
        return f"{self.task_dir}/{self.number}"


def every_task(per_task: int = 2) -> list[Set]:
    """Sets of all 36 tasks, numbered with gaps, some tagged, some with generated references."""
    return [
        Set(
            name,
            f"{6 + 8 * k:03d}",
            task.n_refs,
            labels=("rare", ["domain", "scale"], ())[(i + k) % 3],
            source=("real", "generated")[(i + k) % 2],
        )
        for i, (name, task) in enumerate(TASKS.items())
        for k in range(per_task)
    ]


def write_dataset(root: Path, sets: Iterable[Set]) -> Path:
    """Pictures, prompts, types.json in each directory, from_where.csv beside them."""
    types: dict[str, dict[str, object]] = {}
    sources = ["path,source"]
    for s in sets:
        folder = root / s.task_dir
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{s.number}_prompt.txt").write_text(f"  Put image 1 of {s.id} on a shelf.\n")
        for index in range(s.n_refs):
            (folder / f"{s.number}_{index}.png").write_bytes(PNG)
            word = s.source if isinstance(s.source, str) else s.source[index]
            sources.append(f"{s.task_dir}/{s.number}_{index}.png,{word}")
        types.setdefault(s.task_dir, {})
        if s.labels:
            types[s.task_dir][s.number] = s.labels
    for directory, said in types.items():
        (root / directory / "types.json").write_text(json.dumps(said))
    (root / "from_where.csv").write_text("\n".join(sources) + "\n")
    return root


def reply(
    marks: Sequence[object] = MARKS, *, reasoning: str = "The shelf is there, the hat is not quite right."
) -> str:
    """A reply as the rubric asks for it."""
    lines = [f"{label}: {mark}." for label, mark in zip(LABELS.values(), marks, strict=True)]
    return "\n".join([f"Reasoning: {reasoning}", "", *lines])


def write_replies(root: Path, replies: Mapping[str, str], judge: str = "gpt") -> Path:
    """Judge files by case id."""
    for case, text in replies.items():
        path = root / f"{case}_{judge}_judge.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def write_release(root: Path) -> Path:
    """The dataset as it is cloned (`data/`, with its card), all references JPEG, one label a set; and, written into it
    as the released scripts want it, a model's pictures and a judge's files."""
    data = root / "data"
    sets = [
        Set("single", "006", 1, "rare", "real"),
        Set("add", "006", 2, "ling", ("real", "gpt-image-1")),
        Set("3_object", "014", 3, "domain", ("nano banana",) * 3),
        Set("3_back", "014", 3, "font", ("nano banana", "gpt-image-1", "real")),
    ]
    write_dataset(data, sets)
    for number, path in enumerate(sorted(data.rglob("*.png"))):
        shade = np.full((16, 24, 3), 10 * number, np.uint8)
        path.with_suffix(".jpg").write_bytes(encode(shade, "jpeg"))
        path.unlink()
    listed = data / "from_where.csv"
    listed.write_text(listed.read_text().replace(".png", ".jpg"))
    (data / "README.md").write_text("---\nlicense: cc-by-nc-4.0\n---\n")
    (data / ".gitattributes").write_text("*.jpg filter=lfs\n")
    for one in sets:
        (data / f"{one.id}_generated.jpg").write_bytes(encode(np.full((9, 9, 3), 200, np.uint8), "jpeg"))
    write_replies(data, {one.id: reply() for one in sets}, "gemini")
    return root
