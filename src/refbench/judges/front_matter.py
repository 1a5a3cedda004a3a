"""The top of a rubric file: TOML between `+++` lines, checked so that every mistake is one sentence."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, ValidationError

from refbench.judges.contract import Contract, Which
from refbench.judges.criteria import Criterion, Kind, Scale, Text, YesNo
from refbench.judges.dialects import DIALECTS
from refbench.judges.placeholders import placeholders
from refbench.judges.rubric_part import Range, RubricPart, Shown
from refbench.judges.totals import Rule
from refbench.record import Record, RefBenchError

_MARK = "+++"
_ONLY_PART = "verdict"
_PLACES = frozenset({"instruction", "criteria", "questions", "format"})


class _Criterion(Record):
    name: str
    kind: Literal["scale", "yes_no", "text", "questions"] = "scale"
    range: Range | None = None
    whole: bool = False
    weight: float = Field(default=1.0, ge=0)
    optional: bool = False
    part: str = ""
    description: str = ""


class _Part(Record):
    name: str
    shows: tuple[Shown, ...] | None = None
    combine: Rule | None = None
    weight: float = Field(default=1.0, ge=0)


class FrontMatter(Record):
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


def read_front_matter(text: str, name: str) -> tuple[FrontMatter, str]:
    """The declared fields, and the text below them."""
    lines = text.lstrip("\ufeff").splitlines()
    marks = [number for number, line in enumerate(lines) if line.strip() == _MARK]
    if not lines or lines[0].strip() != _MARK or len(marks) < 2:
        raise RefBenchError(f"{name}: a rubric begins with a line +++, its fields as TOML, and another line +++")
    try:
        said = tomllib.loads("\n".join(lines[1 : marks[1]]))
    except tomllib.TOMLDecodeError as error:
        raise RefBenchError(f"{name}: what stands between its +++ lines is not valid TOML: {error}") from error
    dialects = ", ".join(DIALECTS)
    if "dialect" not in said:
        raise RefBenchError(
            f'{name}: the rubric declares no dialect: add dialect = "json_object" (or one of {dialects})'
        )
    if said["dialect"] not in DIALECTS:
        raise RefBenchError(f"{name}: no dialect is called {said['dialect']!r}: there are {dialects}")
    try:
        front = FrontMatter.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(place) for place in first["loc"])
        raise RefBenchError(f"{name}: {where} of the rubric is not as it should be: {first['msg']}") from error
    return front, "\n".join(lines[marks[1] + 1 :]).strip()


def texts_of(front: FrontMatter, body: str, name: str) -> dict[str, str]:
    """The text of each part: the whole body, or what follows the line `+++ <part>`."""
    if not front.parts:
        texts = {_ONLY_PART: body}
    else:
        texts = {}
        for block in ("\n" + body).split("\n" + _MARK)[1:]:
            part, _, text = block.partition("\n")
            texts[part.strip()] = text.strip()
        declared = [part.name for part in front.parts]
        if sorted(texts) != sorted(declared):
            raise RefBenchError(
                f"{name}: it declares the parts {', '.join(declared)} and has texts for {', '.join(texts) or 'none'}: "
                "begin the text of each with a line +++ NAME"
            )
    for text in texts.values():
        if unknown := sorted(placeholders(text) - _PLACES):
            raise RefBenchError(f"{name}: {{{unknown[0]}}} is no placeholder: there are {', '.join(sorted(_PLACES))}")
        if "format" not in placeholders(text):
            raise RefBenchError(f"{name}: put {{format}} where the judge is to be told the form of its reply")
    return texts


def read_parts(front: FrontMatter, texts: Mapping[str, str], name: str) -> tuple[RubricPart, ...]:
    """The calls of the rubric, each with its criteria."""
    declared = front.parts or (_Part(name=_ONLY_PART),)
    known = {part.name for part in declared}
    for criterion in front.criteria:
        if front.parts and criterion.part not in known:
            raise RefBenchError(
                f"{name}: the criterion {criterion.name} needs part = one of {', '.join(sorted(known))}"
            )
    try:
        parts = tuple(
            _part(front, part, texts[part.name], [c for c in front.criteria if not front.parts or c.part == part.name])
            for part in declared
        )
    except RefBenchError as error:
        raise RefBenchError(f"{name}: {error}") from error
    measures = [*(measure for part in parts for measure in part.measures()), "total"]
    for measure in {m for m in measures if measures.count(m) > 1}:
        raise RefBenchError(f"{name}: two measures would be called {measure}: give a criterion or part another name")
    return parts


def _part(front: FrontMatter, part: _Part, text: str, declared: list[_Criterion]) -> RubricPart:
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


def _criterion(said: _Criterion, front: FrontMatter) -> Criterion:
    kind: Kind
    if said.kind == "scale":
        ends = said.range or front.range
        if ends is None:
            raise RefBenchError(f"the criterion {said.name} has no range: add range = [1, 10] to it or to the rubric")
        kind = Scale(*ends, whole=said.whole)
    else:
        kind = YesNo() if said.kind == "yes_no" else Text()
    return Criterion(said.name, kind, said.description.strip(), optional=said.optional)
