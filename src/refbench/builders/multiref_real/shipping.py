"""What a build leaves: the dataset, its card, what was dropped, and the file for people to decide in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from refbench.benchmarks.multiref.details import CATEGORIES
from refbench.builders import BuildReport
from refbench.builders.folder import SPLITS
from refbench.builders.handing import hand_over, spread
from refbench.builders.multiref_real.asking import prompts_key
from refbench.builders.multiref_real.item import INPUTS, Item
from refbench.builders.multiref_real.layout import review_rows, write_dataset
from refbench.builders.multiref_real.making import Makers
from refbench.builders.rounds import Worked
from refbench.builders.settings import Settings
from refbench.workshop.card import Card, Sample

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
