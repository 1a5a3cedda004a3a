"""What a build leaves: the dataset, its card, prompts for text-to-image models, what was dropped, and the review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.benchmarks.ideabench.details import CATEGORIES, LISTED
from refbench.benchmarks.ideabench.taxonomy import group_of
from refbench.builders import BuildReport
from refbench.builders.folder import SPLITS, as_lines, offer_review, put_file
from refbench.builders.ideabench.asking import prompts_key
from refbench.builders.ideabench.item import Item
from refbench.builders.ideabench.layout import REPHRASED, rephrased_rows, review_rows, write_dataset
from refbench.builders.rounds import Worked
from refbench.chat.families import family_of
from refbench.chat.spec import Spec
from refbench.workshop import DroppedItems, Review
from refbench.workshop.card import Card, write_card

_ABOUT = (
    "Professional design tasks in the layout of IDEA-Bench (arXiv 2412.11767): for each case a text, pictures and six "
    "questions that earn 0 or 1. Unless questions 1 and 2 are earned nothing else counts; unless 3 and 4 are, the last "
    "two do not. Tasks and questions are not those of the paper: scores do not stand beside its table."
)


@dataclass(frozen=True)
class Settings:
    """What the build was asked for, as the card tells it."""

    specs: Mapping[str, Spec]
    seed: int
    source: Path
    rephrase: str
    test_share: float | None
    pictures: Path


def ship(
    out: Path,
    settings: Settings,
    worked: Worked[Item],
    prompts: Mapping[str, tuple[str, ...]],
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
    writer = settings.specs["writer"]
    for split in ("", *SPLITS):  # a build with other splits may have been here
        mine = [item for item in items if item.sought.split == split] if split in splits else []
        write_dataset(out / split, mine)
        put_file(out / split / REPHRASED, as_lines(rephrased_rows(mine, prompts, f"{writer.kind}:{writer.what}")))
    counts, missing = _counts(items, prompts, splits), _missing(worked)
    notes = _notes(settings, worked, prompts, review)
    name = settings.source.resolve().stem
    card = Card(
        title=f"{name}: an IDEA-Bench of its own",
        about=_ABOUT,
        counts=counts,
        settings=_said(settings, wanted),
        provenance=[
            f"{len({p.sha256 for i in items for p in i.sought.pictures}):,} pictures of {settings.source.name}"
        ],
        missing=missing,
        notes=notes,
    )
    write_card(card, dropped, out, settings.pictures)
    dropped.write(out / "dropped.jsonl")
    offer_review(out / "review.jsonl", review_rows([*items, *offered]))
    return BuildReport(
        benchmark="ideabench",
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


def _counts(items: Sequence[Item], prompts: Mapping[str, tuple[str, ...]], splits: Sequence[str]) -> dict[str, int]:
    found = {"tasks": len({item.sought.slug for item in items}), "cases": len(items)}
    if len(splits) > 1:
        found |= {f"cases in {split}": sum(item.sought.split == split for item in items) for split in splits}
    of = Counter(item.sought.category for item in items)
    found |= {f"cases {category} ({words})": of[category] for category, words in CATEGORIES.items()}
    found |= {"questions": 6 * len(items), "cases with prompts for text-to-image models": len(prompts)}
    found |= {f"cases that test {name}": n for name, n in sorted(_capabilities(items).items())}
    return found


def _capabilities(items: Sequence[Item]) -> Counter[str]:
    return Counter(name for item in items for name in item.capabilities)


def _missing(worked: Worked[Item]) -> dict[str, str]:
    there = {item.sought.category for item in worked.items}
    why = "the build was not finished" if worked.unfinished else "no case of this kind was made"
    return {f"{category} ({words})": why for category, words in CATEGORIES.items() if category not in there}


def _said(settings: Settings, wanted: int) -> dict[str, str]:
    """The settings that make the dataset what it is; addresses and keys of endpoints are nobody's business."""
    found = {role: f"{spec.kind}:{spec.what}" for role, spec in settings.specs.items()}
    found.setdefault("checker", "none")
    found |= {"size": str(wanted), "seed": str(settings.seed), "prompts": prompts_key(), "rephrased": settings.rephrase}
    if settings.test_share is not None:
        found["test share"] = f"{settings.test_share:g}"
    return found


def _notes(
    settings: Settings, worked: Worked[Item], prompts: Mapping[str, tuple[str, ...]], review: Review
) -> list[str]:
    items, writer, checker = worked.items, settings.specs["writer"], settings.specs.get("checker")
    notes: list[str] = []
    if checker is None:
        notes.append("nobody has checked the questions but this program: give --checker, or read review.jsonl.")
    elif checker.what == writer.what:
        notes.append(f"the same model ({writer.what}) wrote the questions and checked them: give another --checker.")
    elif (family := family_of(writer.what)) == family_of(checker.what) != "unknown":
        notes.append(f"writer and checker are of one family ({family}).")
    strange = sorted({i.sought.task for i in items if not _in_tables(i)})
    if strange:
        shown = ", ".join(strange[:5])
        notes.append(
            f"{len(strange)} tasks ({shown}) are in no group of the paper's tables for their category: each is a group "
            "of its own, and refbench check says so."
        )
    listed = {uid for uids in LISTED.values() for uid in uids}
    if others := len({item.sought.slug for item in items if item.sought.uid not in listed}):
        notes.append(
            f"the released scorer averages sixteen tasks by their uid; {others} tasks of this dataset are not among "
            "them and are in no mean of the paper protocol: read the corrected one."
        )
    if settings.rephrase != "none":
        due = sum(settings.rephrase == "always" or item.sought.category != "T2I" for item in items)
        if len(prompts) < due:
            notes.append(f"{due - len(prompts)} of {due} cases have no prompts for text-to-image models.")
    if copies := len({p.sha256 for i in items for p in i.sought.pictures if p.copied}):
        notes.append(
            f"{copies} pictures were re-encoded as plain RGB (palette, alpha, rotation tag, profile or another format)."
        )
    if strangers := review.strangers():
        shown = ", ".join(strangers[:5])
        notes.append(f"the review decides about {len(strangers)} cases that this build does not have: {shown}.")
    notes.append("the licence of texts and pictures is not known to RefBench: state it before you share them.")
    return notes


def _in_tables(item: Item) -> bool:
    group = group_of(item.sought.category, item.sought.slug, item.sought.task)
    return group is not None and group.category == item.sought.category
