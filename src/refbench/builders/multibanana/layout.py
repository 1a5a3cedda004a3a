"""The official layout on disk: task directories with references and prompts, types.json, from_where.csv.

Only files that a build has written are ever removed: models' outputs lie in the same directories.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refbench.benchmarks.multibanana.sources import FROM_WHERE
from refbench.benchmarks.multibanana.tags import TYPES
from refbench.builders.folder import Shipment, as_json
from refbench.builders.multibanana.making import FinishedSet, picture_id
from refbench.builders.multibanana.tasks import Member


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
            table.writerow([name, picture.origin, picture.made_by, picture.name, picture.made_from])
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
        {"id": picture_id(one.picture), **one.look.model_dump(mode="json"), "categories": sorted(one.categories)}
        for one in sorted(pool, key=lambda one: one.picture.name)
    ]
