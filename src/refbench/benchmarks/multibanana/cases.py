"""MultiBanana's cases: its criteria, weights and 36 tasks, and the official layout as the official scripts probe it.

Nothing is repaired: what the official probing would not see is not seen here either, and is told as an oddity. How many
sets there are is told by `describe`, never asserted: the paper's counts and the release may differ.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from refbench.benchmarks.kit.anomalies import Oddity, Release
from refbench.benchmarks.kit.definition import Dataset, check_subset, folders_in, group_counts, ordered_counts
from refbench.benchmarks.kit.rows import csv_rows
from refbench.case import Case, Picture, Request
from refbench.record import Record, RefBenchError, clean_text
from refbench.text.files import file_bytes, json_file

Criterion = Literal[
    "instruction_alignment", "reference_consistency", "background_subject_match", "physical_realism", "visual_quality"
]

CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
_ROWS = {row["criterion"]: row for row in csv_rows(__package__, "criteria.csv")}
LABELS: Mapping[Criterion, str] = {criterion: _ROWS[criterion]["label"] for criterion in CRITERIA}
"""What the judge writes before each number, in the order it is asked to."""
WEIGHTS: Mapping[str, int] = {criterion: int(row["weight"]) for criterion, row in _ROWS.items()}
"""The paper's total is the mean under these weights; the released script takes the plain mean instead."""
PART = "all"
"""One call gives all five marks."""
LOWEST, HIGHEST = 1.0, 10.0

TAGS = {"domain": "cross_domain", "scale": "scale", "rare": "rare", "ling": "multilingual", "font": "font"}
"""Labels of types.json to tags. `font` marks text in one language and is no axis of difficulty in the paper."""

Source = Literal["real", "generated", "both", "unknown"]

GROUPS = ("single", "two", "object", "local", "global", "background")
"""The columns of the paper's Table 3."""


class Task(Record):
    """One of the 36 kinds of set: its name, its group, and how many references its sets should have."""

    name: str
    group: str
    n_refs: int


TASKS: Mapping[str, Task] = {row["name"]: Task.model_validate(row) for row in csv_rows(__package__, "tasks.csv")}


def task_of(directory: str) -> Task | None:
    """The task whose sets a directory of the release holds.

    Object sets lie in `3_object`; copies in which they are `3_obj` or `3_objects`, or background sets
    `3_background`, are read too.
    """
    if directory in TASKS:
        return TASKS[directory]
    count, _, structure = directory.partition("_")
    for start, name in (("obj", "object"), ("back", "back")):
        if structure.startswith(start):
            return TASKS.get(f"{count}_{name}")
    return None


class MultiBananaDetails(Record):
    """Where a set lies in the release, and what the release says of its references."""

    task_dir: str
    number: str
    sources: tuple[str | None, ...] = ()
    """For each reference the words of from_where.csv, None where it has none."""
    tags_known: bool = True
    """False where types.json is missing or unreadable: then the set is neither with nor without a tag."""


MultiBananaCase: TypeAlias = Case[MultiBananaDetails]


# --- the layout, from file names alone: one listing a directory, no file is opened ----------------------------------

EXTENSIONS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
"""Probed in this order, lower-case only; the first hit is the reference."""

_ALSO_PICTURES = (*EXTENSIONS, ".tif", ".tiff", ".avif", ".heic", ".jfif")
_PROMPT = "_prompt.txt"


@dataclass(frozen=True)
class SetFiles:
    """The files of one set. Without a prompt or without references it is no case."""

    number: str
    prompt: str | None
    references: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return self.prompt is not None and bool(self.references)


class Folder(NamedTuple):
    """One task directory."""

    name: str
    task: Task
    sets: tuple[SetFiles, ...]
    oddities: tuple[Oddity, ...]


def data_root(root: Path) -> Path | None:
    """Where the task directories are: `root` itself, or `data` inside it; None where neither holds a prompt."""
    for place in (root, root / "data"):
        for name in folders_in(place):
            if task_of(name) and any(_is_prompt(file) for file in _listing(place / name)):
                return place
    return None


def scan(root: Path) -> tuple[list[Folder], list[Oddity]]:
    """All task directories under the data root, in the order of the tasks, and what is odd about their names."""
    folders = []
    oddities: list[Oddity] = []
    for name in folders_in(root):
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
    return folders, oddities


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


class Said(NamedTuple):
    """What a file of the release says of each set or reference, and what is odd about it. `known` is False where the
    file says nothing at all."""

    known: bool
    words: Mapping[Any, Any]
    oddities: tuple[Oddity, ...]


def _nothing(kind: str, place: str, detail: str) -> Said:
    return Said(False, {}, ((kind, place, detail),))


