"""The official layout on disk: multi_image_benchmark/ with the list of entries and compressed_images/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.multiref.details import CATEGORIES
from refbench.builders.folder import Shipment, as_json
from refbench.builders.multiref_real.item import Item

PLACE = "multi_image_benchmark"
ENTRIES = "final_prompts_taxonomy.json"
_PICTURES = "compressed_images"


def write_dataset(root: Path, items: Sequence[Item]) -> None:
    """Write `root`/multi_image_benchmark. The list of entries comes last: a build that is stopped lists no half one."""
    shipment = Shipment(root / PLACE)
    entries: list[dict[str, Any]] = []
    for item in sorted(items, key=lambda one: one.sought.id):
        found = entry(item)
        for path, picture in zip(
            [*found["image_path_mapping"].values(), found["output_image_path"]],
            [*item.sought.inputs, item.output],
            strict=True,
        ):
            shipment.put(path, picture.path.read_bytes())
        entries.append(found)
    if entries:
        shipment.put(ENTRIES, as_json(entries))
    shipment.finish()


def entry(item: Item) -> dict[str, Any]:
    """A row as the release has it: number, prompt with tokens, pictures, the golden one, and the category's number."""
    assert item.category is not None
    stem = f"{_PICTURES}/{item.sought.id:04d}"
    inputs = {
        f"image{number}": f"{stem}_image{number}{picture.extension}"
        for number, picture in enumerate(item.sought.inputs, 1)
    }
    return {
        "row_id": item.sought.id,
        "prompt": item.instruction,
        "image_path_mapping": inputs,
        "output_image_path": f"{stem}_output{item.output.extension}",
        "category": CATEGORIES[item.category][0],
        "original_request": item.sought.request,
    }


def review_rows(items: Sequence[Item]) -> list[dict[str, Any]]:
    """What people are asked to decide about: all that can be edited, and what is against an entry that was dropped."""
    return [
        {
            "id": item.sought.name,
            "request": item.sought.request,
            "inputs": [picture.name for picture in item.sought.inputs],
            "outputs": [picture.name for picture in item.sought.outputs],
            "output": item.output.name,
            "instruction": item.instruction,
            "category": CATEGORIES[item.category][0] if item.category else None,
            "problem": item.problem,
        }
        for item in sorted(items, key=lambda one: one.sought.id)
    ]
