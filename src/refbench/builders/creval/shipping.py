"""What a build leaves: the dataset, its card, what was dropped, and the file for people to decide in."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.benchmarks.creval.details import DIMENSIONS, METRICS
from refbench.builders import BuildReport
from refbench.builders.creval.asking import prompts_key
from refbench.builders.creval.item import Item
from refbench.builders.creval.layout import review_rows, write_dataset
from refbench.builders.creval.making import Flagged, Makers
from refbench.builders.handing import hand_over, spread
from refbench.builders.rounds import Worked
from refbench.builders.settings import Settings
from refbench.workshop import Review
from refbench.workshop.card import Card, Sample

_ABOUT = (
    "Creative image edits in the layout of CREval (arXiv 2603.26174): an instruction for each picture, and yes/no "
    "questions on instruction following (IF), consistency (VC) and visual quality (VQ) to judge it by. Pictures, "
    "instructions and questions are not those of the paper: scores do not stand beside its table."
)


@dataclass(frozen=True)
class Made:
    """What the work came to."""

    worked: Worked[Item]
    short: Mapping[int, int]
    """Items that are missing of each dimension."""
    more: bool
    """There are pictures that were not to be looked at."""


def ship(
    out: Path,
    settings: Settings,
    made: Made,
    makers: Makers,
    review: Review,
    examples: Path | None,
    *,
    asked: int,
    cost: float | None,
) -> BuildReport:
    """Write everything, and say what was written."""
    items = made.worked.items
    by_split = {split: [item for item in items if item.planned.split == split] for split in settings.splits}
    for split, members in by_split.items():
        write_dataset(out / split, members)
    name = settings.source.resolve().name
    card = Card(
        title=f"A CREval of {name}",
        about=_ABOUT,
        counts=_counts(items, by_split),
        settings=_said(settings, examples, makers.flagged),
        provenance=[f"{len(items):,} pictures of the folder {name}"],
        missing=_missing(made),
        notes=_notes(settings, items),
        samples=[
            Sample(one.stem, f"({DIMENSIONS[one.planned.class_id][1]}) {one.instruction}", [one.planned.picture.path])
            for one in spread(items, lambda item: str(item.planned.class_id))
        ],
    )
    return hand_over(
        out,
        "creval",
        settings,
        card,
        made.worked,
        {split: len(members) for split, members in by_split.items()},
        makers.dropped,
        review,
        review_rows(items),
        copies=sum(item.planned.picture.copied for item in items),
        asked=asked,
        cost=cost,
    )


def _counts(items: Sequence[Item], by_split: Mapping[str, Sequence[Item]]) -> dict[str, int]:
    found = {"items": len(items)}
    found |= {f"items in {split}": len(members) for split, members in by_split.items() if split}
    of = Counter(item.planned.class_id for item in items)
    found |= {name: of[number] for number, (_, name) in DIMENSIONS.items()}
    found |= {f"questions {metric}": sum(len(item.questions[metric].questions) for item in items) for metric in METRICS}
    return found


def _missing(made: Made) -> dict[str, str]:
    if made.worked.unfinished:
        why = "the build was not finished"
    elif made.more:
        why = "of three pictures looked at for each item, too few suit it or came through"
    else:
        why = "no picture that suits it is left"
    return {DIMENSIONS[number][1]: f"{many} short: {why}" for number, many in made.short.items() if many > 0}


def _said(settings: Settings, examples: Path | None, flagged: Flagged) -> dict[str, str]:
    found = settings.told(prompts_key())
    if examples is not None:
        found["examples"] = f"{examples.name} ({hashlib.sha256(examples.read_bytes()).hexdigest()[:16]})"
    found["flagged questions"] = {"drop": "left out", "keep": "kept, and listed in review.jsonl"}[flagged]
    return found


def _notes(settings: Settings, items: Sequence[Item]) -> list[str]:
    notes = settings.kinship(
        "the same model ({model}) wrote instructions and questions; the paper uses another one for the questions, so "
        "that they do not share its blind spots: give --checker."
    )
    if settings.specs["auditor"] is None:
        notes.append("the questions were not audited: some may be answered Yes without any edit.")
    if kept := sum(len(item.questions[metric].flagged) for item in items for metric in METRICS):
        notes.append(f"{kept} questions cannot tell an edit from none and were kept: see flagged in review.jsonl.")
    return notes
