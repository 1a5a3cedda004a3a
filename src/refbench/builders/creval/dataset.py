"""The official layout on disk: bench/instruction.json, bench/image, bench/questions_all."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refbench.benchmarks.creval.cases import DIMENSIONS, METRICS, Metric
from refbench.builders import BuildReport
from refbench.builders.creval.asking import prompts_key
from refbench.builders.creval.item import Item, Questions
from refbench.builders.creval.making import Flagged, Makers
from refbench.builders.kit import Review
from refbench.builders.kit.card import Card, Sample
from refbench.builders.kit.flow import Worked, hand_over, spread
from refbench.builders.kit.folder import SPLITS, Shipment, as_json, claim
from refbench.builders.kit.settings import Settings

_LISTED = {"IF": "Requirements", "VC": "May change", "VQ": "Where the edit shows"}


def take_folder(out: Path, source: Path, splits: Sequence[str]) -> None:
    """Take the folder for this build, unless it holds somebody's data, and clear it of splits that are no more."""
    claim(out, source, "creval", ("bench",))
    for stale in {"", *SPLITS} - set(splits):
        Shipment(out / stale / "bench").finish()


def write_dataset(root: Path, items: Sequence[Item]) -> None:
    """Write `root`/bench. The list of items comes last, so that a build that is stopped lists nothing half-written."""
    bench = Shipment(root / "bench")
    entries: list[dict[str, Any]] = []
    for number, item in enumerate(sorted(items, key=lambda one: one.stem), 1):
        picture = item.planned.picture
        name = f"image/{item.stem}{picture.extension}"
        bench.put(name, picture.path)
        for metric, questions in item.questions.items():
            stem = f"questions_all/{metric}/{item.stem}"
            bench.put(f"{stem}.json", as_json(questions_entry(questions)))
            bench.put(f"{stem}.txt", questions_text(metric, questions).encode())
        entries.append(
            {
                "id": number,
                "input_prompt": item.instruction,
                "input_image": [name],
                "input_image_resolution": list(picture.size),
                "class_id": item.planned.class_id,
            }
        )
    if entries:
        bench.put("instruction.json", as_json(entries))
    bench.finish()


def questions_entry(questions: Questions) -> dict[str, Any]:
    return {
        "quality_check_questions": [
            {
                "question_id": f"Q{number}",
                "thinking_process": one.thinking,
                "question": one.question,
                "choices": ["Yes", "No"],
                "answer": "Yes",
                "weight": one.weight,
            }
            for number, one in enumerate(questions.questions, 1)
        ]
    }


def questions_text(metric: Metric, questions: Questions) -> str:
    """The same as text, in the blocks of the release; one line each, so that no line is taken for a heading."""
    blocks = [f"{_LISTED[metric]}: {'; '.join(questions.listed)}\n"] if questions.listed else []
    blocks += [
        f"Q{number}:\nThinking process: {one.thinking}\nQuestion: {one.question}\nChoices: Yes, No\nA: Yes\n"
        f"Weight: {one.weight}\n"
        for number, one in enumerate(questions.questions, 1)
    ]
    return "\n".join(blocks)


def review_rows(items: Sequence[Item]) -> list[dict[str, Any]]:
    """What people are asked to decide about: everything of the item that can be edited, and what the audit says."""
    return [
        {
            "id": item.stem,
            "picture": item.planned.picture.name,
            "class_id": item.planned.class_id,
            "instruction": item.instruction,
            **{
                metric: [one.model_dump(include={"question", "weight"}) for one in item.questions[metric].questions]
                for metric in METRICS
            },
            "flagged": [text for metric in METRICS for text in item.questions[metric].flagged],
        }
        for item in sorted(items, key=lambda one: one.stem)
    ]


# What a build leaves: the dataset, its card, what was dropped, and the file for people to decide in.

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
