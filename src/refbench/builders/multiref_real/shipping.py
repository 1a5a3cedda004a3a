"""What a build leaves: the dataset, its card, what was dropped, and the file for people to decide in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.benchmarks.multiref.details import CATEGORIES
from refbench.builders import BuildReport
from refbench.builders.folder import SPLITS, offer_review
from refbench.builders.multiref_real.asking import prompts_key
from refbench.builders.multiref_real.item import INPUTS, Item
from refbench.builders.multiref_real.layout import review_rows, write_dataset
from refbench.builders.rounds import Worked
from refbench.chat.families import family_of
from refbench.chat.spec import Spec
from refbench.workshop import DroppedItems, Review
from refbench.workshop.card import Card, write_card

_ABOUT = (
    "Real edits of two to six pictures in the layout of MultiRef-Bench's real-world split (arXiv 2508.06905): an "
    "instruction that names every picture by its token, and the picture that somebody made of them. Requests and "
    "pictures are not those of the paper: scores do not stand beside its table."
)


@dataclass(frozen=True)
class Settings:
    """What the build was asked for, as the card tells it."""

    specs: Mapping[str, Spec]
    seed: int
    source: Path
    test_share: float | None
    pictures: Path


def ship(
    out: Path,
    settings: Settings,
    worked: Worked[Item],
    offered: Sequence[Item],
    dropped: DroppedItems,
    review: Review,
    splits: Sequence[str],
    *,
    wanted: int,
    asked: int,
    cost: float | None,
) -> BuildReport:
    """Write everything, and say what was written."""
    items = worked.items
    for split in ("", *SPLITS):  # a build with other splits may have been here
        write_dataset(out / split, [item for item in items if item.sought.split == split] if split in splits else [])
    counts, missing = _counts(items, splits), _missing(worked)
    notes = _notes(settings, items, offered, review)
    name = settings.source.resolve().stem
    card = Card(
        title=f"{name}: a real-world MultiRef of its own",
        about=_ABOUT,
        counts=counts,
        settings=_said(settings, wanted),
        provenance=[f"{len(items):,} requests from {settings.source.name}; the words of each are in original_request"],
        missing=missing,
        notes=notes,
    )
    write_card(card, dropped, out, settings.pictures)
    dropped.write(out / "dropped.jsonl")
    offer_review(out / "review.jsonl", review_rows([*items, *offered]))
    return BuildReport(
        benchmark="multiref",
        out=str(out),
        data=tuple(str(out / split) for split in splits),
        wanted=wanted,
        made=len(items),
        begun=worked.begun,
        unfinished=worked.unfinished,
        dropped=dropped.counts(),
        counts=counts,
        missing=missing,
        notes=tuple(notes),
        asked=asked,
        cost_usd=cost,
        stopped=worked.stopped,
    )


def _counts(items: Sequence[Item], splits: Sequence[str]) -> dict[str, int]:
    found = {"entries": len(items)}
    if len(splits) > 1:
        found |= {f"entries in {split}": sum(item.sought.split == split for item in items) for split in splits}
    of = Counter(item.category for item in items)
    found |= {title: of[category] for category, (_, title, _) in CATEGORIES.items()}
    pictures = Counter(len(item.sought.inputs) for item in items)
    found |= {f"entries with {number} pictures": pictures[number] for number in range(INPUTS[0], INPUTS[1] + 1)}
    return found


def _missing(worked: Worked[Item]) -> dict[str, str]:
    there = {item.category for item in worked.items}
    why = "the build was not finished" if worked.unfinished else "no request of this kind was accepted"
    return {title: why for category, (_, title, _) in CATEGORIES.items() if category not in there}


def _said(settings: Settings, wanted: int) -> dict[str, str]:
    """The settings that make the dataset what it is; addresses and keys of endpoints are nobody's business."""
    found = {role: f"{spec.kind}:{spec.what}" for role, spec in settings.specs.items()}
    found.setdefault("checker", "none")
    found |= {"size": str(wanted), "seed": str(settings.seed), "prompts": prompts_key()}
    if settings.test_share is not None:
        found["test share"] = f"{settings.test_share:g}"
    return found


def _notes(settings: Settings, items: Sequence[Item], offered: Sequence[Item], review: Review) -> list[str]:
    writer, checker = settings.specs["writer"], settings.specs.get("checker")
    notes: list[str] = []
    if checker is None:
        notes.append("nobody has checked whether every input is needed and the output follows: give --checker.")
    elif checker.what == writer.what:
        notes.append(
            f"the same model ({writer.what}) wrote the instructions and accepted them: give another --checker."
        )
    elif (family := family_of(writer.what)) == family_of(checker.what) != "unknown":
        notes.append(f"writer and checker are of one family ({family}).")
    if offered:
        notes.append(
            f"{len(offered)} requests were left out that a person may mend (a missing token, a doubt of the checker): "
            "they are in review.jsonl with their problem."
        )
    pictures = {p.sha256: p for item in items for p in (*item.sought.inputs, item.output)}
    if copies := sum(picture.copied for picture in pictures.values()):
        notes.append(
            f"{copies} pictures were re-encoded as plain RGB (palette, alpha, rotation tag, profile or another format)."
        )
    if strangers := review.strangers():
        shown = ", ".join(strangers[:5])
        notes.append(f"the review decides about {len(strangers)} requests that this build does not have: {shown}.")
    notes.append(
        "the licence of texts and pictures, and whether the people in them agree, is not known to RefBench: find out "
        "before you share them."
    )
    return notes
