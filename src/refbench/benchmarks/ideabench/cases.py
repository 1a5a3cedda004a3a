"""IDEA-Bench's cases: its categories, questions and calls, and the official layout under any root.

Nothing is repaired; what is odd is told. The category of a case comes from the flags of its meta.json; where names or
files say something else, the flags stand and the conflict is reported.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import orjson

from refbench.benchmarks.kit.anomalies import Oddity, Release
from refbench.benchmarks.kit.definition import Dataset, check_subset, folders_in, ordered_counts
from refbench.benchmarks.kit.rows import csv_rows, toml_data
from refbench.case import MOST_PICTURES, Case, Picture, Request
from refbench.record import Record, RefBenchError, clean_text
from refbench.text.files import file_bytes, json_value

Category = Literal["T2I", "I2I", "Is2I", "T2Is", "I(s)2Is"]

_CATEGORIES = toml_data(__package__, "categories.toml")
CATEGORIES: Mapping[Category, str] = {name: _CATEGORIES[name]["words"] for name in get_args(Category)}
LISTED: Mapping[Category, frozenset[str]] = {name: frozenset(_CATEGORIES[name]["listed"]) for name in CATEGORIES}
"""The 16 tasks, by uid, that the released scorer averages; the documentation says 18."""

QUESTIONS = 6
CALLS = 3
"""Each question is put to the judge three times, independently."""

COUNT_MARK = "Is the number in the image the digit"
"""What the question about the number of outputs contains: the released stitching looks for these words."""


def part(question: int, call: int) -> str:
    """One question in one of the three calls. Calls stay apart: the gates apply to each before they are averaged."""
    return f"q{question}#{call}"


PARTS: Mapping[str, tuple[int, int]] = {
    part(question, call): (question, call) for call in range(1, CALLS + 1) for question in range(1, QUESTIONS + 1)
}
"""All questions of all calls, with their numbers from 1."""


class BinaryQuestion(Record):
    """One question of auto_eval.jsonl, in the words of the official file."""

    text: str
    inputs: tuple[str, ...] = ()
    """Files of the case that it is about."""
    outputs: tuple[str, ...] = ()
    """Files of the model that it is about."""
    counts: int | None = None
    """How many outputs there must be, where that is what the question asks."""


class HumanQuestion(Record):
    """One question of eval.json, for people. The field names of that file are not documented: `raw` has them all."""

    text: str
    zero: str = ""
    one: str = ""
    raw: str = ""
    """The entry as JSON."""


class IdeaDetails(Record):
    """What a case is, beyond what the model sees."""

    uid: str
    task_name: str = ""
    leaf: str = ""
    """The leaf of the taxonomy, where the task's name tells it."""
    auto: tuple[BinaryQuestion, ...] = ()
    human: tuple[HumanQuestion, ...] = ()

    @property
    def judged(self) -> bool:
        """Whether a judge can score the case: the gates need all six questions."""
        return len(self.auto) == QUESTIONS

    def for_people(self) -> IdeaDetails:
        """The same with the questions for people in the place of the judge's: a table of people's marks is over every
        case that has six of them."""
        return self.model_copy(update={"auto": tuple(BinaryQuestion(text=one.text) for one in self.human)})


IdeaCase: TypeAlias = Case[IdeaDetails]


def category_of(*, reference: bool, several_references: bool, several_outputs: bool) -> Category:
    """The category by meta.json's three flags."""
    if several_outputs:
        return "I(s)2Is" if reference or several_references else "T2Is"
    if several_references:
        return "Is2I"
    return "I2I" if reference else "T2I"


# --- groups of the printed tables and their leaf tasks --------------------------------------------------------------


class Group(Record):
    """One column of the tables of a category. `words` are what the names of its tasks have, any one of them."""

    category: Category
    name: str
    column: str
    words: tuple[str, ...]
    leaves: tuple[str, ...]


@cache
def groups() -> tuple[Group, ...]:
    """All 58, by category, in the order of the project page."""
    lists = {"words": "|", "leaves": ";"}
    return tuple(
        Group.model_validate({**row, **{name: row[name].split(mark) for name, mark in lists.items()}})
        for row in csv_rows(__package__, "groups.csv")
    )