# --- difficulty tags, from types.json, whose exact form is not certain ----------------------------------------------

TYPES = "types.json"


def read_tags(root: Path, folder: Folder) -> Said:
    """The tags of each set, in the order of `TAGS`. A set that types.json does not name has none."""
    path = root / folder.name / TYPES
    if not path.exists():
        return _nothing("missing_tags", folder.name, f"no {TYPES}")
    try:
        said = json_file(path, remedy="")
    except RefBenchError as error:
        return _nothing("unreadable_tags", folder.name, str(error).replace(str(path), TYPES))
    if not isinstance(said, dict):
        return _nothing("unreadable_tags", folder.name, f"{TYPES} is no object")
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
    return Said(True, found, tuple(oddities))


def _labels(value: Any) -> Iterable[str]:
    if value is None:
        return []
    if isinstance(value, str):
        return value.casefold().replace(",", " ").split()
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [item.strip().casefold() for item in value if item.strip()]
    return [str(value)]


# --- where each reference came from, by from_where.csv --------------------------------------------------------------
# Its columns are not documented, so they are recognised: one of file names, one of words for real or generated, and,
# where the file names have no directory, one of task directories. What cannot be recognised is told.

FROM_WHERE = "from_where.csv"

_REAL = frozenset({"real", "laion", "laion5b", "photo", "photograph", "web", "natural"})
GENERATORS: Mapping[str, frozenset[str]] = {
    "gpt_image_1": frozenset({"gpt", "gptimage1", "openai"}),
    "nano_banana": frozenset({"nano", "banana", "nanobanana", "gemini"}),
}
"""The two that filled the benchmark's gaps, by words for them."""
_GENERATED = frozenset(
    {"generated", "generation", "gen", "synthetic", "synthesized", "synth", "fake", "ai"}.union(*GENERATORS.values())
)
_SAMPLE = 500
"""Rows by which the columns are recognised."""

Place = tuple[str, str]
"""Task and `<NNN>_<i>`: extensions and the spelling of directories may differ from the files'."""


def read_sources(root: Path) -> Said:
    """The words of from_where.csv for each reference it names, as far as it can be understood."""
    path = root / FROM_WHERE
    if not path.exists():
        return _nothing("missing_sources", FROM_WHERE, f"no {FROM_WHERE}")
    try:
        text = file_bytes(path).decode("utf-8-sig", "replace")
    except RefBenchError as error:
        return _nothing("unreadable_sources", FROM_WHERE, str(error).replace(str(path), FROM_WHERE))
    first = text.partition("\n")[0]
    try:
        rows = [row for row in csv.reader(text.splitlines(), delimiter=max(",;\t", key=first.count)) if any(row)]
    except csv.Error as error:
        return _nothing("unreadable_sources", FROM_WHERE, f"{error}")
    columns = _columns(rows)
    if columns is None:
        return _nothing(
            "unreadable_sources", FROM_WHERE, "no column of reference files with one of real or generated beside it"
        )
    file_at, word_at, directory_at = columns
    words: dict[Place, str] = {}
    oddities: list[Oddity] = []
    for number, row in enumerate(rows):
        place = _place(_cell(row, file_at), _cell(row, directory_at) if directory_at is not None else "")
        if place is None:
            if number:  # the first row is the heading
                oddities.append(("unread_source", FROM_WHERE, f"row {number + 1}: {','.join(row)[:80]}"))
            continue
        words[place] = _cell(row, word_at).strip()
        if _kind(words[place]) is None:
            oddities.append(("unread_source", FROM_WHERE, f"row {number + 1}: {words[place][:80]!r}"))
    return Said(True, words, tuple(oddities))


def source_of(words: Sequence[str | None]) -> Source:
    """The source of a set from the words for each of its references."""
    kinds = {_kind(word) if word is not None else None for word in words}
    if not kinds or None in kinds:
        return "unknown"
    if len(kinds) > 1:
        return "both"
    return "real" if kinds == {"real"} else "generated"


def generator_of(words: Sequence[str | None]) -> str | None:
    """Who generated the references of a set, whatever real ones are beside them: one of `GENERATORS`, or both. None
    where none is generated, or the words leave open by whom."""
    found: set[str] = set()
    for word in words:
        kind = _kind(word) if word is not None else None
        if kind != "real":
            by = [name for name, known in GENERATORS.items() if word is not None and _tokens(word) & known]
            if kind is None or len(by) != 1:
                return None
            found.add(by[0])
    return None if not found else "both" if len(found) > 1 else found.pop()


def reference_place(task: str, file: str) -> Place:
    return task, file.rpartition(".")[0]


def _tokens(word: str) -> set[str]:
    return set("".join(c if c.isalnum() else " " for c in word.casefold()).split())


