"""What a build leaves: the dataset, its card, what was dropped, what is known of each set, the file to decide in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from refbench.benchmarks.multibanana.details import GROUPS, TAGS, TASKS
from refbench.builders import BuildReport
from refbench.builders.folder import as_lines, offer_review
from refbench.builders.multibanana.layout import picture_rows, set_rows, write_dataset
from refbench.builders.multibanana.looking import Eyes
from refbench.builders.multibanana.looks import CATEGORIES
from refbench.builders.multibanana.making import FinishedSet
from refbench.builders.multibanana.tasks import Member
from refbench.builders.multibanana.words import prompts_key
from refbench.builders.rounds import Worked
from refbench.chat.families import family_of
from refbench.chat.spec import Spec
from refbench.runs.disk import disk_error, write_whole
from refbench.workshop import DroppedItems, Review
from refbench.workshop.card import Card, write_card


@dataclass(frozen=True)
class Settings:
    """What the build was asked for, as the card tells it."""

    source: Path
    writer: Spec
    checker: Spec
    size: int
    seed: int
    test_share: float | None
    fill: str = ""
    fill_to: int = 0


@dataclass
class Made:
    """What the work came to."""

    worked: Worked[FinishedSet]
    there: int = 0
    """Pictures in the source that can be opened, look-alikes apart."""
    looked: int = 0
    pool: list[Member] = field(default_factory=list)
    sets: dict[str, list[FinishedSet]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    """Categories that filling was to bring to a number and has not, with the pictures they have."""


def ship(
    out: Path,
    settings: Settings,
    made: Made,
    eyes: Eyes,
    dropped: DroppedItems,
    review: Review,
    *,
    asked: int,
    cost: float | None,
) -> BuildReport:
    """Write everything, and say what was written."""
    write_dataset(out, made.sets)
    counts, notes = _counts(made), _notes(settings, made, eyes, review)
    card = Card(
        title=f"{settings.source.resolve().name}: a MultiBanana of its own",
        about="Sets of reference pictures with an instruction each, in the layout of MultiBanana (arXiv 2511.22989): "
        "one reference, two, or three to eight. Pictures and instructions are not those of the paper: scores do not "
        "stand beside its tables.",
        counts=counts,
        settings=_said(settings, eyes, dropped),
        provenance=_provenance(settings, made),
        missing=made.missing,
        notes=notes,
    )
    write_card(card, dropped, out, settings.source)
    dropped.write(out / "dropped.jsonl")
    rows = set_rows(made.sets)
    try:
        write_whole(out / "sets.jsonl", as_lines(rows))
    except OSError as error:
        raise disk_error(error, out) from error
    offer_review(out / "review.jsonl", [*rows, *picture_rows(made.pool)])
    return BuildReport(
        benchmark="multibanana",
        out=str(out),
        data=tuple(str(out / split) for split in made.sets),
        wanted=settings.size,
        made=len(made.worked.items),
        begun=made.worked.begun,
        unfinished=made.worked.unfinished,
        dropped=dropped.counts(),
        counts=counts,
        missing=made.missing,
        notes=tuple(notes),
        asked=asked,
        cost_usd=cost,
        stopped=made.worked.stopped,
    )


def _counts(made: Made) -> dict[str, int]:
    sets = [one for finished in made.sets.values() for one in finished]
    found = {"pictures that were looked at": made.looked, "pictures that passed": len(made.pool), "sets": len(sets)}
    found |= {f"sets in {split}": len(finished) for split, finished in made.sets.items() if split}
    groups = Counter(one.candidate.task.group for one in sets)
    found |= {f"sets, {name}": groups[name] for name in GROUPS}
    tasks = Counter(one.candidate.task.name for one in sets)
    found |= {f"task {name}": tasks[name] for name in TASKS}
    tags = Counter(tag for one in sets for tag in one.tags)
    found |= {f"tag {label}": tags[label] for label in TAGS}
    found |= {f"pictures for {name}": sum(name in one.categories for one in made.pool) for name in CATEGORIES}
    return found


def _said(settings: Settings, eyes: Eyes, dropped: DroppedItems) -> dict[str, str]:
    """The settings that make the dataset what it is; addresses and keys of endpoints are nobody's business."""
    found = {
        "writer": f"{settings.writer.kind}:{settings.writer.what}",
        "checker": f"{settings.checker.kind}:{settings.checker.what}",
        "size": str(settings.size),
        "seed": str(settings.seed),
        "prompts": prompts_key(),
    }
    if settings.test_share is not None:
        found["test share"] = f"{settings.test_share:g}"
    if settings.fill:
        found["filled by"] = f"{settings.fill}, up to {settings.fill_to} pictures of a category"
    reasons = Counter[str]()
    for stage in ("filters", "check"):
        reasons.update(dropped.counts().get(stage, {}))
    for name, one in eyes.filters.items():
        spoken = name.replace("_", " ")
        outside = (f"{spoken} below", f"{spoken} above")
        left = sum(number for reason, number in reasons.items() if reason.startswith(outside))
        who = f", by {eyes.chosen[name]}" if name in eyes.chosen else ""
        said = "not run" if name in eyes.missing else one.words() + who
        counted = one.use and name not in eyes.missing and name != "object"
        found[f"filter {spoken}"] = f"{said}: {left:,} left out" if counted else said
    return found


def _provenance(settings: Settings, made: Made) -> list[str]:
    real = sum(not one.picture.made_by for one in made.pool)
    lines = [f"{real:,} of {made.there:,} pictures of the folder {settings.source.resolve().name}"]
    painted = Counter(one.picture.made_by for one in made.pool if one.picture.made_by)
    lines += [f"{number:,} pictures painted by {model}" for model, number in sorted(painted.items())]
    return [*lines, "from_where.csv says it of every reference, with the prompt of those that were painted"]


def _notes(settings: Settings, made: Made, eyes: Eyes, review: Review) -> list[str]:
    notes = [f"the filter {name.replace('_', ' ')} was not run: {why}." for name, why in eyes.missing.items()]
    if eyes.chosen.get("object_mask") == "u2netp":
        notes.append("masks are the salient part of each box (u2netp), not those of a segmenter that takes boxes.")
    if settings.writer.what == settings.checker.what:
        notes.append(
            f"the same model ({settings.writer.what}) wrote and checked: it does not see its own blind spots; "
            "give --checker."
        )
    elif (family := family_of(settings.writer.what)) == family_of(settings.checker.what) != "unknown":
        notes.append(f"writer and checker are of one family ({family}).")
    if made.looked < made.there:
        notes.append(f"{made.looked:,} of {made.there:,} pictures were looked at: enough for the sets wanted.")
    notes += [f"{name} was to have {settings.fill_to} pictures and has {has}." for name, has in made.short.items()]
    if copies := sum(".build" in one.picture.path.parts and not one.picture.made_by for one in made.pool):
        notes.append(
            f"{copies} pictures were re-encoded as plain RGB (palette, alpha, rotation tag, profile or another format)."
        )
    if strangers := review.strangers():
        shown = ", ".join(strangers[:5])
        notes.append(f"the review decides about {len(strangers)} items that this build does not have: {shown}.")
    notes.append("difficulty tags follow from the classification of the references; nobody has looked at them.")
    notes.append("the licence of the pictures is not known to RefBench: state it before you share them.")
    return notes
