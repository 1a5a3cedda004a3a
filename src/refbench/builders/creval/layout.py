"""The official layout on disk: bench/instruction.json, bench/image, bench/questions_all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.creval.details import METRICS, Metric
from refbench.builders.creval.item import Item, Questions
from refbench.builders.folder import SPLITS, Shipment, as_json, claim

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
