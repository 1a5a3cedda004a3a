"""Small studies for tests, with real pictures in their folders."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refbench.pictures import encode
from refbench.studies.design import Criterion, StudyDesign, Training, write_design
from refbench.studies.items import Item, ItemOutput, ItemPicture, write_items
from refbench.studies.study import Study

IQ = Criterion(name="IQ", label={"en": "Image quality", "zh": "图像质量"}, low=1, high=5)
IF = Criterion(name="IF", label={"en": "Instruction following", "zh": "指令遵循"}, low=1, high=5)


def picture(folder: Path, name: str, seed: int, role: str = "output") -> ItemPicture:
    """A small picture of its own, in the folder's `source`."""
    pixels = np.random.default_rng(seed).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    data = encode(pixels, "png")
    file = folder / "source" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return ItemPicture(role=role, file=str(file), sha256=hashlib.sha256(data).hexdigest())


def rate_items(folder: Path, cases: int, models: Sequence[str] = ("secret-model",)) -> list[Item]:
    items = []
    for case in range(cases):
        reference = picture(folder, f"ref-{case}.png", 1000 + case, "reference")
        for number, model in enumerate(models):
            shown = picture(folder, f"{model}-{case}.png", 100 * case + number)
            items.append(
                Item(
                    id=f"case{case:03d}-{number}",
                    case=f"case{case:03d}",
                    screen="rate",
                    instruction=f"Put the thing of picture {case} on a table.",
                    inputs=(reference,),
                    outputs=(ItemOutput(model=model, pictures=(shown,)),),
                )
            )
    return items


def study(folder: Path, items: Sequence[Item], clock: Callable[[], float] | None = None, **design: Any) -> Study:
    """A study in the folder, without training, gold and repeats unless they are asked for."""
    plain = {
        "name": "a study",
        "screen": "rate",
        "criteria": (IQ, IF),
        "training": Training(items=0),
        "repeats_every": 0,
    }
    folder.mkdir(parents=True, exist_ok=True)
    made = StudyDesign(**{**plain, "items_sha256": write_items(folder, items), **design})
    write_design(folder, made)
    return Study.open(folder, clock) if clock else Study.open(folder)


def mark(item: str, number: int, **values: Any) -> dict[str, Any]:
    return {"id": f"browser-{number:06d}", "item": item, "values": values, "active": 3.0, "wall": 4.0}
