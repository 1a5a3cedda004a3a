"""The official directory layout, from file names alone: one listing a directory, no file is opened.

Nothing is repaired: what the official probing would not see is not seen here either, and is told as an oddity.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.benchmarks.multibanana.details import TASKS, Task, task_of
from refbench.record import RefBenchError, clean_text

EXTENSIONS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
"""Probed in this order, lower-case only; the first hit is the reference."""

_ALSO_PICTURES = (*EXTENSIONS, ".tif", ".tiff", ".avif", ".heic", ".jfif")
_PROMPT = "_prompt.txt"

Oddity = tuple[str, str, str]
"""Kind, place (a set or a directory), detail."""


@dataclass(frozen=True)
class SetFiles:
    """The files of one set. Without a prompt or without references it is no case."""

    number: str
    prompt: str | None
    references: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return self.prompt is not None and bool(self.references)


@dataclass(frozen=True)
class Folder:
    """One task directory."""

    name: str
    task: Task
    sets: tuple[SetFiles, ...]
    oddities: tuple[Oddity, ...]


@dataclass(frozen=True)
class Layout:
    """All task directories, in the order of the tasks, and what is odd about the names in them."""

    root: Path
    folders: tuple[Folder, ...]
    oddities: tuple[Oddity, ...]


def data_root(root: Path) -> Path | None:
    """Where the task directories are: `root` itself, or `data` inside it; None where neither holds a prompt."""
    for place in (root, root / "data"):
        for name in _directories(place):
            if task_of(name) and any(_is_prompt(file) for file in _listing(place / name)):
                return place
    return None


def scan(root: Path) -> Layout:
    """The layout under the data root."""
    folders = []
    oddities: list[Oddity] = []
    for name in _directories(root):
        task = task_of(name)
        if task is None:
            oddities.append(("unknown_directory", clean_text(name), "no task of the benchmark"))
            continue
        folder = _folder(name, task, _listing(root / name))
        folders.append(folder)
        if not any(files.complete for files in folder.sets):
            oddities.append(("empty_task", name, "no complete set in it"))
    there = {folder.task.name for folder in folders}
    oddities += [("missing_task", name, "no directory of it") for name in TASKS if name not in there]
    order = list(TASKS)
    folders.sort(key=lambda folder: (order.index(folder.task.name), folder.name))
    return Layout(root, tuple(folders), tuple(oddities))


def _directories(root: Path) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RefBenchError(f"{root} cannot be read: {error.strerror}") from error


def _listing(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name[0] != ".")
    except OSError as error:
        raise RefBenchError(f"{folder} cannot be read: {error.strerror}") from error


def _folder(name: str, task: Task, files: Sequence[str]) -> Folder:
    prompts: dict[str, str] = {}
    references: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    oddities: list[Oddity] = []
    for file in files:
        if clean_text(file) != file:
            oddities.append(("undecodable_name", name, clean_text(file)))
        elif _is_prompt(file):
            prompts[file.removesuffix(_PROMPT)] = file
        elif (found := _reference(file)) is not None:
            number, index = found
            if index is None:
                oddities.append(("unprobed_picture", f"{name}/{number}", file))
            else:
                references[number][index].append(file)
    sets = []
    for number in sorted({*prompts, *references}):
        files_of = SetFiles(number, prompts.get(number), _probed(references[number]))
        sets.append(files_of)
        odd = _set_oddities(files_of, references[number], task)
        oddities += [(kind, f"{name}/{number}", detail) for kind, detail in odd]
    return Folder(name, task, tuple(sets), tuple(oddities))


def _is_prompt(file: str) -> bool:
    number = file.removesuffix(_PROMPT)
    return number != file and bool(number) and "_" not in number


def _reference(file: str) -> tuple[str, int | None] | None:
    """Set number and index of a reference's file name; the index is None where no probing would find it."""
    stem, dot, extension = file.rpartition(".")
    number, bar, index = stem.partition("_")
    if not (number and bar and index.isascii() and index.isdecimal()) or dot + extension.lower() not in _ALSO_PICTURES:
        return None
    canonical = len(index) <= 3 and str(int(index)) == index and dot + extension in EXTENSIONS
    return number, int(index) if canonical else None


def _probed(by_index: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    """References from index 0 up to the first that is missing; of several extensions the first in probing order."""
    found: list[str] = []
    while files := by_index.get(len(found)):
        found.append(min(files, key=_probing_order))
    return tuple(found)


def _probing_order(file: str) -> int:
    return EXTENSIONS.index(file[file.rindex(".") :])


def _set_oddities(files: SetFiles, by_index: Mapping[int, Sequence[str]], task: Task) -> Iterator[tuple[str, str]]:
    indices = sorted(index for index, names in by_index.items() if names)
    count = len(files.references)
    if files.prompt is None:
        yield "missing_prompt", f"{len(indices)} references, no {files.number}{_PROMPT}"
    if indices and not count:
        yield "late_references", f"references begin at {by_index[indices[0]][0]}"
    elif not indices:
        yield "missing_references", f"{files.number}{_PROMPT} only"
    elif len(indices) > count:
        unseen = ", ".join(by_index[index][0] for index in indices[count:])
        yield "reference_gap", f"no reference {count}, so {unseen} is not seen"
    if count and count != task.n_refs:
        yield "other_reference_count", f"{count} references, {task.n_refs} in a set of {task.name}"
    for index in indices:
        if len(by_index[index]) > 1:
            ordered = sorted(by_index[index], key=_probing_order)
            yield "duplicate_reference", f"{ordered[0]} is taken, {', '.join(ordered[1:])} is not seen"
