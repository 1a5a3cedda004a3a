"""Rubrics: what a judge is told, as a Markdown file with TOML between two `+++` lines on top.

Every mistake in such a file is one sentence that says what to do about it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field, ValidationError

from refbench.judges.contract import Contract, Which
from refbench.judges.criteria import Criterion, Kind, Scale, Text, YesNo
from refbench.judges.dialects import DIALECTS
from refbench.judges.panel import Rule
from refbench.judges.prompts import filled, placeholders
from refbench.record import Record, RefBenchError
from refbench.specs import nearest
from refbench.text.files import file_text, is_file, toml_value

Shown = Literal["source", "references", "targets", "output"]
Range: TypeAlias = tuple[float, float]
Ability: TypeAlias = Literal["IA", "RC", "BM", "PR", "VQ"]


@dataclass(frozen=True)
class RubricPart:
    """One call to the judge: what it is shown, what it is told, what it is asked for.

    With `combine`, the marks of the call are combined to one measure that has the part's name. With
    `questions`, the call asks the case's own questions and gives the share answered yes under that name.
    """

    name: str
    shows: tuple[Shown, ...]
    text: str
    criteria: tuple[Criterion, ...]
    weights: tuple[float, ...]
    """Of the criteria, in their order."""
    combine: Rule | None = None
    weight: float = 1.0
    questions: str = ""

    def measures(self) -> dict[str, Range]:
        """The measures that a reply to this part gives, with their ranges."""
        measures = {c.name: c.range for c in self.criteria if not isinstance(c.kind, Text)}
        if self.questions:
            measures[self.questions] = (0.0, 1.0)
        if self.combine:
            measures[self.name] = next(iter(measures.values()))
        return measures

    def headline(self) -> dict[str, float]:
        """The measures that go into the total, with their weights."""
        if self.combine:
            return {self.name: self.weight}
        if self.questions:
            return {self.questions: self.weight}
        marks = zip(self.criteria, self.weights, strict=True)
        return {c.name: weight for c, weight in marks if not isinstance(c.kind, Text)}


@dataclass(frozen=True)
class Rubric:
    """A rubric, read and checked. `total` combines the headline measures of all parts, brought to `range`."""

    name: str
    parts: tuple[RubricPart, ...]
    title: str
    dialect: str
    total: Rule
    range: Range
    max_tokens: int
    which: Which
    sha256: str
    """Of the file without what no judge is told (`ability`): numbers judged with other words are other numbers."""
    abilities: Mapping[str, Ability]
    """What the criteria are about that say so, and the parts that combine some."""

    @property
    def needs_questions(self) -> bool:
        return any(part.questions for part in self.parts)

    def contract(self, part: RubricPart, questions: Sequence[str] = ()) -> Contract:
        """The contract of one call; for a part with questions, that of the case's own."""
        if not part.questions:
            return Contract(self.dialect, part.criteria, self.which)
        asked = tuple(Criterion(f"Q{n}", YesNo(), question) for n, question in enumerate(questions, 1))
        return Contract(self.dialect, asked, self.which)

    def prompt(self, part: RubricPart, instruction: str, questions: Sequence[str] = ()) -> str:
        """What the judge is told for one case, placeholders filled."""
        contract = self.contract(part, questions)
        values = {
            "instruction": instruction,
            "criteria": contract.criteria_text(),
            "questions": "\n".join(f"Q{n}: {question}" for n, question in enumerate(questions, 1)),
            "format": contract.format_text(),
        }
        return filled(part.text, values)


def load_rubric(path_or_name: str | Path) -> Rubric:
    """The rubric in a file, or the shipped one of that name."""
    return parse_rubric(*rubric_source(path_or_name))


def rubric_source(path_or_name: str | Path) -> tuple[str, str]:
    """Text of the rubric and how errors name it: the file, or the name of a shipped one."""
    given = str(path_or_name)
    path = Path(path_or_name)
    if given in shipped_rubrics():
        return resources.files("refbench.judges").joinpath(f"rubrics/{given}.md").read_text("utf-8"), given
    if not (is_file(path) or path.is_fifo()):
        raise RefBenchError(f"--rubric {given}: there is no such file or rubric; {nearest(given, shipped_rubrics())}")
    return file_text(path), given


