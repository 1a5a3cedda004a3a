"""ICE-Bench's cases: data.jsonl of the official release, one item a line, pictures beside it under images/.

Lines that cannot be read and tasks that nobody knows give no case; `read_items` tells them for `refbench check`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from refbench.benchmarks.icebench.tasks import PARTS, TASKS, TEXT, Task, task_called
from refbench.benchmarks.kit.anomalies import Oddity, Release
from refbench.benchmarks.kit.definition import Dataset, check_subset, group_counts
from refbench.case import Case, Picture, Request
from refbench.record import Record, RefBenchError
from refbench.text.files import file_text, json_value

Role = Literal["source", "mask", "reference"]


class ICEDetails(Record):
    """Captions and labels of an item, as data.jsonl has them."""

    level1: str = ""
    level2: str = ""
    source_type: str = ""
    region_based: bool = False
    source_caption: str = ""
    target_caption: str = ""
    wanted_text: str = ""
    """What is to be written into the picture, where the instruction quotes it; for the text-render tasks only."""


ICECase: TypeAlias = Case[ICEDetails]


def task_of(case: ICECase) -> Task:
    return TASKS[case.groups["task"]]


def picture(case: ICECase, role: Role) -> Picture | None:
    """The case's picture in a role. Of several references the first counts, as in the released code."""
    return next((picture for picture in case.request.pictures if picture.role == role), None)


def not_applicable(case: ICECase) -> dict[str, str]:
    """The parts that do not concern a case, with the reason."""
    task = task_of(case)
    away = {part: f"no part of {task.name}" for part in PARTS if part not in task.parts}
    if TEXT in task.parts and not case.details.wanted_text:
        away[TEXT] = "the instruction does not quote one text that is to be written"
    return away


DATA = "data.jsonl"
_PARENTS = ("dataset", "data")
_FOLDERS = ("", *_PARENTS, "dataset/data", "data/data")
"""Where data.jsonl may lie: the README puts the release into dataset/, the archive has a folder data."""
LAYOUT = f"{DATA} is not in it, nor in a folder dataset, data or dataset/data inside"

# A passage in quotation marks. A straight single quote opens only where no letter is before it: "don't" is none.
_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|(?<!\w)\'([^\']+)\'(?!\w)|‘([^’]+)’(?!\w)')
_INSTEAD = re.compile(r"\s*(?:with|to|into|by)\s*(?:the\s+(?:text|word|words|phrase)\s*)?", re.IGNORECASE)


def load(root: Path, subset: str | None = None) -> Dataset:
    """Every item of a known task, in the order of the file; the others are among the anomalies."""
    check_subset("ICE-Bench", subset)
    items = read_items(root)
    if not items.cases:
        first = f" (first: {items.oddities[0][1]}, {items.oddities[0][2]})" if items.oddities else ""
        raise RefBenchError(f"{items.place / DATA} holds no item of ICE-Bench{first}: copy the file again")
    return Dataset(benchmark="icebench", root=root, picture_root=items.place, cases=items.cases)


def read_items(root: Path) -> Release:
    """All of data.jsonl. Of two lines with one ItemID the last stays, as in the released code, and it is said."""
    place = data_root(root)
    if place is None:
        raise RefBenchError(f"{root} has no {DATA}: give --data the folder into which the release was unpacked")
    path = place / DATA
    lines = file_text(path, "copy the file again").split("\n")
    cases: dict[str, ICECase] = {}
    oddities: list[Oddity] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = _Item(json_value(line, f"line {number}"), place)
            task = task_called(item.text("Task"))
            if task is None:
                oddities.append(("unknown_task", f"line {number}", repr(item.text("Task"))[:80]))
                continue
            case = _case(item, task)
        except (RefBenchError, ValueError) as error:  # of JSON, of a field, or of a picture's path
            oddities.append(("malformed_line", f"line {number}", _first_line(error)))
            continue
        if case.id in seen:
            oddities.append(("duplicate_id", case.id, f"lines {seen[case.id]} and {number}; the last one stays"))
        seen[case.id] = number
        cases[case.id] = case
    return Release(place, tuple(cases.values()), tuple(oddities))


