"""What a build leaves: task directories with references and prompts, types.json and from_where.csv as the release has
them, what is known of each set, and what the card says."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refbench.benchmarks.multibanana.cases import FROM_WHERE, GROUPS, TAGS, TASKS, TYPES
from refbench.builders import BuildReport
from refbench.builders.kit.card import Card, Sample
from refbench.builders.kit.flow import Work, counted, finish, one_of_each
from refbench.builders.kit.folder import Shipment, as_json, as_lines, put_file
from refbench.builders.multibanana import MultiBananaSettings
from refbench.builders.multibanana.classify import CATEGORIES
from refbench.builders.multibanana.filters import FilterNetworks
from refbench.builders.multibanana.tasks import Member, recipes_text
from refbench.builders.multibanana.writing import FinishedSet
from refbench.text.console import csv_cell


def data_folder(out: Path, split: str) -> Path:
    """Where the task directories of a split lie; the card has a directory of its own beside them."""
    return out / (split or "data")


def write_dataset(out: Path, sets: Mapping[str, Sequence[FinishedSet]]) -> None:
    """Write the sets of each split, then remove what an earlier build left and this one does not have."""
    shipment = Shipment(out, out / ".build/files.json")
    for split, finished in sets.items():
        root = data_folder(Path(), split)
        for name, data in dataset_files(finished).items():
            shipment.put(str(root / name), data)
    shipment.finish()


def dataset_files(sets: Sequence[FinishedSet]) -> dict[str, Path | bytes]:
    """All files of a dataset by name: the bytes, or the picture to copy."""
    files: dict[str, Path | bytes] = {}
    tags: dict[str, dict[str, list[str]]] = defaultdict(dict)
    origins = io.StringIO(newline="")
    table = csv.writer(origins, lineterminator="\n")
    # The word for real or generated comes before columns in which such words may occur too.
    table.writerow(["file", "source", "by", "picture", "prompt"])
    for one in sorted(sets, key=lambda one: one.id):
        task, number = one.candidate.task.name, one.candidate.number
        for index, member in enumerate(one.candidate.references):
            picture = member.picture
            name = f"{task}/{number}_{index}{picture.extension}"
            files[name] = picture.path
            told = (name, picture.origin, picture.made_by, picture.name, picture.made_from)
            table.writerow(map(csv_cell, told))
        files[f"{task}/{number}_prompt.txt"] = f"{one.written.instruction}\n".encode()
        tags[task][number] = list(one.tags)
    files |= {f"{task}/{TYPES}": as_json(said) for task, said in tags.items()}
    if sets:
        files[FROM_WHERE] = origins.getvalue().encode()
    return files


def set_rows(sets: Mapping[str, Sequence[FinishedSet]]) -> list[dict[str, Any]]:
    """Everything that is known of each set, for sets.jsonl and for the review: there also what is against it."""
    return [
        {
            "id": one.id,
            **({"split": split} if split else {}),
            "references": [member.picture.name for member in one.candidate.references],
            "instruction": one.written.instruction,
            "tags": list(one.tags),
            "modified": one.written.modified,
            "giver": one.written.giver,
            "thinking": one.written.thinking,
            "check": one.checked.model_dump() if one.checked else "decided by a person",
            **({"problem": one.problem} if one.problem else {}),
        }
        for split, finished in sets.items()
        for one in sorted(finished, key=lambda one: one.id)
    ]


def picture_rows(pool: Sequence[Member]) -> list[dict[str, Any]]:
    """What people can correct about the pictures."""
    return [
        {"id": one.picture.review_id, **one.look.model_dump(mode="json"), "categories": sorted(one.categories)}
        for one in sorted(pool, key=lambda one: one.picture.name)
    ]


_ABOUT = (
    "Sets of reference pictures with an instruction each, in the layout of MultiBanana (arXiv 2511.22989): one "
    "reference, two, or three to eight. Pictures and instructions are not those of the paper: scores do not stand "
    "beside its tables."
)


@dataclass
class Made:
    """What the work came to."""

    sets: dict[str, list[FinishedSet]]
    """Of each split."""
    there: int = 0
    """Pictures in the source that can be opened, look-alikes apart."""
    looked: int = 0
    pool: list[Member] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    short: dict[str, int] = field(default_factory=dict)
    """Categories that filling was to bring to a number and has not, with the pictures they have."""
    painter: str = ""


def ship(work: Work[MultiBananaSettings, FinishedSet], made: Made, predictors: FilterNetworks) -> BuildReport:
    """Write everything, and say what was written."""
    out, name = work.settings.out, work.settings.source.resolve().name
    write_dataset(out, made.sets)
    rows = set_rows(made.sets)
    put_file(out / "sets.jsonl", as_lines(rows))
    card = Card(
        title=f"A MultiBanana of {name}",
        about=_ABOUT,
        counts=_counts(made),
        settings=_described(work, made, predictors),
        provenance=_provenance(name, made),
        missing=made.missing,
        notes=_notes(work, made, predictors),
        samples=[
            Sample(one.id, one.written.instruction, [member.picture.path for member in one.candidate.references])
            for one in one_of_each(work.items, lambda one: one.candidate.task.group)
        ],
    )
    to_review = [*rows, *set_rows({"": list(work.offered.values())}), *picture_rows(made.pool)]
    copies = sum(one.picture.copied and not one.picture.made_by for one in made.pool)
    return finish(work, card, made.sets, to_review, copies)


def _counts(made: Made) -> dict[str, int]:
    sets = [one for finished in made.sets.values() for one in finished]
    groups = Counter(one.candidate.task.group for one in sets)
    tasks = Counter(one.candidate.task.name for one in sets)
    tags = Counter(tag for one in sets for tag in one.tags)
    return {
        "pictures that were looked at": made.looked,
        "pictures that passed": len(made.pool),
        **counted("sets", made.sets),
        **{f"sets, {name}": groups[name] for name in GROUPS},
        **{f"task {name}": tasks[name] for name in TASKS},
        **{f"tag {label}": tags[label] for label in TAGS},
        **{f"pictures for {name}": sum(name in one.categories for one in made.pool) for name in CATEGORIES},
    }


def _described(work: Work[MultiBananaSettings, FinishedSet], made: Made, predictors: FilterNetworks) -> dict[str, str]:
    """Who worked on it, and the filters with what each has left out."""
    found = work.described(recipes_text())
    if made.painter:
        found["filled by"] = f"{made.painter}, up to {work.settings.fill_to} pictures of a category"
    reasons = Counter[str]()
    for stage in ("filters", "check"):
        reasons.update(work.dropped.counts().get(stage, {}))
    for name, one in predictors.filters.items():
        spoken = name.replace("_", " ")
        outside = (f"{spoken} below", f"{spoken} above")
        left = sum(number for reason, number in reasons.items() if reason.startswith(outside))
        who = f", by {predictors.chosen[name]}" if name in predictors.chosen else ""
        said = "not run" if name in predictors.missing else one.words() + who
        counts = one.use and name not in predictors.missing and name != "object"
        found[f"filter {spoken}"] = f"{said}: {left:,} left out" if counts else said
    return found


def _provenance(name: str, made: Made) -> list[str]:
    real = sum(not one.picture.made_by for one in made.pool)
    lines = [f"{real:,} of {made.there:,} pictures of the folder {name}"]
    painted = Counter(one.picture.made_by for one in made.pool if one.picture.made_by)
    lines += [f"{number:,} pictures painted by {model}" for model, number in sorted(painted.items())]
    return [*lines, "from_where.csv says it of every reference, with the prompt of those that were painted"]


def _notes(work: Work[MultiBananaSettings, FinishedSet], made: Made, predictors: FilterNetworks) -> list[str]:
    notes = [f"the filter {name.replace('_', ' ')} was not run: {why}." for name, why in predictors.missing.items()]
    if predictors.chosen.get("object_mask") == "u2netp":
        notes.append("masks are the salient part of each box (u2netp), not those of a segmenter that takes boxes.")
    notes += work.kinship(
        "the same model ({model}) wrote and checked: it does not see its own blind spots; give --checker."
    )
    if made.looked < made.there:
        notes.append(f"{made.looked:,} of {made.there:,} pictures were looked at: enough for the sets wanted.")
    enough = work.settings.fill_to
    notes += [f"{name} was to have {enough} pictures and has {has}." for name, has in made.short.items()]
    notes.append("difficulty tags follow from the classification of the references; nobody has looked at them.")
    return notes