def group_of(category: Category, slug: str, task_name: str) -> Group | None:
    """The group of a task: of its own category where one fits, else of another, which is a conflict to report.

    The release names tasks by group and leaf (`image_blur_motion_blur`), with slips (`image_blur_filed_blur`), so
    the words of the group decide, not a list of names.
    """
    texts = [_plain(slug), _plain(task_name)]
    order = [category, *(other for other in CATEGORIES if other != category)]
    fitting = [
        group
        for name in order
        for group in groups()
        if group.category == name and any(word in text for text in texts for word in group.words)
    ]
    return fitting[0] if fitting else None


def leaf_of(group: Group | None, slug: str) -> str:
    """The leaf that the name speaks of, the longest where several would fit; empty where none does."""
    if group is None:
        return ""
    if len(group.leaves) == 1:
        return group.leaves[0]
    text = f" {_plain(slug)}"
    fitting = [leaf for leaf in group.leaves if f" {_plain(leaf)}" in text]
    return max(fitting, key=len, default="")


def _plain(name: str) -> str:
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


# --- questions, for a judge (auto_eval.jsonl) and for people (eval.json) --------------------------------------------

_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def read_auto(data: bytes) -> list[BinaryQuestion] | str:
    """The lines of auto_eval.jsonl in their order, which is the order of the gates; a text says what is wrong."""
    found = []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), 1):
        if not line.strip():
            continue
        try:
            item = json_value(line, f"line {number}")
        except RefBenchError as error:
            return str(error)
        text = item.get("question") if isinstance(item, dict) else None
        if not isinstance(text, str) or not text.strip():
            return f"line {number} has no question"
        inputs, outputs = _names(item.get("input_images")), _names(item.get("output_images"))
        if inputs is None or outputs is None:
            return f"line {number}: input_images or output_images is no list of file names"
        counts = _counted(text, len(outputs)) if COUNT_MARK in text else None
        found.append(BinaryQuestion(text=text, inputs=inputs, outputs=outputs, counts=counts))
    return found


def _names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    return tuple(value)


def _counted(text: str, listed: int) -> int:
    """The number that the question asks for: a digit or word right behind its mark, else as many as it lists."""
    behind = text.partition(COUNT_MARK)[2].lstrip(" \t\n\"'“‘*`(:<[")
    digits = ""
    for letter in behind[:3]:
        if not ("0" <= letter <= "9"):
            break
        digits += letter
    if digits:
        return int(digits)
    word = behind[:8].casefold()
    return next((value for value, name in reversed(list(enumerate(_NUMBERS))) if word.startswith(name)), listed)


def read_human(data: bytes) -> list[HumanQuestion] | str:
    """The questions of eval.json, whatever its fields are called; a text says why there are none."""
    try:
        said = json_value(data, "it")
    except RefBenchError as error:
        return str(error)
    entries = _entries(said)
    if not entries:
        return "no list of questions in it"
    return [_human_questions(entry) for entry in entries]


def _entries(said: Any) -> Sequence[Any]:
    """The list of questions: the file itself, a list inside it, or an object whose values are the questions."""
    if isinstance(said, list):
        return said if all(isinstance(item, str | dict) for item in said) else []
    if not isinstance(said, dict):
        return []
    values = list(said.values())
    if len(values) > 1 and all(isinstance(value, dict) for value in values):
        return values
    inside: list[Any] = [value for value in values if isinstance(value, list)]
    inside += [value for value in values if isinstance(value, dict)]
    for value in inside:
        if found := _entries(value):
            return found
    return values if values and all(isinstance(value, str) for value in values) else []


def _human_questions(entry: Any) -> HumanQuestion:
    raw = orjson.dumps(entry).decode()
    if not isinstance(entry, dict):
        return HumanQuestion(text=str(entry), raw=raw)
    texts = dict(_texts(entry))
    asked = [text for name, text in texts.items() if "question" in name or "query" in name]
    zero, one = _standard(texts, "0", "zero"), _standard(texts, "1", "one")
    others = [text for text in texts.values() if text not in (zero, one)]
    return HumanQuestion(text=(asked or others or [""])[0], zero=zero, one=one, raw=raw)


