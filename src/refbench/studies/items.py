"""Items: what raters are shown, with all that only the owner may know of it: models, paths, hashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from refbench.record import Record, RefBenchError, content_key
from refbench.runs.disk import disk_error, write_whole
from refbench.studies.design import UNSURE, Criterion, Screen, StudyDesign, Words
from refbench.text.files import file_bytes, json_lines

FILE = "items.jsonl"

PREFERENCE = "preference"
"""The field of a pair."""
SIDES = ("0", "1", "tie", "both_bad")
"""The answers: the output that is better by its place, the left one 0; a tie; neither is any good."""
DECISION, EDIT = "decision", "edit"
"""The fields of a review."""
VERDICTS = ("accept", "edit", "reject")


class ItemPicture(Record):
    """A picture, by where it lies and what it must be."""

    role: str
    """reference, source, mask, subject, original, output, ..."""
    file: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ItemOutput(Record):
    """What a model made of the case: one picture, or several that belong together."""

    model: str
    seed: int = 0
    pictures: tuple[ItemPicture, ...]
    content: str = ""
    """Hash of the output as its run has it."""


class Question(Record):
    """A yes/no question of the case's own, with what earns each answer, and the questions that open it."""

    text: str
    no: str = ""
    yes: str = ""
    needs: tuple[int, ...] = ()
    """Places, from 0, of questions that must be answered yes before this one counts."""


class Allowed(Record):
    """Which answers to a training or gold item are right; a field that is not named may be anything."""

    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()

    def takes(self, value: object) -> bool:
        if isinstance(value, str):
            return value in self.words
        if not isinstance(value, int | float):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


class Item(Record):
    """One thing to be marked."""

    id: str
    case: str
    stratum: str = ""
    screen: Screen
    use: Literal["item", "training", "gold", "attention"] = "item"
    instruction: str = ""
    attention: Mapping[str, str] = {}
    """What a rater is asked to do in the place of judging, by language: an explicit check."""
    text: str = ""
    """What stands in the place of a picture: a caption that is a reference."""
    inputs: tuple[ItemPicture, ...] = ()
    outputs: tuple[ItemOutput, ...] = ()
    questions: tuple[Question, ...] = ()
    row: Mapping[str, Any] = {}
    """The line of review.jsonl."""
    editable: tuple[str, ...] = ()
    """Fields of the row that a reviewer may change."""
    allowed: Mapping[str, Allowed] = {}
    """By field: the right answers to a training or gold item."""
    most: float | None = None
    """Of questions: the largest share of yes that is right, closed questions counted as no."""
    why: Mapping[str, str] = {}
    """What a trainee is told afterwards."""
    probability: float | None = Field(default=None, gt=0, le=1)
    """The chance that it had of being drawn, where a sample was drawn."""

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(output.model for output in self.outputs)

    @property
    def pictures(self) -> tuple[ItemPicture, ...]:
        """All that it shows, of every output."""
        return (*self.inputs, *(picture for output in self.outputs for picture in output.pictures))

    def right(self, values: Mapping[str, object]) -> bool:
        """Whether all fields that have a right answer have one. `unsure` is not an answer."""
        if self.most is not None and sum(value == 1 for value in values.values()) > self.most * len(self.questions):
            return False
        return all(allowed.takes(values.get(field)) for field, allowed in self.allowed.items())


class Entry(Record):
    """One thing that an item asks for, by its name in marks: in a set with the place of the output in front, `0.IQ`."""

    name: str
    kind: Literal["scale", "yes_no", "choice", "edit"]
    label: Words
    description: Mapping[str, str] = {}
    marks: tuple[float, ...] = ()
    """Of a scale: all that can be given, lowest first; of yes and no 0 and 1."""
    levels: Mapping[str, Words] = {}
    """By mark: what it stands for."""
    options: tuple[str, ...] = ()
    """Of a choice."""
    output: int | None = None
    """Which output it is about, by its place on the screen."""
    needs: tuple[str, ...] = ()
    """Fields that must be 1 before this one is asked."""
    optional: bool = False

    def wrong(self, value: object) -> str:
        """What is wrong with an answer; empty where nothing is."""
        if value == UNSURE and self.kind != "edit":
            return ""
        if self.kind in ("scale", "yes_no"):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and any(abs(float(value) - mark) < 1e-9 for mark in self.marks):  # type: ignore[arg-type]
                return ""
            return f"{self.name} takes {', '.join(f'{mark:g}' for mark in self.marks)} or {UNSURE}"
        if self.kind == "choice":
            return "" if value in self.options else f"{self.name} takes {', '.join(self.options)} or {UNSURE}"
        return "" if isinstance(value, dict) else f"{self.name} takes the fields to change"


