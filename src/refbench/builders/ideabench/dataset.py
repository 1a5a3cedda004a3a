"""What a build leaves: the folder of each case as the release has it (text, facts, references, questions), prompts for
text-to-image models, and what the card says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.ideabench.cases import AUTO, CATEGORIES, COUNT_MARK, HUMAN, INSTRUCTION, LISTED, META, group_of
from refbench.builders import BuildReport
from refbench.builders.ideabench import IdeaBenchSettings
from refbench.builders.ideabench.asking import PROMPTS, capabilities
from refbench.builders.ideabench.item import GradedQuestion, Item
from refbench.builders.kit.card import Card, Sample
from refbench.builders.kit.flow import Work, counted, finish, one_of_each, write_splits
from refbench.builders.kit.folder import Shipment, as_json, as_lines, put_file

PLACE = "dataset"
REPHRASED = "rephrased_prompts.jsonl"


def write_dataset(root: Path, items: Sequence[Item]) -> None:
    """Write `root`/dataset. The meta.json, which makes a folder a case, comes last in each."""
    shipment = Shipment(root / PLACE)
    cases = Counter(item.task.slug for item in items)
    for item in sorted(items, key=lambda one: one.id):
        for number, picture in enumerate(item.task.pictures, 1):
            shipment.put(f"{item.id}/{reference_name(item, number)}", picture.path)
        shipment.put(f"{item.id}/{INSTRUCTION}", f"{item.instruction}\n".encode())
        shipment.put(f"{item.id}/{AUTO}", as_lines(auto_questions(item)))
        shipment.put(f"{item.id}/{HUMAN}", as_json({"questions": human_questions(item)}))
        shipment.put(f"{item.id}/{META}", as_json(meta(item, cases[item.task.slug])))
    shipment.finish()


def meta(item: Item, cases: int) -> dict[str, Any]:
    """The facts of the release, and behind them the keywords that the questions come from."""
    task = item.task
    return {
        "task_name": task.name,
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
    return f"{number:04d}{item.task.pictures[number - 1].extension}"


def auto_questions(item: Item) -> list[dict[str, Any]]:
    """The six lines of auto_eval.jsonl; of a set the first is the count, known to the released scripts by its mark."""
    task = item.task
    everything = [_output(number) for number in range(1, task.outputs + 1)]
    found: list[dict[str, Any]] = []
    if task.first_level:
        text = PROMPTS("count", mark=COUNT_MARK, count=str(task.outputs))
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


def judge_text(item: Item, asked: GradedQuestion) -> str:
    """All that the judge is told: who it is, how the pictures lie, task, text, question and standards, and the form."""
    return PROMPTS(
        "judge",
        arrangement=arrangement(asked, len(item.task.pictures), item.task.outputs),
        task=item.task.name,
        instruction=item.instruction,
        **asked.model_dump(include={"question", "zero", "one"}),
    )


def arrangement(asked: GradedQuestion, given: int, made: int) -> str:
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
    count = item.task.outputs
    counted = {
        "question": f"Were exactly {count} pictures delivered?",
        "0": "More or fewer pictures were delivered.",
        "1": f"Exactly {count} pictures were delivered.",
    }
    asked = [{"question": one.question, "0": one.zero, "1": one.one} for one in item.questions]
    return [counted, *asked] if item.task.first_level else asked


def rephrased_rows(items: Sequence[Item], prompts: Mapping[str, tuple[str, ...]], by: str) -> list[dict[str, Any]]:
    """One line a case: as many prompts as pictures are asked for, in their order."""
    known = [item for item in sorted(items, key=lambda one: one.id) if item.id in prompts]
    return [{"case": item.id, "prompts": list(prompts[item.id]), "rephrased_by": by} for item in known]


def review_rows(items: Sequence[Item]) -> list[dict[str, Any]]:
    """What people are asked to decide about: everything of the case that can be edited, and the checker's complaint."""
    return [
        {
            "id": item.id,
            "task": item.task.name,
            "category": item.task.category,
            "pictures": [picture.name for picture in item.task.pictures],
            "outputs": item.task.outputs,
            "instruction": item.instruction,
            "questions": [asked.model_dump() for asked in item.questions],
            "problem": item.problem,
        }
        for item in sorted(items, key=lambda one: one.id)
    ]


