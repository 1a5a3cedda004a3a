"""What a build leaves: the dataset, its card, prompts for text-to-image models, what was dropped, and the review."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from refbench.benchmarks.ideabench.details import CATEGORIES, LISTED
from refbench.benchmarks.ideabench.taxonomy import group_of
from refbench.builders import BuildReport
from refbench.builders.folder import SPLITS, as_lines, put_file
from refbench.builders.handing import hand_over, spread
from refbench.builders.ideabench.asking import prompts_key
from refbench.builders.ideabench.item import Item
from refbench.builders.ideabench.layout import REPHRASED, rephrased_rows, review_rows, write_dataset
from refbench.builders.ideabench.making import Makers
from refbench.builders.rounds import Worked
from refbench.builders.settings import Settings
from refbench.workshop.card import Card, Sample

Regime = Literal["needed", "always", "none"]

_ABOUT = (
    "Professional design tasks in the layout of IDEA-Bench (arXiv 2412.11767): for each case a text, pictures and six "
    "questions that earn 0 or 1. Unless questions 1 and 2 are earned nothing else counts; unless 3 and 4 are, the last "
    "two do not. Tasks and questions are not those of the paper: scores do not stand beside its table."
)


def ship(
    out: Path,
    settings: Settings,
    worked: Worked[Item],
    makers: Makers,
    prompts: Mapping[str, tuple[str, ...]],
    rephrase: Regime,
    *,
    asked: int,
    cost: float | None,
) -> BuildReport:
    """Write everything, and say what was written."""
    items = worked.items
    by_split = {split: [item for item in items if item.sought.split == split] for split in settings.splits}
    for split in ("", *SPLITS):  # a build with other splits may have been here
        mine = by_split.get(split, [])
        write_dataset(out / split, mine)
        put_file(out / split / REPHRASED, as_lines(rephrased_rows(mine, prompts, settings.writer)))
    card = Card(
        title=f"An IDEA-Bench of {settings.source.resolve().stem}",
        about=_ABOUT,
        counts=_counts(items, prompts, by_split),
        settings={**settings.told(prompts_key()), "rephrased": rephrase},
        provenance=[
            f"{len({p.sha256 for i in items for p in i.sought.pictures}):,} pictures of {settings.source.name}"
        ],
        missing=_missing(worked),
        notes=_notes(settings, worked, prompts, rephrase),
        samples=[
            Sample(one.id, one.instruction, [picture.path for picture in one.sought.pictures])
            for one in spread(items, lambda item: item.sought.category)
        ],
    )
    return hand_over(
        out,
        "ideabench",
        settings,
        card,
        worked,
        {split: len(members) for split, members in by_split.items()},
        makers.dropped,
        makers.review,
        review_rows([*items, *makers.offered.values()]),
        copies=len({p.sha256 for one in items for p in one.sought.pictures if p.copied}),
        asked=asked,
        cost=cost,
    )


def _counts(
    items: Sequence[Item], prompts: Mapping[str, tuple[str, ...]], by_split: Mapping[str, Sequence[Item]]
) -> dict[str, int]:
    found = {"tasks": len({item.sought.slug for item in items}), "cases": len(items)}
    found |= {f"cases in {split}": len(members) for split, members in by_split.items() if split}
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


def _notes(
    settings: Settings, worked: Worked[Item], prompts: Mapping[str, tuple[str, ...]], rephrase: Regime
) -> list[str]:
    items = worked.items
    notes = settings.kinship("the same model ({model}) wrote the questions and checked them: give another --checker.")
    if settings.specs["checker"] is None:
        notes.append("nobody has checked the questions but this program: give --checker, or read review.jsonl.")
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
    due = sum(rephrase == "always" or item.sought.category != "T2I" for item in items)
    if rephrase != "none" and len(prompts) < due:
        notes.append(f"{due - len(prompts)} of {due} cases have no prompts for text-to-image models.")
    return notes


def _in_tables(item: Item) -> bool:
    group = group_of(item.sought.category, item.sought.slug, item.sought.task)
    return group is not None and group.category == item.sought.category
