"""What a rater's browser is told, and what it may be answered: nothing here names a model, a path or a content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from refbench.record import Record
from refbench.studies.design import Screen
from refbench.studies.items import Entry
from refbench.studies.marks import Seconds, Value


class Slot(Record):
    """A picture of an item: `name` is what the browser asks for it by."""

    name: str
    role: str
    """reference, source, original, output, ..."""
    number: int = 0
    """Its number among those of its role, from 1; 0 where it is the only one."""
    output: int | None = None
    """Which output it belongs to, by its place on the screen."""
    width: int = 0
    height: int = 0
    """0 where the picture cannot be opened."""


class Shown(Record):
    """One item as a rater sees it."""

    item: str
    screen: Screen
    phase: Literal["training", "item"]
    instruction: str = ""
    attention: Mapping[str, str] = {}
    """What is asked in the place of the instruction, of an explicit check."""
    text: str = ""
    """A caption that stands in the place of a reference picture."""
    pictures: tuple[Slot, ...] = ()
    outputs: int = 0
    """How many outputs there are; pictures say which one they belong to."""
    entries: tuple[Entry, ...] = ()
    row: Mapping[str, Any] = {}
    """Of a review: the line as it is to be decided about."""
    editable: tuple[str, ...] = ()
    given: Mapping[str, Value] | None = None
    """What the rater has said before, where an item is opened again."""
    comment: str = ""
    position: int
    total: int


class Incoming(Record):
    """A mark as the browser sends it; values by the names of the entries, in the places on the screen."""

    id: str = Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")
    item: str = Field(max_length=64)
    values: Mapping[Annotated[str, Field(max_length=200)], Value] = {}
    skip: bool = False
    comment: str = Field(default="", max_length=20_000)
    reported: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=64)] = ()
    """Names of pictures that cannot be seen, or should not be."""
    active: Seconds = 0
    wall: Seconds = 0


class Feedback(Record):
    """What a trainee is told about an answer."""

    name: str
    right: bool


class Acknowledgement(Record):
    """A mark that is on disk."""

    id: str
    item: str
    again: bool = False
    """Whether this mark was on disk before: the browser has sent it twice."""
    done: int
    total: int
    finished: bool = False
    feedback: tuple[Feedback, ...] = ()
    why: Mapping[str, str] = {}
    training: Literal["", "going", "passed", "again", "failed"] = ""


class Refusal(Record):
    """Why something was not taken or not given, in a sentence for whoever asked."""

    kind: Literal["unknown", "invalid", "consent", "closed", "not_yet", "picture"]
    sentence: str


class Progress(Record):
    """How far a rater is."""

    done: int
    total: int
    skipped: int = 0
    """Items that were skipped and will come back."""
    seconds_left: float | None = None
    """From the rater's own median; None before there is one."""
    consented: bool
    """Also where the study asks for no consent."""
    training: Literal["", "going", "passed", "again", "failed"] = ""
    finished: bool = False
    """Whether all is marked that there is for this rater; the finish code may be asked for."""
    closed: bool = False
    """Whether the code was given: marks are not changed any more."""
    full: bool = False
    """Whether others have marked everything before this rater marked anything: there is no code."""
    undo: bool = False
    """Whether there is a mark to take back."""