def _texts(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in entry.items():
        if isinstance(value, str):
            yield key.casefold(), value
        elif isinstance(value, dict):
            yield from _texts(value)


def _standard(texts: Mapping[str, str], digit: str, word: str) -> str:
    """What earns the mark: the field whose name has the digit and no other, or the word."""
    for name, text in texts.items():
        digits = [letter for letter in name if letter.isdigit()]
        if digits == [digit] or (not digits and word in name.replace("-", "_").split("_")):
            return text
    return ""


# --- files to cases -------------------------------------------------------------------------------------------------

Odd: TypeAlias = list[tuple[str, str]]
"""What is odd about one case, as it is found: kinds and details."""
AnyQuestion = TypeVar("AnyQuestion", "BinaryQuestion", "HumanQuestion")

META, INSTRUCTION, AUTO, HUMAN = "meta.json", "instruction.txt", "auto_eval.jsonl", "eval.json"
ROLE = "reference"
SUBSETS = {
    "auto": "the cases with questions for a judge (auto_eval.jsonl): 51 in the release",
    "all": "every case, also those with questions for people only: 275 in the release",
}
_PLACES = ("", "dataset", "dataset/IDEA-Bench", "IDEA-Bench", "data")
_PICTURES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp"})


def load(root: Path, subset: str | None = None) -> Dataset:
    """Every case that has a meta.json and an instruction, or those with questions for a judge."""
    check_subset("IDEA-Bench", subset, SUBSETS)
    release = read_release(root)
    cases = tuple(case for case in release.cases if subset != "auto" or case.details.auto)
    if not cases:
        what = f"of the subset {subset} " if subset else ""
        raise RefBenchError(f"{release.place} holds no case {what}that can be read: copy the data again")
    return Dataset(benchmark="ideabench", root=root, picture_root=release.place, cases=cases, subset=subset)


def data_root(root: Path) -> Path | None:
    """Where the case folders are: in the root, in one of the documented places, or in a folder one below."""
    places = [root / name for name in _PLACES]
    for place in [*places, *(root / name for name in folders_in(root))]:
        if any((place / name / META).is_file() for name in folders_in(place)):
            return place
    return None


def read_release(root: Path) -> Release:
    """Every case folder, in the order of the categories, then of the names."""
    place = data_root(root)
    if place is None:
        raise RefBenchError(f"{root} holds no case folder with a {META} in it: give --data the folder of the dataset")
    cases: list[IdeaCase] = []
    oddities: list[Oddity] = []
    facts: list[_Facts] = []
    for name in folders_in(place):
        found = _read_case(place, name)
        oddities += [(kind, clean_text(name), detail) for kind, detail in found.oddities]
        if found.case is not None:
            cases.append(found.case)
            facts.append(found)
    oddities += [*_task_oddities(facts), *_split_oddities(root, place, cases)]
    order = list(CATEGORIES)
    cases.sort(key=lambda case: (order.index(case.groups["category"]), case.id))  # type: ignore[arg-type]
    return Release(place, tuple(cases), tuple(oddities))


@dataclass(frozen=True)
class _Facts:
    case: IdeaCase | None
    oddities: Odd
    n_cases: object = None
    """How many cases meta.json says that the task has."""


def _read_case(place: Path, name: str) -> _Facts:
    folder = place / name
    odd: Odd = []
    meta = _meta(folder)
    if meta is None:
        return _Facts(None, [])  # no case folder at all
    if isinstance(meta, str):
        return _Facts(None, [("unreadable_meta", meta)])
    if clean_text(name) != name:
        return _Facts(None, [("undecodable_name", clean_text(name))])
    instruction = _read(folder / INSTRUCTION)
    if instruction is None:
        return _Facts(None, [("missing_instruction", f"no {INSTRUCTION}")])
    slug, number = _slug(name)
    pictures = _references(folder, odd)
    category = _category(meta, len(pictures), odd)
    group = group_of(category, slug, str(meta.get("task_name", "")))
    if group is None:
        odd.append(("unknown_task", f"{slug} is in no group of the tables"))
    elif group.category != category:
        odd.append(("category_conflict", f"{category} by the flags, {slug} is a task of {group.category}"))
    uid = _uid(meta, odd)
    said = next((name for name, uids in LISTED.items() if uid in uids), category)
    if said != category:
        odd.append(("category_conflict", f"{category} by the flags, the released scorer has {uid} in {said}"))
    if number and str(meta.get("case_id", number)) != number:
        odd.append(("id_conflict", f"case_id is {meta.get('case_id')!r}"))
    n_pictures = _n_pictures(meta, category, odd)
    case = IdeaCase(
        id=name,
        request=Request(
            instruction=instruction.decode("utf-8-sig", "replace").strip(),
            pictures=tuple(Picture(name=f"{name}/{file}", role=ROLE) for file in pictures),
            n_pictures=n_pictures,
        ),
        groups={"category": category, "group": group.name if group else slug, "task": slug},
        cluster=name,
        stratum=slug,
        details=IdeaDetails(
            uid=uid,
            task_name=clean_text(str(meta.get("task_name", ""))),
            leaf=leaf_of(group, slug),
            auto=_auto(folder, pictures, n_pictures, odd),
            human=_human(folder, odd),
        ),
    )
    return _Facts(case, odd, meta.get("num_of_cases"))


def _read(path: Path) -> bytes | None:
    return file_bytes(path) if path.exists() else None


def _meta(folder: Path) -> dict[str, Any] | str | None:
    data = _read(folder / META)
    if data is None:
        return None
    try:
        said = json_value(data, META)
    except RefBenchError as error:
        return str(error)
    return said if isinstance(said, dict) else f"{META} is no object"


def _slug(name: str) -> tuple[str, str]:
    """The task and the number of a case folder: its last four characters, where they are digits."""
    task, bar, number = name.rpartition("_")
    return (task, number) if bar and len(number) == 4 and number.isdecimal() else (name, "")


def _references(folder: Path, odd: Odd) -> list[str]:
    files = sorted(name for name in os.listdir(folder) if Path(name).suffix.lower() in _PICTURES)
    found = [name for name in files if Path(name).stem.isdecimal()]
    odd += [("stray_picture", clean_text(name)) for name in files if name not in found]
    numbers = [int(Path(name).stem) for name in found]
    if numbers != list(range(1, len(found) + 1)):
        odd.append(("reference_numbers", ", ".join(found)))
    return found


def _category(meta: dict[str, Any], n_pictures: int, odd: Odd) -> Category:
    names = ("image_reference", "multi_image_reference", "multi_image_output")
    absent = [name for name in names if not isinstance(meta.get(name), bool)]
    if absent:
        odd.append(("missing_flags", f"{META} has no true or false for {', '.join(absent)}: files and counts decide"))
    several = meta.get("output_image_count")
    flags = [n_pictures > 0, n_pictures > 1, isinstance(several, int) and several > 1]
    one, many, outputs = (meta[name] if name not in absent else flag for name, flag in zip(names, flags, strict=True))
    if (one or many) != flags[0] or many != flags[1]:
        told = "several" if many else "one" if one else "no"
        odd.append(("flag_conflict", f"the flags say {told} reference picture, the folder has {n_pictures}"))
    return category_of(reference=one, several_references=many, several_outputs=outputs)


def _n_pictures(meta: dict[str, Any], category: Category, odd: Odd) -> int:
    count = meta.get("output_image_count")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_PICTURES:
        odd.append(("output_count", f"output_image_count is {count!r}: 1 is taken"))
        return 1
    if (count > 1) != (category in ("T2Is", "I(s)2Is")):
        odd.append(("flag_conflict", f"multi_image_output gives {category}, output_image_count is {count}"))
    return count


def _uid(meta: dict[str, Any], odd: Odd) -> str:
    uid = meta.get("uid")
    if isinstance(uid, int) and not isinstance(uid, bool):
        uid = f"{uid:04d}"  # a number has lost its leading zeros
    if not isinstance(uid, str) or not uid:
        odd.append(("missing_uid", f"uid is {uid!r}: the released scorer cannot place the case"))
        return ""
    return clean_text(uid)


def _auto(folder: Path, pictures: Sequence[str], n_pictures: int, odd: Odd) -> tuple[BinaryQuestion, ...]:
    data = _read(folder / AUTO)
    kinds = "unreadable_questions", "question_count"
    found = [] if data is None else _counted_questions(read_auto(data), AUTO, kinds, odd)
    for number, question in enumerate(found, 1):
        odd += [("missing_input", f"question {number}: {name}") for name in question.inputs if name not in pictures]
        if not question.outputs:
            odd.append(("no_outputs_asked", f"question {number} lists no output"))
        if question.counts is not None and question.counts != n_pictures:
            odd.append(("count_conflict", f"question {number} wants {question.counts}, {META} says {n_pictures}"))
    return tuple(found)


def _human(folder: Path, odd: Odd) -> tuple[HumanQuestion, ...]:
    data = _read(folder / HUMAN)
    if data is None:
        odd.append(("missing_human", f"no {HUMAN}"))
        return ()
    return tuple(_counted_questions(read_human(data), HUMAN, ("unreadable_human", "human_count"), odd))


def _counted_questions(said: list[AnyQuestion] | str, file: str, kinds: tuple[str, str], odd: Odd) -> list[AnyQuestion]:
    """The questions, and what is odd about them: that they cannot be read, or how many there are."""
    if isinstance(said, str):
        odd.append((kinds[0], f"{file}: {said}"))
        return []
    if len(said) != QUESTIONS:
        odd.append((kinds[1], f"{len(said)} questions in {file}, not {QUESTIONS}"))
    return said


def _task_oddities(facts: Sequence[_Facts]) -> Iterator[Oddity]:
    """Cases of one task must agree: in category, uid and number."""
    tasks: dict[str, list[_Facts]] = defaultdict(list)
    for found in facts:
        assert found.case is not None
        tasks[found.case.groups["task"]].append(found)
    owners: dict[str, set[str]] = defaultdict(set)
    for task, members in tasks.items():
        cases = [member.case for member in members if member.case is not None]
        for name, values in (
            ("categories", Counter(case.groups["category"] for case in cases)),
            ("uids", Counter(case.details.uid for case in cases)),
        ):
            if len(values) > 1:
                yield "task_conflict", task, f"its cases have several {name}: {', '.join(sorted(values))}"
        for case in cases:
            owners[case.details.uid].add(task)
        told = {member.n_cases for member in members if isinstance(member.n_cases, int)}
        if told and told != {len(cases)}:
            yield "case_count", task, f"{len(cases)} cases are there, {META} says {', '.join(map(str, sorted(told)))}"
    for uid, names in owners.items():
        if uid and len(names) > 1:
            yield "task_conflict", uid, f"the uid of {', '.join(sorted(names))}"


SPLIT = "task_split.json"


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


_SPELLED = {_letters(name): name for name in CATEGORIES}
"""The released scorer writes Is2Is, the paper I(s)2Is."""


def read_split(root: Path, place: Path) -> dict[str, str] | str | None:
    """What task_split.json calls the tasks and cases it names (uids, names, folders); a text says why that cannot be
    read, None that there is no such file. Its form is not documented: lists under names, or names beside names."""
    path = next((folder / SPLIT for folder in (root, place, place.parent) if (folder / SPLIT).is_file()), None)
    if path is None:
        return None
    try:
        said = json_value(file_bytes(path), SPLIT)
    except RefBenchError as error:
        return str(error)
    if not isinstance(said, dict):
        return f"{SPLIT} is no object"
    found: dict[str, str] = {}
    for key, value in said.items():
        if isinstance(value, list):
            found |= {_plain(f"{entry:04d}" if isinstance(entry, int) else str(entry)): key for entry in value}
        else:
            found[_plain(key)] = str(value)
    return found


def _split_oddities(root: Path, place: Path, cases: Sequence[IdeaCase]) -> Iterator[Oddity]:
    split = read_split(root, place)
    if isinstance(split, str):
        yield "unreadable_split", SPLIT, split
    if not isinstance(split, dict):
        return
    for case in cases:
        said = _SPELLED.get(_letters(split_of(split, case)))
        if said not in (None, case.groups["category"]):
            yield "category_conflict", case.id, f"{case.groups['category']} by the flags, {SPLIT} has it in {said}"


def split_of(split: Mapping[str, str], case: IdeaCase) -> str:
    """What task_split.json calls a case; empty where it does not name it."""
    names = (case.details.uid, case.groups["task"], case.details.task_name, case.id)
    return next((split[_plain(name)] for name in names if _plain(name) in split), "")


def describe(dataset: Dataset) -> dict[str, Any]:
    """How many tasks, cases and questions there are, by category, for judges and for people."""
    cases = dataset.cases
    tasks = {(case.groups["category"], case.groups["task"]) for case in cases}
    judged = [case for case in cases if case.details.judged]
    split = read_split(dataset.root, dataset.picture_root)
    named = [split_of(split, case) or "not named" for case in cases] if isinstance(split, dict) and split else []
    return {
        "tasks": ordered_counts((category for category, _ in tasks), CATEGORIES),
        "cases by category": ordered_counts((case.groups["category"] for case in cases), CATEGORIES),
        "cases for a judge": ordered_counts((case.groups["category"] for case in judged), CATEGORIES),
        **({SPLIT: ordered_counts(named)} if named else {}),
        "questions": {
            "for a judge": sum(len(case.details.auto) for case in cases),
            "for people": sum(len(case.details.human) for case in cases),
        },
    }
