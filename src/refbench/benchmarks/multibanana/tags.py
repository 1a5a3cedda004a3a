"""Difficulty tags from a task directory's types.json, whose exact form is not certain: text or list, padded or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from refbench.benchmarks.multibanana.details import TAGS
from refbench.benchmarks.multibanana.layout import Folder, Oddity

TYPES = "types.json"


@dataclass(frozen=True)
class FolderTags:
    """The tags of each set of a directory. `known` is False where the file says nothing at all."""

    known: bool
    by_set: Mapping[str, tuple[str, ...]]
    oddities: tuple[Oddity, ...]


def read_tags(root: Path, folder: Folder) -> FolderTags:
    """Tags in the order of `TAGS`. A set that types.json does not name has none."""
    try:
        said = orjson.loads((root / folder.name / TYPES).read_bytes())
    except FileNotFoundError:
        return FolderTags(False, {}, (("missing_tags", folder.name, f"no {TYPES}"),))
    except OSError as error:
        return FolderTags(False, {}, (("unreadable_tags", folder.name, f"{TYPES}: {error.strerror}"),))
    except orjson.JSONDecodeError as error:
        return FolderTags(False, {}, (("unreadable_tags", folder.name, f"{TYPES} is not valid JSON ({error})"),))
    if not isinstance(said, dict):
        return FolderTags(False, {}, (("unreadable_tags", folder.name, f"{TYPES} is no object"),))
    numbers = {files.number: files.number for files in folder.sets}
    unpadded = {files.number.lstrip("0"): files.number for files in folder.sets}
    found: dict[str, tuple[str, ...]] = {}
    oddities: list[Oddity] = []
    for key, value in said.items():
        number = numbers.get(key) or unpadded.get(key.lstrip("0"))
        if number is None:
            oddities.append(("stray_tag", f"{folder.name}/{key}", f"{TYPES} names a set that is not there"))
            continue
        labels = list(_labels(value))
        found[number] = tuple(tag for label, tag in TAGS.items() if label in labels)
        oddities += [
            ("unknown_tag", f"{folder.name}/{number}", repr(label)[:80]) for label in labels if label not in TAGS
        ]
    return FolderTags(True, found, tuple(oddities))


def _labels(value: Any) -> Iterable[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.casefold().replace(",", " ").split()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [item.strip().casefold() for item in value if item.strip()]
    return [str(value)]
