"""The design of a study: study.toml as a record. It is hashed at the first mark; a later change is another version."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

import orjson
from pydantic import Field, ValidationError, model_validator

from refbench.record import Record, RefBenchError
from refbench.runs.disk import disk_error, write_whole
from refbench.text.files import toml_file

FILE = "study.toml"

Screen = Literal["rate", "set", "questions", "pair", "reference", "review"]
SCREENS: tuple[Screen, ...] = get_args(Screen)
Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Words: TypeAlias = Mapping[str, str]
"""A text by language; English is there, others where somebody wrote them."""

UNSURE = "unsure"
"""A mark: the rater has looked, and cannot say."""


class Level(Record):
    """What a mark of the scale stands for."""

    value: float
    words: Words


class Criterion(Record):
    """One thing that raters are asked for."""

    name: str
    """As the run's measure is called, where it is one of the judge's."""
    label: Words
    description: Mapping[str, str] = {}
    kind: Literal["scale", "yes_no"] = "scale"
    low: float = 1
    high: float = 5
    step: float = Field(default=1, gt=0)
    levels: tuple[Level, ...] = ()
    gold: bool = False
    """Whether another case's output must get a low mark here: what gold items are made of."""
    ability: Literal["", "IA", "RC", "BM", "PR", "VQ"] = ""
    """What it is about, as the judge audit has it; RC is that references are kept."""
    not_for: tuple[str, ...] = ()
    """Strata of items that are not asked for it: captions have no quality."""

    @model_validator(mode="after")
    def _scale(self) -> Self:
        if not self.low < self.high:
            raise ValueError(
                f"the scale of {self.name} is from {self.low:g} to {self.high:g}: the lower end comes first"
            )
        return self

    @property
    def low_enough(self) -> float:
        """The highest mark that another case's output may get: 2 of 5, 3 of 10."""
        return max(mark for mark in self.marks if mark <= self.low + (self.high - self.low) / 4)

    @property
    def high_enough(self) -> float:
        """The lowest mark that the very thing that was asked for may get: 4 of 5, 8 of 10."""
        return min(mark for mark in self.marks if mark >= self.high - (self.high - self.low) / 4)

    @property
    def marks(self) -> tuple[float, ...]:
        """Every mark that can be given."""
        steps = round((self.high - self.low) / self.step)
        return tuple(self.low + n * self.step for n in range(steps + 1))


class Training(Record):
    """Items with feedback before the start; who does not get enough of them right may try once more."""

    items: int = Field(default=5, ge=0)
    right: int = Field(default=4, ge=0)
    retries: int = Field(default=1, ge=0)


class Exclusion(Record):
    """Who is left out, fixed before the start and applied when marks are read; None switches a rule off."""

    gold: float | None = 0.75
    """Least share of gold items that a rater gets right: 6 of 8."""
    attention: float | None = 0.5
    """Least share of explicit checks that a rater gets right: one of two."""
    time: float | None = 1 / 3
    """Least share of the median of all raters' median active times."""
    same: float | None = 0.95
    """Most of one's marks that may be the same one, of at least 30."""
    repeats: float | None = 1.5
    """Most steps that one's marks of repeated items may lie apart, on average."""
    correlation: float | None = 0.0
    """Least correlation with the mean of the others."""


class Source(Record):
    """Where the items are from; on the owner's side only."""

    kind: Literal["run", "review", "references", "none"] = "none"
    path: str = ""
    benchmark: str = ""
    models: tuple[str, ...] = ()
    rubric: str = ""
    rubric_sha256: str = ""


class Preregistration(Record):
    """What was fixed before the first mark; its exclusion rules and n are those of the design at that time."""

    hypotheses: tuple[str, ...] = ()
    time: float = 0
    frozen: str = ""
    """Hash of criteria, items, overlap, and rules when it was written."""


