"""The official layout on disk: multi_image_benchmark/ with the list of entries and compressed_images/."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.multiref.cases import CATEGORIES
from refbench.builders import BuildReport
from refbench.builders.kit.card import Card, Sample
from refbench.builders.kit.flow import Worked, hand_over, spread
from refbench.builders.kit.folder import SPLITS, Shipment, as_json
from refbench.builders.kit.settings import Settings
from refbench.builders.multiref_real.asking import prompts_key
from refbench.builders.multiref_real.item import INPUTS, Item
from refbench.builders.multiref_real.making import Makers

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


# What a build leaves: the dataset, its card, what was dropped, and the file for people to decide in.

_ABOUT = (
    "Real edits of two to six pictures in the layout of MultiRef-Bench's real-world split (arXiv 2508.06905): an "
    "instruction that names every picture by its token, and the picture that somebody made of them. Requests and "
    "pictures are not those of the paper: scores do not stand beside its table."
)


def ship(
    out: Path, settings: Settings, worked: Worked[Item], makers: Makers, *, asked: int, cost: float | None
) -> BuildReport:
    """Write everything, and say what was written."""
    items, offered = worked.items, list(makers.offered.values())
    by_split = {split: [item for item in items if item.sought.split == split] for split in settings.splits}
    for split in ("", *SPLITS):  # a build with other splits may have been here
        write_dataset(out / split, by_split.get(split, []))
    card = Card(
        title=f"A real-world MultiRef of {settings.source.resolve().stem}",
        about=_ABOUT,
        counts=_counts(items, by_split),
        settings=settings.told(prompts_key()),
        provenance=[f"{len(items):,} requests from {settings.source.name}; the words of each are in original_request"],
        missing=_missing(worked),
        notes=_notes(settings, offered),
        samples=[
            Sample(one.sought.name, one.instruction, [picture.path for picture in (*one.sought.inputs, one.output)])
            for one in spread(items, lambda item: str(item.category))
        ],
    )
    return hand_over(
        out,
        "multiref",
        settings,
        card,
        worked,
        {split: len(members) for split, members in by_split.items()},
        makers.dropped,
        makers.review,
        review_rows([*items, *offered]),
        copies=len({p.sha256 for one in items for p in (*one.sought.inputs, one.output) if p.copied}),
        asked=asked,
        cost=cost,
    )


def _counts(items: Sequence[Item], by_split: Mapping[str, Sequence[Item]]) -> dict[str, int]:
    found = {"entries": len(items)}
    found |= {f"entries in {split}": len(members) for split, members in by_split.items() if split}
    of = Counter(item.category for item in items)
    found |= {title: of[category] for category, (_, title, _) in CATEGORIES.items()}
    pictures = Counter(len(item.sought.inputs) for item in items)
    found |= {f"entries with {number} pictures": pictures[number] for number in range(INPUTS[0], INPUTS[1] + 1)}
    return found


def _missing(worked: Worked[Item]) -> dict[str, str]:
    there = {item.category for item in worked.items}
    why = "the build was not finished" if worked.unfinished else "no request of this kind was accepted"
    return {title: why for category, (_, title, _) in CATEGORIES.items() if category not in there}


def _notes(settings: Settings, offered: Sequence[Item]) -> list[str]:
    notes = settings.kinship("the same model ({model}) wrote the instructions and accepted them: give --checker.")
    if settings.specs["checker"] is None:
        notes.append("nobody has checked whether every input is needed and the output follows: give --checker.")
    if offered:
        notes.append(
            f"{len(offered)} requests were left out that a person may mend (a missing token, a doubt of the checker): "
            "they are in review.jsonl with their problem."
        )
    notes.append("whether the people in the pictures agree is not known to RefBench: find out before you share them.")
    return notes
