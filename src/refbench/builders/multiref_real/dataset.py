"""What a build leaves: multi_image_benchmark/ with the list of entries and compressed_images/, as the release has them,
and what the card says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.multiref.cases import CATEGORIES
from refbench.builders import BuildReport
from refbench.builders.kit.card import Card, Sample
from refbench.builders.kit.flow import Work, counted, finish, one_of_each, write_splits
from refbench.builders.kit.folder import Shipment, as_json
from refbench.builders.multiref_real import MultiRefRealSettings
from refbench.builders.multiref_real.item import Item
from refbench.builders.multiref_real.sources import INPUTS

PLACE = "multi_image_benchmark"
ENTRIES = "final_prompts_taxonomy.json"
_PICTURES = "compressed_images"


def write_dataset(root: Path, items: Sequence[Item]) -> None:
    """Write `root`/multi_image_benchmark. The list of entries comes last: a build that is stopped lists no half one."""
    shipment = Shipment(root / PLACE)
    entries: list[dict[str, Any]] = []
    for item in sorted(items, key=lambda one: one.request.id):
        found = entry(item)
        for path, picture in zip(
            [*found["image_path_mapping"].values(), found["output_image_path"]],
            item.pictures,
            strict=True,
        ):
            shipment.put(path, picture.path)
        entries.append(found)
    if entries:
        shipment.put(ENTRIES, as_json(entries))
    shipment.finish()


def entry(item: Item) -> dict[str, Any]:
    """A row as the release has it: number, prompt with tokens, pictures, the golden one, and the category's number."""
    assert item.category is not None
    stem = f"{_PICTURES}/{item.request.id:04d}"
    inputs = {
        f"image{number}": f"{stem}_image{number}{picture.extension}"
        for number, picture in enumerate(item.request.inputs, 1)
    }
    return {
        "row_id": item.request.id,
        "prompt": item.instruction,
        "image_path_mapping": inputs,
        "output_image_path": f"{stem}_output{item.output.extension}",
        "category": CATEGORIES[item.category][0],
        "original_request": item.request.text,
    }


def review_rows(items: Sequence[Item]) -> list[dict[str, Any]]:
    """What people are asked to decide about: all that can be edited, and what is against an entry that was dropped."""
    return [
        {
            "id": item.request.name,
            "request": item.request.text,
            "inputs": [picture.name for picture in item.request.inputs],
            "outputs": [picture.name for picture in item.request.outputs],
            "output": item.output.name,
            "instruction": item.instruction,
            "category": CATEGORIES[item.category][0] if item.category else None,
            "problem": item.problem,
        }
        for item in sorted(items, key=lambda one: one.request.id)
    ]


_ABOUT = (
    "Real edits of two to six pictures in the layout of MultiRef-Bench's real-world split (arXiv 2508.06905): an "
    "instruction that names every picture by its token, and the picture that somebody made of them. Requests and "
    "pictures are not those of the paper: scores do not stand beside its table."
)


def ship(work: Work[MultiRefRealSettings, Item]) -> BuildReport:
    """Write everything, and say what was written."""
    source, items = work.settings.source, work.items
    splits = work.by_split(lambda item: item.request.split)
    write_splits(work.settings.out, splits, write_dataset)
    kinds = {category: title for category, (_, title, _) in CATEGORIES.items()}
    card = Card(
        title=f"A real-world MultiRef of {source.resolve().stem}",
        about=_ABOUT,
        counts=_counts(splits),
        settings=work.described(),
        provenance=[f"{len(items):,} requests from {source.name}; the words of each are in original_request"],
        missing=work.not_covered(kinds, lambda item: item.category, "no request of this kind was accepted"),
        notes=_notes(work),
        samples=[
            Sample(one.request.name, one.instruction, [picture.path for picture in one.pictures])
            for one in one_of_each(items, lambda item: str(item.category))
        ],
    )
    copies = len({picture.sha256 for one in items for picture in one.pictures if picture.copied})
    return finish(work, card, splits, review_rows([*items, *work.offered.values()]), copies)


def _counts(splits: Mapping[str, Sequence[Item]]) -> dict[str, int]:
    items = [item for members in splits.values() for item in members]
    of = Counter(item.category for item in items)
    pictures = Counter(len(item.request.inputs) for item in items)
    return {
        **counted("entries", splits),
        **{title: of[category] for category, (_, title, _) in CATEGORIES.items()},
        **{f"entries with {number} pictures": pictures[number] for number in range(INPUTS[0], INPUTS[1] + 1)},
    }


def _notes(work: Work[MultiRefRealSettings, Item]) -> list[str]:
    notes = work.kinship("the same model ({model}) wrote the instructions and accepted them: give --checker.")
    if work.specs["checker"] is None:
        notes.append("nobody has checked whether every input is needed and the output follows: give --checker.")
    if work.offered:
        notes.append(
            f"{len(work.offered)} requests were left out that a person may mend (a missing token, a doubt of the "
            "checker): they are in review.jsonl with their problem."
        )
    notes.append("whether the people in the pictures agree is not known to RefBench: find out before you share them.")
    return notes