def entries_of(item: Item, design: StudyDesign) -> tuple[Entry, ...]:
    """Everything an item asks for, in the order in which it is asked; outputs by the places that the owner knows."""
    if item.screen == "questions":
        return tuple(_question(place, question) for place, question in enumerate(item.questions))
    if item.screen == "pair":
        why = [c for c in design.criteria if item.stratum not in c.not_for]
        ask = Entry(name=PREFERENCE, kind="choice", label=_WHICH, options=SIDES)
        return (ask, *(_choice(criterion) for criterion in why))
    if item.screen == "review":
        verdict = Entry(name=DECISION, kind="choice", label=_DECIDE, options=VERDICTS)
        return (verdict, Entry(name=EDIT, kind="edit", label=_CHANGE, options=item.editable, optional=True))
    asked = [criterion for criterion in design.criteria if item.stratum not in criterion.not_for]
    if item.screen == "set":
        return tuple(_criterion(c, output) for output in range(len(item.outputs)) for c in asked)
    return tuple(_criterion(criterion) for criterion in asked)


_WHICH = {"en": "Which one is better?", "zh": "哪一个更好？"}
_DECIDE = {"en": "Your decision", "zh": "您的决定"}
_CHANGE = {"en": "What you change", "zh": "您的修改"}


def _criterion(criterion: Criterion, output: int | None = None) -> Entry:
    return Entry(
        name=criterion.name if output is None else f"{output}.{criterion.name}",
        kind=criterion.kind,
        label=criterion.label,
        description=criterion.description,
        marks=criterion.marks if criterion.kind == "scale" else (0, 1),
        levels={f"{level.value:g}": level.words for level in criterion.levels},
        output=output,
    )


def _choice(criterion: Criterion) -> Entry:
    return Entry(
        name=criterion.name,
        kind="choice",
        label=criterion.label,
        description=criterion.description,
        options=SIDES[:3],
        optional=True,
    )


def _question(place: int, question: Question) -> Entry:
    levels = {mark: {"en": words} for mark, words in (("0", question.no), ("1", question.yes)) if words}
    return Entry(
        name=f"Q{place + 1}",
        kind="yes_no",
        label={"en": question.text},
        marks=(0, 1),
        levels=levels,
        needs=tuple(f"Q{needed + 1}" for needed in question.needs),
    )


def write_items(folder: Path, items: Sequence[Item]) -> str:
    """Write the items of a study; returns the hash of the file's content."""
    names = [item.id for item in items]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise RefBenchError(f"two items are called {twice}")
    path = folder / FILE
    try:
        write_whole(path, b"".join(item.model_dump_json().encode() + b"\n" for item in items))
    except OSError as error:
        raise disk_error(error, path) from error
    return items_sha256(items)


def items_sha256(items: Iterable[Item]) -> str:
    """Hash of all that raters are shown and their marks are counted for."""
    return content_key([item.model_dump(mode="json") for item in items])


def read_items(folder: Path) -> dict[str, Item]:
    path = folder / FILE
    file_bytes(path, "restore it from a copy of the study")
    items: dict[str, Item] = {}
    for number, row in json_lines(path):
        try:
            item = Item.model_validate(row)
        except ValidationError as error:
            raise RefBenchError(f"{path}, line {number}: it is no item: restore it from a copy of the study") from error
        items[item.id] = item
    return items
