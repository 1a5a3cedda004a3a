"""The official layout on disk: dataset/<case>/ with text, facts, references, questions for judges and people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.ideabench.details import COUNT_MARK
from refbench.benchmarks.ideabench.load import AUTO, HUMAN, INSTRUCTION, META
from refbench.builders.folder import Shipment, as_json, as_lines
from refbench.builders.ideabench.asking import prompt
from refbench.builders.ideabench.item import Graded, Item
from refbench.judges.placeholders import filled

PLACE = "dataset"
REPHRASED = "rephrased_prompts.jsonl"


def write_dataset(root: Path, items: Sequence[Item]) -> None:
    """Write `root`/dataset. The meta.json, which makes a folder a case, comes last in each."""
    shipment = Shipment(root / PLACE)
    cases = Counter(item.sought.slug for item in items)
    for item in sorted(items, key=lambda one: one.id):
        for number, picture in enumerate(item.sought.pictures, 1):
            shipment.put(f"{item.id}/{reference_name(item, number)}", picture.path.read_bytes())
        shipment.put(f"{item.id}/{INSTRUCTION}", f"{item.instruction}\n".encode())
        shipment.put(f"{item.id}/{AUTO}", as_lines(auto_questions(item)))
        shipment.put(f"{item.id}/{HUMAN}", as_json({"questions": human_questions(item)}))
        shipment.put(f"{item.id}/{META}", as_json(meta(item, cases[item.sought.slug])))
    shipment.finish()


def meta(item: Item, cases: int) -> dict[str, Any]:
    """The facts of the release, and behind them the keywords that the questions come from."""
    task = item.sought
    return {
        "task_name": task.task,
        "num_of_cases": cases,
        "image_reference": bool(task.pictures),
        "multi_image_reference": len(task.pictures) > 1,
        "multi_image_output": task.outputs > 1,
        "uid": task.uid,
        "output_image_count": task.outputs,
        "case_id": task.id[-4:],
        "keywords": list(task.keywords),
        "capabilities": list(item.capabilities),
    }


def reference_name(item: Item, number: int) -> str:
    return f"{number:04d}{item.sought.pictures[number - 1].extension}"


def auto_questions(item: Item) -> list[dict[str, Any]]:
    """The six lines of auto_eval.jsonl; of a set the first is the count, known to the released scripts by its mark."""
    task = item.sought
    everything = [_output(number) for number in range(1, task.outputs + 1)]
    found: list[dict[str, Any]] = []
    if task.first_level:
        text = filled(prompt("count"), {"mark": COUNT_MARK, "count": str(task.outputs)})
        found.append({"question": text, "input_images": [], "output_images": everything})
    found += [
        {
            "question": judge_text(item, asked),
            "input_images": [reference_name(item, number) for number in asked.references],
            "output_images": [_output(number) for number in asked.results],
        }
        for asked in item.questions
    ]
    return found


def judge_text(item: Item, asked: Graded) -> str:
    """All that the judge is told: who it is, how the pictures lie, task, text, question and standards, and the form."""
    values = {
        "arrangement": arrangement(asked, len(item.sought.pictures), item.sought.outputs),
        "task": item.sought.task,
        "instruction": item.instruction,
        **asked.model_dump(include={"question", "zero", "one"}),
    }
    return filled(prompt("judge"), values)


def arrangement(asked: Graded, given: int, made: int) -> str:
    """How the released stitching lays the pictures out: references in a row above the results, left to right."""
    results = _named("result", asked.results, made)
    if not asked.references:
        return f"You see {results}." if len(asked.results) == 1 else f"You see from left to right {results}."
    references = _named("reference", asked.references, given)
    return (
        f"The upper row shows, from left to right, what the designer was given: {references}. "
        f"The lower row shows, from left to right, what was delivered: {results}."
    )


def _named(what: str, numbers: Sequence[int], of: int) -> str:
    if of == 1:
        return f"the {what}"
    listed = ", ".join(map(str, numbers))
    return f"the {what}{'s' if len(numbers) > 1 else ''} {listed} of {of}"


def human_questions(item: Item) -> list[dict[str, str]]:
    """The same six for people."""
    count = item.sought.outputs
    counted = {
        "question": f"Were exactly {count} pictures delivered?",
        "0": "More or fewer pictures were delivered.",
        "1": f"Exactly {count} pictures were delivered.",
    }
    asked = [{"question": one.question, "0": one.zero, "1": one.one} for one in item.questions]
    return [counted, *asked] if item.sought.first_level else asked


def rephrased_rows(items: Sequence[Item], prompts: Mapping[str, tuple[str, ...]], by: str) -> list[dict[str, Any]]:
    """One line a case: as many prompts as pictures are asked for, in their order."""
    known = [item for item in sorted(items, key=lambda one: one.id) if item.id in prompts]
    return [{"case": item.id, "prompts": list(prompts[item.id]), "rephrased_by": by} for item in known]


def review_rows(items: Sequence[Item]) -> list[dict[str, Any]]:
    """What people are asked to decide about: everything of the case that can be edited, and the checker's complaint."""
    return [
        {
            "id": item.id,
            "task": item.sought.task,
            "category": item.sought.category,
            "pictures": [picture.name for picture in item.sought.pictures],
            "outputs": item.sought.outputs,
            "instruction": item.instruction,
            "questions": [asked.model_dump() for asked in item.questions],
            "problem": item.problem,
        }
        for item in sorted(items, key=lambda one: one.id)
    ]


def _output(number: int) -> str:
    return f"{number:04d}.jpg"