def _kind(word: str) -> str | None:
    tokens = _tokens(word)
    real, generated = bool(tokens & _REAL), bool(tokens & _GENERATED)
    if real == generated:
        return None
    return "real" if real else "generated"


def _place(cell: str, directory: str) -> Place | None:
    """`data/3_back/006_0.jpg`, `3_back\\006_0` and the like; the directory may stand in a cell of its own."""
    *parents, file = cell.strip().replace("\\", "/").split("/")
    stem = file.rpartition(".")[0] or file
    number, _, index = stem.partition("_")
    task = task_of(parents[-1] if parents else directory.strip())
    return (task.name, stem) if number and index.isdecimal() and task else None


def _columns(rows: Sequence[Sequence[str]]) -> tuple[int, int, int | None] | None:
    sample = rows[:_SAMPLE]
    width = max(map(len, sample), default=0)
    names = _column(sample, range(width), lambda cell: _place(cell, "single"))
    if names is None:
        return None
    directories = _column(sample, [at for at in range(width) if at != names], task_of)
    others = [at for at in range(width) if at not in (names, directories)]
    words = _column(sample, others, _kind)
    return None if words is None else (names, words, directories)


def _column(rows: Sequence[Sequence[str]], among: Sequence[int], reads: Callable[[str], Any]) -> int | None:
    """The column of which most cells can be read so, if at least half can."""
    counts = {at: sum(reads(_cell(row, at)) is not None for row in rows) for at in among}
    best = max(counts, key=lambda at: counts[at], default=None)
    return best if best is not None and 2 * counts[best] >= len(rows) > 0 else None


def _cell(row: Sequence[str], at: int) -> str:
    return row[at] if at < len(row) else ""


# --- files to cases -------------------------------------------------------------------------------------------------

ROLE = "reference"


def load(root: Path, subset: str | None = None) -> Dataset:
    """Every set that has a prompt and a reference 0, task by task; the others are among the anomalies."""
    check_subset("MultiBanana", subset)
    release = read_release(root)
    if not release.cases:
        where = f"{release.place} holds prompts but no set with a reference 0 (as in 006_0.jpg)"
        raise RefBenchError(f"{where}: copy it again")
    return Dataset(benchmark="multibanana", root=root, picture_root=release.place, cases=release.cases)


def read_release(root: Path) -> Release:
    """Every set that is a case, and the oddities: of the layout, of each directory and its tags, of the sources."""
    place = data_root(root)
    if place is None:
        raise RefBenchError(f"{root} holds no sets: give --data the folder of the task directories (single, add, ...)")
    folders, oddities = scan(place)
    sources = read_sources(place)
    cases: list[MultiBananaCase] = []
    for folder in folders:
        tags = read_tags(place, folder)
        oddities += [*folder.oddities, *(tags.oddities if folder.sets else ())]
        cases += [_case(place, folder, files, tags, sources) for files in folder.sets if files.complete]
    return Release(place, tuple(cases), (*oddities, *sources.oddities))


def _case(root: Path, folder: Folder, files: SetFiles, tags: Said, sources: Said) -> MultiBananaCase:
    case_id = f"{folder.name}/{files.number}"
    words = tuple(sources.words.get(reference_place(folder.task.name, file)) for file in files.references)
    return MultiBananaCase(
        id=case_id,
        request=Request(
            instruction=_instruction(root / folder.name / str(files.prompt)),
            pictures=tuple(Picture(name=f"{folder.name}/{file}", role=ROLE) for file in files.references),
        ),
        groups={
            "group": folder.task.group,
            "task": folder.task.name,
            "n_refs": str(len(files.references)),
            "source": source_of(words),
        },
        tags=tags.words.get(files.number, ()),
        cluster=case_id,
        stratum=folder.task.name,
        details=MultiBananaDetails(task_dir=folder.name, number=files.number, sources=words, tags_known=tags.known),
    )


def _instruction(path: Path) -> str:
    """The prompt without white space around it; bytes that are no UTF-8 become U+FFFD and an anomaly."""
    return file_bytes(path).decode("utf-8-sig", "replace").strip()


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many sets there are, by task, group, number of references, tag and source."""
    tags = (tag for case in dataset.cases for tag in case.tags)
    sets = group_counts(dataset.cases, {"group": GROUPS, "task": TASKS, "n_refs": None, "source": None})
    source = sets.pop("source")
    return {"sets": {**sets, "tag": ordered_counts(tags, TAGS.values()), "source": source}}


def output_names(case: MultiBananaCase) -> list[str]:
    """Where the released scripts expect a model's picture: beside the references, or under the task's usual name."""
    details = case.details
    return [f"{details.task_dir}/{details.number}_generated", f"{case.groups['task']}/{details.number}_generated"]
