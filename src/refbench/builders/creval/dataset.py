"""What a build leaves: bench/instruction.json, bench/image and bench/questions_all, and what the card says."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.creval.cases import DIMENSIONS, METRICS, Metric
from refbench.builders import BuildReport
from refbench.builders.creval import CREvalSettings
from refbench.builders.creval.item import Item, Questions
from refbench.builders.kit.card import Card, Sample
from refbench.builders.kit.draws import quotas
from refbench.builders.kit.flow import Work, counted, finish, one_of_each, write_splits
from refbench.builders.kit.folder import Shipment, as_json

_LISTED = {"IF": "Requirements", "VC": "May change", "VQ": "Where the edit shows"}


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


_ABOUT = (
    "Creative image edits in the layout of CREval (arXiv 2603.26174): an instruction for each picture, and yes/no "
    "questions on instruction following (IF), consistency (VC) and visual quality (VQ) to judge it by. Pictures, "
    "instructions and questions are not those of the paper: scores do not stand beside its table."
)


def ship(work: Work[CREvalSettings, Item], *, more: bool) -> BuildReport:
    """Write everything, and say what was written. `more`: there are pictures that were not to be looked at."""
    items, name = work.items, work.settings.source.resolve().name
    splits = work.by_split(lambda item: item.planned.split)
    write_splits(work.settings.out, splits, write_dataset)
    card = Card(
        title=f"A CREval of {name}",
        about=_ABOUT,
        counts=_counts(splits),
        settings=_described(work),
        provenance=[f"{len(items):,} pictures of the folder {name}"],
        missing=_missing(work, more=more),
        notes=_notes(work),
        samples=[
            Sample(one.stem, f"({DIMENSIONS[one.planned.class_id][1]}) {one.instruction}", [one.planned.picture.path])
            for one in one_of_each(items, lambda item: str(item.planned.class_id))
        ],
    )
    copies = sum(item.planned.picture.copied for item in items)
    return finish(work, card, splits, review_rows(items), copies)


def _counts(splits: Mapping[str, Sequence[Item]]) -> dict[str, int]:
    items = [item for members in splits.values() for item in members]
    of = Counter(item.planned.class_id for item in items)
    return {
        **counted("items", splits),
        **{name: of[number] for number, (_, name) in DIMENSIONS.items()},
        **{f"questions {metric}": sum(len(one.questions[metric].questions) for one in items) for metric in METRICS},
    }


def _missing(work: Work[CREvalSettings, Item], *, more: bool) -> dict[str, str]:
    if work.unfinished:
        why = "the build was not finished"
    elif more:
        why = "of three pictures looked at for each item, too few suit it or came through"
    else:
        why = "no picture that suits it is left"
    short = Counter(quotas(work.wanted, tuple(DIMENSIONS), work.settings.seed))
    short.subtract(item.planned.class_id for item in work.items)
    return {DIMENSIONS[number][1]: f"{many} short: {why}" for number, many in short.items() if many > 0}


def _described(work: Work[CREvalSettings, Item]) -> dict[str, str]:
    examples, found = work.settings.examples, work.described()
    if examples is not None:
        found["examples"] = f"{examples.name} ({hashlib.sha256(examples.read_bytes()).hexdigest()[:16]})"
    kept = {"drop": "left out", "keep": "kept, and listed in review.jsonl"}
    return {**found, "flagged questions": kept[work.settings.flagged]}


def _notes(work: Work[CREvalSettings, Item]) -> list[str]:
    notes = work.kinship(
        "the same model ({model}) wrote instructions and questions; the paper uses another one for the questions, so "
        "that they do not share its blind spots: give --checker."
    )
    if work.specs["auditor"] is None:
        notes.append("the questions were not audited: some may be answered Yes without any edit.")
    if kept := sum(len(item.questions[metric].flagged) for item in work.items for metric in METRICS):
        notes.append(f"{kept} questions cannot tell an edit from none and were kept: see flagged in review.jsonl.")
    return notes
