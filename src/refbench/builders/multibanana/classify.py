"""What a VLM is asked about a picture: whether it is safe and suitable, and what it shows; and the categories and tags
that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from refbench.builders.kit.replies import Prompts
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Reading, Scale, Text, YesNo
from refbench.record import Record

PROMPTS = Prompts("refbench.builders.multibanana", ("screen", "look", "write", "check"))


def read_contract(contract: Contract, reply: str) -> dict[str, Any] | Failure:
    """What a reply says under each criterion, or the first of them that cannot be used."""
    said = contract.read(reply)
    for name, value in said.items():
        if isinstance(value, Failure):
            return value if value.kind == "refused" else Failure(kind=value.kind, detail=f"{name}: {value.detail}")
    return dict(said)


# --- the screen ----------------------------------------------------------------------------------------------

HARMS = {
    "hate": "Hatred or contempt for a group of people, or its symbols",
    "harassment": "Somebody mocked, threatened or bullied",
    "violence": "Violence against people or animals, wounds, blood",
    "self_harm": "Somebody who harms themselves, or praise of it",
    "sexual": "Sexual acts or poses",
    "nudity": "Naked bodies",
    "shocking": "Gore, corpses, disgust",
    "illegal": "Drugs, weapon deals or another crime",
    "distressing": "Something else that would distress most people",
}
UNSUITABLE = {
    "chart_or_table": "It is a chart, a diagram, a table or a page of text",
    "screenshot": "It is a screenshot, a web page, or a picture with a frame of controls around it",
    "corrupt": "It is damaged, blank, or so blurred that nothing can be made out",
}
SCREEN = Contract(
    "json_object",
    (
        Criterion("reason", Text(), "what you see, in one sentence"),
        *(Criterion(name, YesNo(), asked) for name, asked in (HARMS | UNSUITABLE).items()),
    ),
)


def screen_prompt() -> str:
    return PROMPTS("screen", criteria=SCREEN.criteria_text(), format=SCREEN.format_text())


def read_screen(reply: str) -> tuple[str, str] | Failure:
    """The first thing that rules the picture out ("" when nothing does), and what was seen."""
    said = read_contract(SCREEN, reply)
    if isinstance(said, Failure):
        return said
    found = next((name for name in (*HARMS, *UNSUITABLE) if said[name] is True), "")
    return found.replace("_", " "), " ".join(str(said["reason"]).split())[:300]


# --- the classification ---------------------------------------------------------------------------------------

Gender = Literal["male", "female", "unclear"]
Objects = Literal["none", "one", "many"]
ObjectKind = Literal["animal", "clothing", "industrial", "thing"]
Rendering = Literal["photo", "anime", "painting", "cg", "sketch", "other"]
Language = Literal["english", "chinese", "japanese", "other"]

PERSON = ("male", "female", "hairstyle", "makeup", "pose", "expression")
OBJECT = ("animal", "clothing", "industrial", "thing")
SCENERY = ("background", "style", "light", "tone", "text")
CATEGORIES = ("person", *PERSON, "object", *OBJECT, *SCENERY)
"""What a picture can be there for. `person` and `object` stand for any of their sub-categories."""

_ONE_PERSON = ("gender", "makeup", "hairstyle", "pose", "expression")
Word = TypeVar("Word")


class Look(Record):
    """What a VLM sees in a picture. What is only asked of one person, or of one object, is empty otherwise."""

    shows: str
    people: int
    gender: Gender | None = None
    makeup: bool = False
    hairstyle: bool = False
    pose: bool = False
    expression: bool = False
    objects: Objects
    object_kind: ObjectKind | None = None
    background: bool
    tone: bool
    light: bool
    rendering: Rendering
    close_up: bool
    rare: bool
    languages: tuple[Language, ...] = ()

    def categories(self, *, scenery_only: bool = False) -> frozenset[str]:
        """What the picture is eligible for."""
        found = {name for name in ("background", "tone", "light") if getattr(self, name)}
        found |= {"style"} if self.rendering not in ("photo", "other") else set()
        found |= {"text"} if self.languages else set()
        if scenery_only:
            return frozenset(found)
        if self.people == 1:
            found |= {"person"} | ({self.gender} - {"unclear", None} if self.gender else set())
            found |= {name for name in ("hairstyle", "makeup", "pose", "expression") if getattr(self, name)}
        if self.objects == "one":
            found |= {"object", self.object_kind or "thing"}
        return frozenset(found)


def _yes(name: str, asked: str, *, optional: bool = False) -> Criterion:
    return Criterion(name, YesNo(), asked, optional=optional)


LOOK = Contract(
    "json_object",
    (
        Criterion("shows", Text(), "what the picture shows, at most 20 words"),
        Criterion("people", Scale(0, 999, whole=True), "how many people can be seen, 0 for none"),
        Criterion("gender", Text(), "male, female or unclear", optional=True),
        _yes("makeup", "Does the person wear makeup that could be put on somebody else?", optional=True),
        _yes("hairstyle", "Is the hair distinctive enough to be asked for on somebody else?", optional=True),
        _yes("pose", "Is the body in a pose that is clear and could be asked of somebody else?", optional=True),
        _yes("expression", "Does the face show a strong expression?", optional=True),
        Criterion("objects", Text(), "main objects and animals apart from people: none, one or many"),
        Criterion(
            "object_kind",
            Text(),
            "animal; clothing for clothes and patterned cloth; industrial for things with a telling material or "
            "surface, such as metal, glass, leather; thing for the rest",
            optional=True,
        ),
        _yes("background", "Is it a place that people and things could be put into, with room for them?"),
        _yes("tone", "Is the whole picture held in one tone of colour?"),
        _yes("light", "Does the light come clearly from somewhere, so that it shapes the scene?"),
        Criterion("rendering", Text(), "photo, anime, painting, cg, sketch or other"),
        _yes("close_up", "Is it a close-up, the subject filling most of the picture?"),
        _yes(
            "rare",
            "Does it show something that hardly exists: unusual colours or patterns of a thing, extraordinary makeup "
            "or clothes, a creature of fantasy?",
        ),
        Criterion(
            "text",
            Text(),
            "languages of words that can be read in it, with commas: english, chinese, japanese, other; or none",
        ),
    ),
)


def look_prompt() -> str:
    return PROMPTS("look", criteria=LOOK.criteria_text(), format=LOOK.format_text())


def read_look(reply: str) -> Look | Failure:
    """The look in a reply, or what is missing or wrong in it."""
    said = read_contract(LOOK, reply)
    if isinstance(said, Failure):
        return said
    people = int(_number(said["people"]))
    one = people == 1
    if one and (absent := [name for name in _ONE_PERSON if said[name] is None]):
        return Failure(kind="unparsable", detail=f"it shows one person, but {', '.join(absent)} is null")
    words: dict[str, Any] = {}
    asked: dict[str, tuple[Any, bool]] = {
        "gender": (Gender, one),
        "objects": (Objects, True),
        "object_kind": (ObjectKind, _word(said["objects"]) == "one"),
        "rendering": (Rendering, True),
    }
    for name, (allowed, counts) in asked.items():
        if not counts:
            continue
        word = _word(said[name])
        if word not in allowed.__args__:
            return Failure(kind="unparsable", detail=f"{name} is {word!r}, not one of {', '.join(allowed.__args__)}")
        words[name] = word
    languages = sorted({_word(part) for part in str(said["text"]).split(",")} - {"none", ""})
    if wrong := [word for word in languages if word not in Language.__args__]:  # type: ignore[attr-defined]
        return Failure(
            kind="unparsable", detail=f"text names {wrong[0]!r}: write english, chinese, japanese, other or none"
        )
    flags = {name: said[name] is True for name in ("background", "tone", "light", "close_up", "rare")}
    if one:
        flags |= {name: said[name] is True for name in ("makeup", "hairstyle", "pose", "expression")}
    shows = " ".join(str(said["shows"]).split())[:300]
    return Look.model_validate({"shows": shows, "people": people, "languages": languages, **words, **flags})


def _word(value: Reading) -> str:
    return value.strip(" .\"'").casefold() if isinstance(value, str) else str(value)


def _number(value: Reading) -> float:
    return value if isinstance(value, float) else 0.0


def edited_look(look: Look, edit: Mapping[str, Any]) -> Look:
    """The look with a person's corrections; raises pydantic's ValidationError where they make no sense."""
    return Look.model_validate({**look.model_dump(), **edit})


def tags_of(looks: Sequence[Look]) -> tuple[str, ...]:
    """The labels of types.json.

    domain: at least two renderings among the references; scale: close-up and not; rare: an unusual thing among them;
    ling: words in two languages; font: words in one.
    """
    renderings = {look.rendering for look in looks} - {"other"}
    languages = {language for look in looks for language in look.languages}
    found = {
        "domain": len(renderings) > 1,
        "scale": len({look.close_up for look in looks}) > 1,
        "rare": any(look.rare for look in looks),
        "ling": len(languages) > 1,
        "font": len(languages) == 1,
    }
    return tuple(label for label, holds in found.items() if holds)