def _output(number: int) -> str:
    return f"{number:04d}.jpg"


_ABOUT = (
    "Professional design tasks in the layout of IDEA-Bench (arXiv 2412.11767): for each case a text, pictures and six "
    "questions that earn 0 or 1. Unless questions 1 and 2 are earned nothing else counts; unless 3 and 4 are, the last "
    "two do not. Tasks and questions are not those of the paper: scores do not stand beside its table."
)


def ship(work: Work[IdeaBenchSettings, Item], prompts: Mapping[str, tuple[str, ...]]) -> BuildReport:
    """Write everything, and say what was written."""
    source, items = work.settings.source, work.items
    splits = work.by_split(lambda item: item.task.split)
    writer = work.described()["writer"]

    def write(root: Path, members: Sequence[Item]) -> None:
        write_dataset(root, members)
        put_file(root / REPHRASED, as_lines(rephrased_rows(members, prompts, writer)))

    write_splits(work.settings.out, splits, write)
    pictures = {picture.sha256: picture for item in items for picture in item.task.pictures}
    kinds = {category: f"{category} ({words})" for category, words in CATEGORIES.items()}
    card = Card(
        title=f"An IDEA-Bench of {source.resolve().stem}",
        about=_ABOUT,
        counts=_counts(splits, prompts),
        settings={**work.described(dict(capabilities())), "rephrased": work.settings.rephrase},
        provenance=[f"{len(pictures):,} pictures of {source.name}"],
        missing=work.not_covered(kinds, lambda item: item.task.category, "no case of this kind was made"),
        notes=_notes(work, prompts),
        samples=[
            Sample(one.id, one.instruction, [picture.path for picture in one.task.pictures])
            for one in one_of_each(items, lambda item: item.task.category)
        ],
    )
    copies = sum(picture.copied for picture in pictures.values())
    return finish(work, card, splits, review_rows([*items, *work.offered.values()]), copies)


def _counts(splits: Mapping[str, Sequence[Item]], prompts: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    items = [item for members in splits.values() for item in members]
    found = {"tasks": len({item.task.slug for item in items}), **counted("cases", splits)}
    of = Counter(item.task.category for item in items)
    found |= {f"cases {category} ({words})": of[category] for category, words in CATEGORIES.items()}
    found |= {"questions": 6 * len(items), "cases with prompts for text-to-image models": len(prompts)}
    tested = Counter(name for item in items for name in item.capabilities)
    return found | {f"cases that test {name}": number for name, number in sorted(tested.items())}


def _notes(work: Work[IdeaBenchSettings, Item], prompts: Mapping[str, tuple[str, ...]]) -> list[str]:
    items, rephrase = work.items, work.settings.rephrase
    notes = work.kinship("the same model ({model}) wrote the questions and checked them: give another --checker.")
    if work.specs["checker"] is None:
        notes.append("nobody has checked the questions but this program: give --checker, or read review.jsonl.")
    strange = sorted({i.task.name for i in items if not _in_tables(i)})
    if strange:
        shown = ", ".join(strange[:5])
        notes.append(
            f"{len(strange)} tasks ({shown}) are in no group of the paper's tables for their category: each is a group "
            "of its own, and refbench check says so."
        )
    listed = {uid for uids in LISTED.values() for uid in uids}
    if others := len({item.task.slug for item in items if item.task.uid not in listed}):
        notes.append(
            f"the released scorer averages sixteen tasks by their uid; {others} tasks of this dataset are not among "
            "them and are in no mean of the paper protocol: read the corrected one."
        )
    due = sum(rephrase == "always" or item.task.category != "T2I" for item in items)
    if rephrase != "none" and len(prompts) < due:
        notes.append(f"{due - len(prompts)} of {due} cases have no prompts for text-to-image models.")
    return notes


def _in_tables(item: Item) -> bool:
    group = group_of(item.task.category, item.task.slug, item.task.name)
    return group is not None and group.category == item.task.category
