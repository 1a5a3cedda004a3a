"""CREval's cases: the official layout, read strictly and repaired nowhere.

What is wrong in the data stays in the cases as it is and is listed by `anomalies`; what cannot be read at all is an
error that names the file. What only scorers see are the questions, exactly as the release has them.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from pydantic import ValidationError

from refbench.benchmarks.kit.definition import Dataset, check_subset
from refbench.benchmarks.kit.rows import csv_rows
from refbench.case import Case, Picture, Request
from refbench.record import Record, RefBenchError, Whole, clean_text
from refbench.text.files import file_bytes, json_file

Metric = Literal["IF", "VC", "VQ"]
METRICS: tuple[Metric, ...] = get_args(Metric)

DIMENSIONS: Mapping[int, tuple[str, str]] = {
    int(row["class_id"]): (row["category"], row["dimension"]) for row in csv_rows(__package__, "dimensions.csv")
}
"""class_id to category and dimension, by the names of the paper's Table S1."""


class Question(Record):
    """One yes/no question. Text, choices and reference are raw: reading them is the protocol's business."""

    id: str
    text: str
    choices: tuple[str, ...]
    reference: str
    weight: Whole
    written_weight: int | None = None
    """The weight in the question writer's own text, where the released conversion lost it."""


class CREvalDetails(Record):
    """Number and class of the item, and its questions for each metric in the order of the file."""

    item: Whole
    class_id: int
    source_size: tuple[Whole, Whole] | None
    """Width and height of the source picture as the release states them."""
    questions: Mapping[Metric, tuple[Question, ...]]


CREvalCase: TypeAlias = Case[CREvalDetails]


INSTRUCTIONS = "instruction.json"
_FOLDERS = ("bench", "CREval-Bench")
"""The folder of all files in a checkout of the code, and in the dataset on the Hub."""
SUBSETS = ("paper874",)

# A heading of the question writer's text: "Q1:", "**Q1:**", "#### Q1:", full-width colon included.
_HEADING = re.compile(r"(?m)^\W*Q(\d+)\W*?(?:[:：].*)?$")
_WEIGHT = re.compile(r"(?i)\bweight\W{1,8}?([1-3])\b")


def load(root: Path, subset: str | None = None) -> Dataset:
    """The cases of a CREval checkout in the order of instruction.json."""
    place = data_root(root) or root / _FOLDERS[0]
    items = _read_instructions(place)
    files = {metric: _question_files(place, metric) for metric in METRICS}
    cases: dict[str, CREvalCase] = {}
    missing: dict[Metric, list[str]] = defaultdict(list)
    for item in items:
        stem = Path(item["input_image"][0].replace("\\", "/")).stem if item["input_image"] else ""
        if not stem:
            raise RefBenchError(f"{place / INSTRUCTIONS}: item {item['id']} names no picture; copy the file again")
        if stem in cases:
            raise RefBenchError(
                f"{place / INSTRUCTIONS}: two items have the picture name {stem!r}; copy the file again"
            )
        for metric in METRICS:
            if nfc(stem) not in files[metric]:
                missing[metric].append(stem)
        if not any(missing.values()):
            questions = {metric: _read_questions(files[metric][nfc(stem)], metric) for metric in METRICS}
            cases[stem] = _case(item, stem, questions)
    for metric, stems in missing.items():
        raise RefBenchError(
            f"{place / 'questions_all' / metric} lacks {len(stems)} of {len(items)} question files "
            f"(first: {stems[0]}.json): the copy is incomplete, copy the folder again"
        )
    chosen = tuple(_subset(cases, subset))
    return Dataset(
        benchmark="creval",
        root=root,
        picture_root=place,
        cases=chosen,
        subset=subset,
        outside=frozenset(cases) - {case.id for case in chosen},
    )


def data_root(root: Path) -> Path | None:
    return next((root / folder for folder in _FOLDERS if (root / folder / INSTRUCTIONS).is_file()), None)


def paper874_excluded() -> frozenset[str]:
    """The 30 items that the paper's tables leave out; inferred from its numbers, not published."""
    text = resources.files(__package__).joinpath("paper874_excluded.txt").read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def _subset(cases: Mapping[str, CREvalCase], subset: str | None) -> list[CREvalCase]:
    check_subset("CREval", subset, SUBSETS)
    excluded = frozenset() if subset is None else paper874_excluded()
    return [case for stem, case in cases.items() if stem not in excluded]


