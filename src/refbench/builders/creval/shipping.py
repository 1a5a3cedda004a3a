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
from refbench.builders.folder import offer_review
from refbench.chat.families import family_of
from refbench.chat.spec import Spec
from refbench.workshop import DroppedItems, Review
from refbench.workshop.card import Card, write_card


@dataclass(frozen=True)
class Settings:
    """What the build was asked for, as the card tells it."""

    specs: Mapping[str, Spec | None]
    wanted: int
    seed: int
    source: Path
    examples: Path | None
    test_share: float | None
    flagged: str
    pictures: Path


@dataclass(frozen=True)
class Made:
    """What the work came to."""

    items: Sequence[Item]
    begun: int
    unfinished: int
    stopped: str
    places: Mapping[int, int]
    """Items that are missing of each dimension."""
    more: bool
    """There are pictures that were not to be looked at."""


def ship(
    out: Path,
    settings: Settings,
    made: Made,
    dropped: DroppedItems,
    review: Review,
    splits: Sequence[str],
    *,
    asked: int,
    cost: float | None,
) -> BuildReport:
    """Write everything, and say what was written."""
    for split in splits:
        write_dataset(out / split, [item for item in made.items if item.planned.split == split])
    counts, missing = _counts(made.items, splits), _missing(made)
    notes = _notes(settings, made, dropped, review)
    card = Card(
        title=f"{settings.source.resolve().name}: a CREval of its own",
        about="Creative image edits in the layout of CREval (arXiv 2603.26174): an instruction for each picture, and "
        "yes/no questions on instruction following (IF), consistency (VC) and visual quality (VQ) to judge it by. "
        "Pictures, instructions and questions are not those of the paper: scores do not stand beside its table.",
        counts=counts,
        settings=_said(settings),
        provenance=[f"{len(made.items):,} pictures of the folder {settings.source.resolve().name}"],
        missing=missing,
        notes=notes,
    )
    write_card(card, dropped, out, settings.pictures)
    dropped.write(out / "dropped.jsonl")
    offer_review(out / "review.jsonl", review_rows(made.items))
    return BuildReport(
        benchmark="creval",
        out=str(out),
        data=tuple(str(out / split) for split in splits),
        wanted=settings.wanted,
        made=len(made.items),
        begun=made.begun,
        unfinished=made.unfinished,
        dropped=dropped.counts(),
        counts=counts,
        missing=missing,
        notes=tuple(notes),
        asked=asked,
        cost_usd=cost,
        stopped="budget" if made.stopped == "budget" else "unreachable" if made.stopped else "",
    )


def _counts(items: Sequence[Item], splits: Sequence[str]) -> dict[str, int]:
    found = {"items": len(items)}
    if len(splits) > 1:
        found |= {f"items in {split}": sum(item.planned.split == split for item in items) for split in splits}
    of = Counter(item.planned.class_id for item in items)
    found |= {name: of[number] for number, (_, name) in DIMENSIONS.items()}
    found |= {f"questions {metric}": sum(len(item.questions[metric].questions) for item in items) for metric in METRICS}
    return found


def _missing(made: Made) -> dict[str, str]:
    if made.unfinished:
        why = "the build was not finished"
    elif made.more:
        why = "of three pictures looked at for each item, too few suit it or came through"
    else:
        why = "no picture that suits it is left"
    return {DIMENSIONS[number][1]: f"{many} short: {why}" for number, many in made.places.items() if many > 0}


def _said(settings: Settings) -> dict[str, str]:
    """The settings that make the dataset what it is; addresses and keys of endpoints are nobody's business."""
    found = {role: f"{spec.kind}:{spec.what}" if spec else "none" for role, spec in settings.specs.items()}
    found |= {"size": str(settings.wanted), "seed": str(settings.seed), "prompts": prompts_key()}
    if settings.examples is not None:
        digest = hashlib.sha256(settings.examples.read_bytes()).hexdigest()[:16]
        found["examples"] = f"{settings.examples.name} ({digest})"
    if settings.test_share is not None:
        found["test share"] = f"{settings.test_share:g}"
    found["flagged questions"] = {"drop": "left out", "keep": "kept, and listed in review.jsonl"}[settings.flagged]
    return found


def _notes(settings: Settings, made: Made, dropped: DroppedItems, review: Review) -> list[str]:
    writer, checker, auditor = (settings.specs[role] for role in ("writer", "checker", "auditor"))
    notes: list[str] = []
    if writer and checker and writer.what == checker.what:
        notes.append(
            f"the same model ({writer.what}) wrote instructions and questions; the paper uses another one for the "
            "questions, so that they do not share its blind spots: give --checker."
        )
    elif writer and checker and (family := family_of(writer.what)) == family_of(checker.what) != "unknown":
        notes.append(f"writer and checker are of one family ({family}).")
    if auditor is None:
        notes.append("the questions were not audited: some may be answered Yes without any edit.")
    if kept := sum(len(item.questions[metric].flagged) for item in made.items for metric in METRICS):
        notes.append(f"{kept} questions cannot tell an edit from none and were kept: see flagged in review.jsonl.")
    copies = sum(item.planned.picture.copied for item in made.items)
    if copies:
        notes.append(
            f"{copies} pictures were re-encoded as plain RGB (palette, alpha, rotation tag, profile or another format)."
        )
    if made.unfinished:
        notes.append(f"{made.unfinished} items or pictures are unfinished for want of replies: the next run goes on.")
    if strangers := review.strangers():
        shown = ", ".join(strangers[:5])
        notes.append(f"the review decides about {len(strangers)} items that this build does not have: {shown}.")
    notes.append("the licence of the pictures is not known to RefBench: state it before you share them.")
    return notes