class StudyDesign(Record):
    """Everything that a study is, except its items, its raters and their marks."""

    name: str = Field(min_length=1, max_length=200)
    screen: Screen
    title: Mapping[str, str] = {}
    """What raters read on top; nothing that names a model."""
    guidelines: Mapping[str, str] = {}
    criteria: tuple[Criterion, ...] = ()
    languages: Annotated[tuple[Language, ...], Field(min_length=1)] = LANGUAGES
    seed: int = 0
    overlap: int = Field(default=3, ge=1)
    """Raters of each item."""
    per_rater: int | None = Field(default=None, ge=1)
    """Most items that one rater is given; None for all."""
    training: Training = Training()
    gold: int = Field(default=8, ge=0)
    """Gold items of each rater."""
    attention: int = Field(default=0, ge=0)
    """Explicit checks of each rater: choose 3 here."""
    repeats_every: int = Field(default=15, ge=0)
    """One item in so many is shown again; 0 for none."""
    dispute: float = Field(default=2, gt=0)
    """Steps of the scale from which on marks of an item are in dispute, and somebody may be asked to decide."""
    consent: Mapping[str, str] = {}
    exclusion: Exclusion = Exclusion()
    source: Source = Source()
    items_sha256: str = ""
    picture_side: int = Field(default=2048, ge=64)
    """Longest side of the pictures that raters are sent."""
    preregistration: Preregistration | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [criterion.name for criterion in self.criteria]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two criteria are called {twice}")
        if self.screen in ("rate", "set", "reference") and not self.criteria:
            raise ValueError(f"a study with the screen {self.screen} needs criteria")
        return self

    @property
    def rules(self) -> Exclusion:
        """The rules that are applied. Where two models are equally good, honest raters' preferences have nothing to do
        with each other: pairs have no rule of correlation."""
        return self.exclusion.model_copy(update={"correlation": None}) if self.screen == "pair" else self.exclusion

    @property
    def hash(self) -> str:
        """Of all of it: marks given under another hash are another version's."""
        return self.key

    @property
    def frozen(self) -> str:
        """Hash of what a preregistration fixes."""
        kept = self.model_copy(update={"preregistration": None, "consent": {}, "title": {}, "guidelines": {}})
        return kept.key

    def criterion(self, name: str) -> Criterion | None:
        return next((criterion for criterion in self.criteria if criterion.name == name), None)


def read_design(folder: Path) -> StudyDesign:
    """What study.toml says; a mistake in it is one sentence."""
    path = folder / FILE
    if not path.is_file():
        what = "is not there" if not folder.exists() else f"is no study: {FILE} is missing"
        raise RefBenchError(f"{folder} {what}; make one with refbench study new")
    try:
        return StudyDesign.model_validate(toml_file(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise RefBenchError(f"{path}: {where}: {first['msg']}") from error


def write_design(folder: Path, design: StudyDesign) -> None:
    path = folder / FILE
    try:
        write_whole(path, toml_text(design.model_dump(mode="json", exclude_none=True)).encode())
    except OSError as error:
        raise disk_error(error, path) from error


# --- TOML ---------------------------------------------------------------------------------------------------------


def toml_text(value: Mapping[str, Any]) -> str:
    """A mapping of plain values as TOML: scalars first, then tables, lists of mappings as [[tables]]."""
    return "\n".join(_lines(value, ())).lstrip("\n") + "\n"


def _lines(value: Mapping[str, Any], place: tuple[str, ...]) -> list[str]:
    plain = {name: one for name, one in value.items() if not (isinstance(one, dict) or _tables(one))}
    lines = [f"{_key(name)} = {_scalar(one)}" for name, one in plain.items()]
    for name, one in value.items():
        title = ".".join(_key(part) for part in (*place, name))
        if isinstance(one, dict):
            lines += ["", f"[{title}]", *_lines(one, (*place, name))]
        elif _tables(one):
            for entry in one:
                lines += ["", f"[[{title}]]", *_lines(entry, (*place, name))]
    return lines


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _scalar(name)


def _scalar(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, str):
        return orjson.dumps(value).decode().replace("\x7f", "\\u007f")
    return orjson.dumps(value).decode()