def shipped_rubrics() -> tuple[str, ...]:
    folder = resources.files("refbench.judges").joinpath("rubrics")
    return tuple(sorted(file.name.removesuffix(".md") for file in folder.iterdir() if file.name.endswith(".md")))


def parse_rubric(text: str, name: str) -> Rubric:
    """Read and check a rubric; `name` is how errors call it."""
    try:
        front, body = _read_front_matter(text)
        parts = _read_parts(front, _texts_of(front, body))
        return Rubric(
            name=front.name,
            title=front.title or front.name,
            dialect=front.dialect,
            parts=parts,
            total=front.total,
            range=front.range or _common_range(parts),
            max_tokens=front.max_tokens,
            which=front.which,
            sha256=hashlib.sha256(_ABILITY.sub("", text).encode("utf-8", "replace")).hexdigest(),
            abilities=_abilities(front),
        )
    except RefBenchError as error:
        raise RefBenchError(f"{name}: {error}") from error


def _abilities(front: _FrontMatter) -> dict[str, Ability]:
    criteria = {one.name: one.ability for one in front.criteria if one.ability}
    return criteria | {one.name: one.ability for one in front.parts if one.ability}


# --- the file -----------------------------------------------------------------------------------------------------


_MARK = "+++"
_ONLY_PART = "verdict"
_PLACES = frozenset({"instruction", "criteria", "questions", "format"})


_ABILITY = re.compile(r"^ability *=.*\n", re.MULTILINE)


class _Criterion(Record):
    name: str
    kind: Literal["scale", "yes_no", "text", "questions"] = "scale"
    range: Range | None = None
    whole: bool = False
    weight: float = Field(default=1.0, ge=0)
    optional: bool = False
    part: str = ""
    description: str = ""
    ability: Ability | None = None


class _Part(Record):
    name: str
    shows: tuple[Shown, ...] | None = None
    combine: Rule | None = None
    weight: float = Field(default=1.0, ge=0)
    ability: Ability | None = None


class _FrontMatter(Record):
    """What stands between the `+++` lines."""

    name: str
    title: str = ""
    dialect: str
    which: Which = "all"
    shows: tuple[Shown, ...] = ("source", "references", "output")
    range: Range | None = None
    total: Rule = "mean"
    max_tokens: int = 8192
    criteria: tuple[_Criterion, ...] = Field(min_length=1)
    parts: tuple[_Part, ...] = ()


def _read_front_matter(text: str) -> tuple[_FrontMatter, str]:
    """The declared fields, and the text below them."""
    lines = text.lstrip("\ufeff").splitlines()
    marks = [number for number, line in enumerate(lines) if line.strip() == _MARK]
    if not lines or lines[0].strip() != _MARK or len(marks) < 2:
        raise RefBenchError("a rubric begins with a line +++, its fields as TOML, and another line +++")
    fields = toml_value("\n".join(lines[1 : marks[1]]), "what stands between its +++ lines")
    dialects = ", ".join(DIALECTS)
    if "dialect" not in fields:
        raise RefBenchError(f'the rubric declares no dialect: add dialect = "json_object" (or one of {dialects})')
    if fields["dialect"] not in DIALECTS:
        raise RefBenchError(f"no dialect is called {fields['dialect']!r}: there are {dialects}")
    try:
        front = _FrontMatter.model_validate(fields)
    except ValidationError as error:
        raise RefBenchError(_mistake(error)) from error
    return front, "\n".join(lines[marks[1] + 1 :]).strip()


def _mistake(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(place) for place in first["loc"])
    if first["type"] != "extra_forbidden":
        return f"{where} of the rubric is not as it should be: {first['msg']}"
    records: dict[str, type[Record]] = {"criteria": _Criterion, "parts": _Part}
    known = records.get(str(first["loc"][0]), _FrontMatter).model_fields
    return f"a rubric has no {where}: {nearest(str(first['loc'][-1]), known)}"