def wanted_text(instruction: str) -> str:
    """The one text that an instruction wants written: its only quoted passage, or the second of `"A" to "B"`.

    Empty where that is not certain: with two passages side by side it is not said which is to be read where.
    """
    found = list(_QUOTED.finditer(instruction))
    texts = [next(group for group in match.groups() if group is not None).strip() for match in found]
    if len(found) == 1:
        return texts[0]
    if len(found) == 2 and _INSTEAD.fullmatch(instruction, found[0].end(), found[1].start()):
        return texts[1]
    return ""


@dataclass(frozen=True)
class _Item:
    """One line, read field by field, so that an error names the field."""

    said: Any
    place: Path

    def __post_init__(self) -> None:
        if not isinstance(self.said, dict):
            raise ValueError("the line is no JSON object")

    def text(self, name: str, *, needed: bool = True) -> str:
        value = self.said.get(name)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or (needed and not value.strip()):
            raise ValueError(f"{name} is no text" if name in self.said else f"{name} is missing")
        return value

    def flag(self, name: str) -> bool:
        value = self.said.get(name, False)
        if isinstance(value, str) and value.strip().casefold() in ("true", "false"):
            return value.strip().casefold() == "true"
        if not isinstance(value, bool):
            raise ValueError(f"{name} is neither true nor false")
        return value

    def pictures(self) -> tuple[Picture, ...]:
        """Source, mask, references: the order in which a model sees them."""
        names = [("source", self.text("SourceImage", needed=False)), ("mask", self.text("SourceMask", needed=False))]
        references = self.said.get("ReferenceImages") or []
        if isinstance(references, str):
            references = [references]
        if not isinstance(references, list) or not all(isinstance(name, str) for name in references):
            raise ValueError("ReferenceImages is no list of paths")
        names += [("reference", name) for name in references]
        return tuple(Picture(name=self._inside(name), role=role) for role, name in names if name.strip())

    def _inside(self, name: str) -> str:
        """The path relative to data.jsonl. The released code opens `data/images/...` from where it is started."""
        name = name.strip().replace("\\", "/").removeprefix("./")
        while True:
            first, _, rest = name.partition("/")
            if first not in _PARENTS or not rest or (self.place / first).is_dir():
                return name
            name = rest


def _case(item: _Item, task: Task) -> ICECase:
    instruction = item.text("Instruction", needed=False).strip()
    pictures = item.pictures()
    item_id = item.text("ItemID").strip()
    source = next((picture.name for picture in pictures if picture.role == "source"), None)
    details = ICEDetails(
        level1=item.text("TaskLevel1", needed=False),
        level2=item.text("TaskLevel2", needed=False),
        source_type=item.text("SourceImageType", needed=False).strip(),
        region_based=item.flag("RegionBased"),
        source_caption=item.text("SourceCaption", needed=False).strip(),
        target_caption=item.text("TargetCaption", needed=False).strip(),
        wanted_text=wanted_text(instruction) if TEXT in task.parts else "",
    )
    return ICECase(
        id=item_id,
        request=Request(instruction=instruction, pictures=pictures),
        groups=groups_of(task, details),
        cluster=source or item_id,
        stratum=task.name,
        details=details,
    )


def groups_of(task: Task, details: ICEDetails) -> dict[str, str]:
    """The names that a table slices by; a group that a case is not in has no name."""
    groups = {
        "number": str(task.number),
        "task": task.name,
        "code": task.code,
        "kind": task.kind,
        "reference": "Reference" if task.reference else "No-reference",
        "scope": task.scope,
        "source_type": details.source_type,
        "region": "yes" if details.region_based else "no",
    }
    return {name: value for name, value in groups.items() if value}


def data_root(root: Path) -> Path | None:
    return next((root / folder for folder in _FOLDERS if (root / folder / DATA).is_file()), None)


def _first_line(error: Exception) -> str:
    said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return (said.splitlines() or [type(error).__name__])[0]


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many items there are, by task and by every group that a table slices by."""
    levels = ("kind", "reference", "scope", "source_type", "region")
    return {"items": group_counts(dataset.cases, {**dict.fromkeys(levels), "task": TASKS})}


def output_names(case: ICECase) -> list[str]:
    """The official result file maps ids to any path; folders by id, or by id inside a folder of the task."""
    return [case.id, f"{case.groups['code']}/{case.id}", f"{case.groups['task']}/{case.id}"]