def _read_instructions(place: Path) -> list[dict[str, Any]]:
    path = place / INSTRUCTIONS
    items = _read_json(path)
    wanted = {
        "id": int,
        "input_prompt": str,
        "input_image": list,
        "input_image_resolution": list,
        "class_id": int,
    }
    if not isinstance(items, list):
        raise RefBenchError(f"{path} is not a list of items; copy the file again")
    seen: set[int] = set()
    for number, item in enumerate(items):
        right = isinstance(item, dict) and all(isinstance(item.get(k), t) for k, t in wanted.items())
        if not right or not all(isinstance(name, str) for name in item["input_image"]):
            raise RefBenchError(f"{path}: entry {number} lacks one of {', '.join(wanted)}; copy the file again")
        if item["class_id"] not in DIMENSIONS:
            raise RefBenchError(f"{path}: item {item['id']} has class_id {item['class_id']}, which is not 1 to 9")
        if item["id"] in seen:
            raise RefBenchError(f"{path}: the id {item['id']} is there twice; copy the file again")
        seen.add(item["id"])
    if not items:
        raise RefBenchError(f"{path} holds no items; copy the file again")
    return items


def _question_files(place: Path, metric: Metric) -> dict[str, Path]:
    folder = place / "questions_all" / metric
    if not folder.is_dir():
        raise RefBenchError(f"{folder} is not there: the copy is incomplete, copy questions_all again")
    return {nfc(name[:-5]): folder / name for name in os.listdir(folder) if name.endswith(".json")}


def _read_questions(path: Path, metric: Metric) -> tuple[Question, ...]:
    said = _read_json(path)
    entries = said.get("quality_check_questions") if isinstance(said, dict) else None
    if not isinstance(entries, list) or not entries:
        raise RefBenchError(f"{path} holds no list quality_check_questions; copy the file again")
    written = _written_weights(path.with_suffix(".txt")) if metric == "VC" else {}
    try:
        return tuple(
            Question(
                id=entry["question_id"],
                text=entry["question"],
                choices=entry["choices"],
                reference=entry["answer"],
                weight=entry["weight"],
                written_weight=_lost(entry, written),
            )
            for entry in entries
        )
    except (KeyError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise RefBenchError(f"{path}: a question lacks a field or has one of another type ({first})") from error


def _lost(entry: Mapping[str, Any], written: Mapping[str, int]) -> int | None:
    weight = written.get(entry["question_id"])
    return weight if weight != entry["weight"] else None


def _written_weights(path: Path) -> dict[str, int]:
    """Weights by question id in the writer's text, where each id has one weight only."""
    if not path.is_file():
        return {}
    parts = _HEADING.split(file_bytes(path).decode("utf-8", "replace"))
    found: dict[str, set[int]] = defaultdict(set)
    for number, block in zip(parts[1::2], parts[2::2], strict=True):
        found[f"Q{number}"].update(int(weight) for weight in _WEIGHT.findall(block))
    return {question: weights.pop() for question, weights in found.items() if len(weights) == 1}


def _case(item: Mapping[str, Any], stem: str, questions: dict[Metric, tuple[Question, ...]]) -> CREvalCase:
    category, dimension = DIMENSIONS[item["class_id"]]
    name = item["input_image"][0].replace("\\", "/")
    try:
        picture = Picture(name=name, role="source")
        details = CREvalDetails(
            item=item["id"],
            class_id=item["class_id"],
            source_size=item["input_image_resolution"] or None,
            questions=questions,
        )
    except ValidationError as error:
        first = error.errors()[0]["msg"]
        raise RefBenchError(f"{INSTRUCTIONS}: item {item['id']} ({name}) is not as it should be: {first}") from error
    return CREvalCase(
        id=stem,
        request=Request(instruction=item["input_prompt"], pictures=(picture,)),
        groups={"category": category, "dimension": dimension},
        cluster=stem,
        stratum=dimension,
        details=details,
    )


def _read_json(path: Path) -> Any:
    return json_file(path, "give --data a complete CREval checkout")


def nfc(stem: str) -> str:
    """Names as one spelling: some file systems decompose accents, and five stems have them."""
    return unicodedata.normalize("NFC", clean_text(stem))


def describe(dataset: Dataset) -> dict[str, Any]:
    """Questions for each metric: how many, per item, and by weight."""
    found: dict[str, Any] = {}
    for metric in METRICS:
        lists = [case.details.questions[metric] for case in dataset.cases]
        counts = [len(questions) for questions in lists]
        weights = Counter(question.weight for questions in lists for question in questions)
        found[metric] = {
            "questions": sum(counts),
            "per_item": [min(counts), max(counts)],
            "weights": {str(weight): n for weight, n in sorted(weights.items())},
        }
    return {"questions": found}