def _texts_of(front: _FrontMatter, body: str) -> dict[str, str]:
    """The text of each part: the whole body, or what follows the line `+++ <part>`."""
    texts = {_ONLY_PART: body}
    if front.parts:
        blocks = [block.partition("\n") for block in ("\n" + body).split("\n" + _MARK)[1:]]
        texts = {part.strip(): text.strip() for part, _, text in blocks}
        declared = [part.name for part in front.parts]
        if sorted(texts) != sorted(declared):
            raise RefBenchError(
                f"it declares the parts {', '.join(declared)} and has texts for {', '.join(texts) or 'none'}: "
                "begin the text of each with a line +++ NAME"
            )
    for text in texts.values():
        if unknown := sorted(placeholders(text) - _PLACES):
            raise RefBenchError(f"{{{unknown[0]}}} is not a placeholder: there are {', '.join(sorted(_PLACES))}")
        if "format" not in placeholders(text):
            raise RefBenchError("put {format} where the judge is to be told the form of its reply")
    return texts


def _read_parts(front: _FrontMatter, texts: Mapping[str, str]) -> tuple[RubricPart, ...]:
    """The calls of the rubric, each with its criteria."""
    declared = front.parts or (_Part(name=_ONLY_PART),)
    known = {part.name for part in declared}
    for criterion in front.criteria:
        if front.parts and criterion.part not in known:
            raise RefBenchError(f"the criterion {criterion.name} needs part = one of {', '.join(sorted(known))}")
    parts = tuple(
        _part(front, part, texts[part.name], [c for c in front.criteria if not front.parts or c.part == part.name])
        for part in declared
    )
    measures = [*(measure for part in parts for measure in part.measures()), "total"]
    for measure in {m for m in measures if measures.count(m) > 1}:
        raise RefBenchError(f"two measures would be called {measure}: give a criterion or part another name")
    return parts


def _part(front: _FrontMatter, part: _Part, text: str, declared: list[_Criterion]) -> RubricPart:
    asked = [c for c in declared if c.kind == "questions"]
    if asked and (len(declared) > 1 or part.combine):
        raise RefBenchError(f"the criterion {asked[0].name} asks the case's questions and must be alone in its call")
    if asked and front.dialect not in ("json_per_question", "json_object", "labelled_lines"):
        raise RefBenchError(f'the dialect {front.dialect} cannot ask questions: choose dialect = "json_per_question"')
    if asked and "questions" not in placeholders(text):
        raise RefBenchError("put {questions} where the judge is to be given the questions")
    made = RubricPart(
        name=part.name,
        shows=part.shows or front.shows,
        text=text,
        criteria=() if asked else tuple(_criterion(c, front) for c in declared),
        weights=() if asked else tuple(c.weight for c in declared),
        combine=part.combine,
        weight=asked[0].weight if asked and not front.parts else part.weight,
        questions=asked[0].name if asked else "",
    )
    Contract(front.dialect, made.criteria or (Criterion("Q1", YesNo()),), front.which)  # says what does not fit
    if part.combine and part.name in {c.name for c in declared}:
        raise RefBenchError(f"a criterion and its part are both called {part.name}: give one another name")
    if not made.measures():
        raise RefBenchError(f"the part {part.name} asks for no mark")
    marks = {r for measure, r in made.measures().items() if measure != part.name}
    if part.combine and len(marks) > 1:
        raise RefBenchError(f"the criteria of {part.name} have different ranges and cannot be combined to one mark")
    if "geometric_mean" in (front.total, part.combine) and any(low < 0 for low, _ in marks):
        raise RefBenchError("a geometric mean needs marks that are not negative")
    return made


def _criterion(declared: _Criterion, front: _FrontMatter) -> Criterion:
    kind: Kind
    if declared.kind == "scale":
        ends = declared.range or front.range
        if ends is None:
            raise RefBenchError(
                f"the criterion {declared.name} has no range: add range = [1, 10] to it or to the rubric"
            )
        kind = Scale(*ends, whole=declared.whole)
    else:
        kind = YesNo() if declared.kind == "yes_no" else Text()
    return Criterion(declared.name, kind, declared.description.strip(), optional=declared.optional)


def _common_range(parts: Sequence[RubricPart]) -> Range:
    ranges = {part.measures()[measure] for part in parts for measure in part.headline()}
    if len(ranges) != 1:
        raise RefBenchError("its criteria have different ranges: add range = [low, high] for the total")
    return ranges.pop()
