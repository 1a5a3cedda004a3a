"""A source of design tasks as tasks: folders with a text and pictures, or a table of tasks with keywords."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from refbench.benchmarks.ideabench.cases import INSTRUCTION, LISTED, META
from refbench.builders.ideabench import IdeaBenchSettings
from refbench.builders.ideabench.asking import instruction_fault, mark_fault
from refbench.builders.ideabench.item import MOST_OUTPUTS, DesignTask
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.pictures import SourcePicture
from refbench.builders.kit.replies import words
from refbench.builders.kit.sources import (
    SourceRow,
    named_cells,
    pictures_in,
    plain_pictures,
    read_rows,
    several,
    split_by_looks,
    text_of,
)
from refbench.record import RefBenchError, clean_text
from refbench.text.files import file_text, json_value

KEYWORDS = "keywords.txt"
_SPELLINGS = {
    "task": ("task", "task_name"),
    "keywords": ("keywords", "task_keywords"),
    "instruction": ("instruction", "prompt"),
    "pictures": ("pictures", "images", "references", "input_images"),
    "outputs": ("outputs", "output_image_count", "n_pictures"),
    "uid": ("uid",),
}
_TAGS = {"T2I": "t2i", "I2I": "i2i", "Is2I": "is2i", "T2Is": "t2is", "I(s)2Is": "is2is"}
_NOT_IN_SLUGS = re.compile(r"[^\w-]+")
_NUMBERED = re.compile(r"(.+)_([0-9]{4})")
_LONGEST_SLUG = 80
_FIRST_UID = 101
"""The released tasks have the numbers up to 0100."""


def read_tasks(settings: IdeaBenchSettings, dropped: DroppedItems) -> tuple[list[DesignTask], Path]:
    """The tasks that can be worked on, in the order of the source, and the folder of its pictures."""
    rows, root = read_rows(settings.source, _SPELLINGS, (INSTRUCTION, KEYWORDS), _folder)
    if not rows:
        raise RefBenchError(
            f"{settings.source} holds no task: give a line for each, with the columns task and instruction"
        )
    names = sorted({name for row in rows for name in row.texts("pictures")})
    pictures = plain_pictures(root, names, settings.work_folder / "pictures")
    tasks: list[tuple[str, DesignTask]] = []
    seen: dict[tuple[Any, ...], str] = {}
    for row in rows:
        made = _task(row, pictures)
        if isinstance(made, DesignTask):
            content = (made.slug, tuple(words(made.instruction)), made.keywords, made.outputs, made.hashes)
            if seen.setdefault(content, row.where) == row.where:
                tasks.append((row.cells.get("number", ""), made))
                continue
            made = ("duplicate", f"the same as {seen[content]}")
        dropped.add("source", "case", row.where, *made)
    named = _named(tasks)
    looks = {task.id: [picture.looks for picture in task.pictures] for task in named}
    split = split_by_looks(looks, settings.test_share, settings.seed)
    return [replace(task, split=split[task.id]) for task in named], root


def slug_of(task: str) -> str:
    """The name of a task as a folder has it."""
    plain = unicodedata.normalize("NFC", task).casefold().replace("'", "").replace("’", "")
    return _NOT_IN_SLUGS.sub("_", plain).strip("_-")[:_LONGEST_SLUG].strip("_-")


def _task(row: SourceRow, known: Mapping[str, SourcePicture | str]) -> DesignTask | tuple[str, str]:
    """The task, or the reason and detail of why it cannot be one; its id is given later."""
    if row.wrong:
        return "unreadable", row.wrong
    said, uid = row.cells["outputs"], row.cells["uid"]
    outputs = 1 if said is None else row.number("outputs", 4)
    if outputs is None:
        said = str(said).strip()[:40]
        return "unreadable", f"how many pictures are to be delivered is {said!r}, which is no number"
    name, instruction, keywords = row.text("task"), row.text("instruction"), row.texts("keywords")
    if not slug_of(name):
        return "no task", "it does not say which task it is (column task, or the name of the folder)"
    if wrong := mark_fault(name):
        return "no task", wrong
    pictures = [known[path] for path in row.texts("pictures")]
    if unusable := [picture for picture in pictures if isinstance(picture, str)]:
        return "unusable picture", unusable[0]
    if not instruction and not keywords and not pictures:
        return "nothing to go by", "it has neither instruction nor keywords nor pictures"
    if instruction and (wrong := instruction_fault(instruction)):
        return "unusable instruction", wrong
    if not 1 <= outputs <= MOST_OUTPUTS:
        return "outputs", f"{outputs} pictures are to be delivered, not 1 to {MOST_OUTPUTS}"
    return DesignTask(
        id="",
        slug=slug_of(name),
        name=name,
        uid=f"{uid:04d}" if type(uid) is int else text_of(uid),
        keywords=tuple(keywords),
        instruction=instruction,
        pictures=tuple(picture for picture in pictures if isinstance(picture, SourcePicture)),
        outputs=outputs,
    )


def _named(tasks: Sequence[tuple[str, DesignTask]]) -> list[DesignTask]:
    """The tasks with slugs that have one category each, their own numbers or else those of their order, and a uid for
    each slug."""
    categories: dict[str, set[str]] = defaultdict(set)
    for _, task in tasks:
        categories[task.slug].add(task.category)
    slugs = [
        f"{task.slug}_{_TAGS[task.category]}" if len(categories[task.slug]) > 1 else task.slug for _, task in tasks
    ]
    own = Counter((slug, number) for slug, (number, _) in zip(slugs, tasks, strict=True) if number)
    taken = {key for key, times in own.items() if times == 1}
    last: Counter[str] = Counter()
    uids: dict[str, str] = {}
    named: list[DesignTask] = []
    for slug, (number, task) in zip(slugs, tasks, strict=True):
        if (slug, number) not in taken:
            last[slug] += 1
            while (slug, f"{last[slug]:04d}") in taken:
                last[slug] += 1
            number = f"{last[slug]:04d}"
        if slug not in uids:
            uids[slug] = _uid(task, set(uids.values()))
        named.append(replace(task, id=f"{slug}_{number}", slug=slug, uid=uids[slug]))
    return named


def _uid(task: DesignTask, taken: set[str]) -> str:
    """Its own, unless it is no uid, taken, or that of a task which the released scorer has in another category."""
    elsewhere = any(task.uid in uids for category, uids in LISTED.items() if category != task.category)
    if re.fullmatch(r"[0-9]{4}", task.uid) and task.uid not in taken and not elsewhere:
        return task.uid
    number = _FIRST_UID
    while f"{number:04d}" in taken:
        number += 1
    return f"{number:04d}"


def _folder(folder: Path, root: Path) -> tuple[dict[str, Any], str]:
    """A folder of a case; meta.json is used where there is one, questions that are there are written anew."""
    matched = _NUMBERED.fullmatch(clean_text(folder.name))
    name, number = (matched[1], matched[2]) if matched else (clean_text(folder.name), "")
    try:
        paths = {file: folder / file for file in (INSTRUCTION, KEYWORDS, META)}
        texts = {file: file_text(path) if path.is_file() else "" for file, path in paths.items()}
        meta = json_value(texts[META] or "{}", META)
    except RefBenchError as error:
        return named_cells({}, _SPELLINGS), f"its files cannot be read ({error})"
    meta = meta if isinstance(meta, dict) else {}
    meta |= {"instruction": texts[INSTRUCTION], "pictures": pictures_in(folder, root)}
    cells = named_cells(meta, _SPELLINGS)
    said = text_of(cells["task"])
    task = name.replace("_", " ") if not said or slug_of(said) in slug_of(name) else said
    keywords = [line.strip() for line in re.split(r"[\n;,]", texts[KEYWORDS]) if line.strip()]
    return {**cells, "task": task, "number": number, "keywords": [*several(cells["keywords"]), *keywords]}, ""
