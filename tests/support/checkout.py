"""A small CREval checkout in the official layout, with every oddity of the release, in our own words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from refbench.pictures import encode

METRICS = ("IF", "VC", "VQ")


@dataclass
class Item:
    """One item: its questions are (id, text, reference, weight) for each metric."""

    stem: str
    class_id: int = 1
    questions: dict[str, list[tuple[str, str, str, int]]] = field(default_factory=dict)
    vc_text: str | None = None

    def of(self, metric: str) -> list[tuple[str, str, str, int]]:
        return self.questions.get(metric) or [
            (f"Q{n}", f"Is part {n} of {self.stem} as asked? ({metric})", "Yes", 1 + n % 3 if metric == "VC" else 1)
            for n in range(1, 6)
        ]


def plain_items(count: int) -> list[Item]:
    return [Item(f"item_{n:03d}.{n % 7}", class_id=1 + n % 9) for n in range(count)]


def write_checkout(root: Path, items: Sequence[Item], *, pictures: bool = True) -> Path:
    """The official layout: bench/instruction.json, bench/image, bench/questions_all."""
    (root / "bench/image").mkdir(parents=True)
    pixels = np.random.default_rng(1).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    png = encode(pixels)
    instructions = []
    for number, item in enumerate(items, 1):
        instructions.append(
            {
                "id": number,
                "input_prompt": f"Turn {item.stem} into a small statue of clay.",
                "input_image": [f"image/{item.stem}.png"],
                "input_image_resolution": [32, 24],
                "class_id": item.class_id,
            }
        )
        if pictures:
            (root / f"bench/image/{item.stem}.png").write_bytes(png)
        for metric in METRICS:
            folder = root / "bench/questions_all" / metric
            folder.mkdir(parents=True, exist_ok=True)
            entries = [_entry(*question) for question in item.of(metric)]
            (folder / f"{item.stem}.json").write_text(json.dumps({"quality_check_questions": entries}))
            if metric == "VC" and item.vc_text is not None:
                (folder / f"{item.stem}.txt").write_text(item.vc_text)
    (root / "bench/instruction.json").write_text(json.dumps(instructions))
    return root


def _entry(question_id: str, text: str, reference: str, weight: int) -> dict[str, Any]:
    choices = [] if not text else ["Yes", "No"]
    return {
        "question_id": question_id,
        "thinking_process": "",
        "question": text,
        "choices": choices,
        "answer": reference,
        "weight": weight,
    }


def reply_text(
    answers: Sequence[tuple[str, str]], *, keys: tuple[str, str, str] = ("Question", "explanation", "answer")
) -> str:
    """A well-formed reply: one object for each (id, answer)."""
    objects = [
        {keys[0]: f"{qid}: Is it so?", keys[1]: "Seen in the picture.", keys[2]: answer} for qid, answer in answers
    ]
    return "\n\n".join(json.dumps(o, indent=4) for o in objects)


def write_replies(folder: Path, model: str, items: Sequence[Item], *, seed: int = 0) -> Path:
    """Well-formed replies of one model to all items, right in about three of four answers."""
    rng = np.random.default_rng([seed, *model.encode()])
    for metric in METRICS:
        place = folder / metric / model
        place.mkdir(parents=True, exist_ok=True)
        for item in items:
            answers = [(qid, "Yes" if rng.random() < 0.75 else "No") for qid, *_ in item.of(metric)]
            (place / f"{item.stem}.txt").write_text(reply_text(answers))
    return folder


def write_outputs(folder: Path, items: Sequence[Item], *, seed: int = 0) -> Path:
    """A different small picture for every item, as <id>.png."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([seed, *folder.name.encode()])
    for item in items:
        (folder / f"{item.stem}.png").write_bytes(encode(rng.integers(0, 255, (16, 20, 3), dtype=np.uint8)))
    return folder


def release_items() -> list[Item]:
    """Stems and question lists as the release has them: dots, signs and broken letters; a reference in bold, a list
    that is there twice, one that has lost its first question, braces, answers in lower case."""

    def asked(reference: str = "Yes", first: int = 1) -> list[tuple[str, str, str, int]]:
        return [(f"Q{n}", f"Is part {n} of it as asked?", reference, 1) for n in range(first, first + 5)]

    return [
        Item("1718655347.8155239", 1),
        Item("33711206_Daniel_&_Hannah_Snipes", 2),
        Item("33649574_Nancy_Arregu\u00c3\u00adn", 3),
        Item("laion_-138227187726686661", 4),
        Item("v2v_125", 5, {"VC": asked("** Yes")}),
        Item("v2v_521", 6, {"IF": [*asked()[:4], ("Q5", "Does it say {{brand}}?", "Yes", 1)]}),
        Item("HQ-Edit_1_82", 7, {"VC": asked() * 2}),
        Item("i2i_0135", 8, {"IF": asked(first=2)}),
        Item("v2v_785", 9, {"VC": asked("yes")}),
    ]


def write_release(root: Path, model: str = "OmniGen2") -> Path:
    """A checkout as it is cloned: pictures in three formats, one under a false extension, one with a palette; the
    writer's texts beside the questions; a model's replies with the release's own reading of each beside them."""
    items = release_items()
    write_checkout(root, items)
    listed = json.loads((root / "bench/instruction.json").read_text())
    formats = [("jpg", "JPEG", "RGB"), ("jpeg", "JPEG", "RGB"), ("png", "PNG", "RGB"), ("jpg", "PNG", "RGB")]
    formats += [("png", "PNG", "P")] * (len(items) - len(formats))
    for entry, item, (extension, kind, mode) in zip(listed, items, formats, strict=True):
        made = root / f"bench/image/{item.stem}.png"
        picture = Image.open(made).convert(mode)
        made.unlink()
        picture.save(root / f"bench/image/{item.stem}.{extension}", format=kind)
        entry["input_image"] = [f"image/{item.stem}.{extension}"]
        for metric in METRICS:
            (root / f"bench/questions_all/{metric}/{item.stem}.txt").write_text("Q1:\nThinking process: ...\n")
    (root / "bench/instruction.json").write_text(json.dumps(listed, ensure_ascii=False))
    write_replies(root / "answer_gpt", model, items)
    for reply in (root / "answer_gpt").glob("*/*/*.txt"):
        reply.with_name(f"{reply.name.removesuffix('.txt')}.json").write_text('{"questions": [], "final_score": 0.0}')
    (root / "README.md").write_text("# CREval\n")
    return root
