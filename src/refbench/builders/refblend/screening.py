"""Screening: a judge's marks from 1 to 5 for references, by the axes of their types; kept at 3 or more on every axis.

The axes are MultiRef's, the words ours (data/judge). The judge sees the original picture and the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.refblend.types import Type
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale
from refbench.judges.prompts import filled

LOWEST = 3
"""A reference with a lower mark on any axis is not given."""
REVIEWED: frozenset[Type] = frozenset({"pose", "subject", "style"})
"""Types that the paper's authors checked by hand: their samples ask for a review, whatever a judge says."""

Marks: TypeAlias = Mapping[str, int]
"""`Canny Alignment` and the like, as the official JSON names them."""

_NAMES: Mapping[Type, str] = {"semantic_map": "Semantic-Map", "bbox": "Bounding-Box"}


@dataclass(frozen=True)
class TypeRubric:
    """What a judge is asked about the references of a type."""

    type: Type
    what: str
    contract: Contract

    @property
    def text(self) -> str:
        """The request, before the pictures."""
        values = {"what": self.what, "criteria": self.contract.criteria_text(), "format": self.contract.format_text()}
        return filled(_text("request.txt"), values)


@cache
def rubric(kind: Type) -> TypeRubric:
    """The rubric of a type, from its file: a line `what:`, then a line for each axis."""
    lines = [line.partition(":") for line in _text(f"{kind}.txt").splitlines() if line.strip()]
    axes = {name.strip(): text.strip() for name, _, text in lines}
    what = axes.pop("what")
    criteria = tuple(Criterion(name, Scale(1, 5, whole=True), text) for name, text in axes.items())
    return TypeRubric(kind, what, Contract("json_object", criteria))


def axis_name(kind: Type, axis: str) -> str:
    """The axis in the official JSON: `Bounding-Box Accuracy`."""
    return f"{_NAMES.get(kind, kind.capitalize())} {axis.capitalize()}"


def marks_about(kind: Type, marks: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Those marks that are about the references of a type."""
    axes = {axis_name(kind, criterion.name) for criterion in rubric(kind).contract.criteria}
    return {axis: mark for axis, mark in marks if axis in axes}


def shown(kind: Type, original: Path, reference: Path | str) -> list[str | Path]:
    """What a judge gets to see of one reference, in this order: the request, the original, the reference. A judge of
    one's own is trained on the same."""
    last: str | Path = f"The caption: {reference}" if isinstance(reference, str) else reference
    between = ["The reference:"] if isinstance(last, Path) else []
    return [rubric(kind).text, "The original picture:", original, *between, last]


async def marks_of(
    interviews: Interviews, vlm: VLM, about: str, kind: Type, original: Path, reference: Path | str
) -> Marks | Failure:
    """The marks of one reference: a picture, or a caption's text."""
    asked = rubric(kind)

    def read(reply: str) -> Marks | Failure:
        marks: dict[str, int] = {}
        for axis, mark in asked.contract.read(reply).items():
            if isinstance(mark, Failure):
                return mark
            assert isinstance(mark, float)
            marks[axis_name(kind, axis)] = int(mark)
        return marks

    said = shown(kind, original, reference)
    return await interviews.ask(vlm, about, f"marks {kind}", said, read, max_tokens=1000)


def too_low(marks: Marks) -> str:
    """The first axis below the lowest mark that is kept, with the mark; empty when all are kept."""
    return next((f"{axis} {mark}" for axis, mark in marks.items() if mark < LOWEST), "")


def _text(name: str) -> str:
    return resources.files("refbench.builders.refblend").joinpath(f"data/judge/{name}").read_text("utf-8").strip()
