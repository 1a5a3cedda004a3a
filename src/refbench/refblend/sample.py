"""Sample: one finished multi-reference sample, as the official JSON, Parquet and WebDataset writers take it.

The planner says which references (`plan.Planned`), `instructions.compose` puts them into words; what a sample has to
do with files (split, judge's marks, review) is not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from refbench.failure import Failure
from refbench.record import Record
from refbench.refblend.types import Type, TypeSet, set_of


class Given(Record):
    """One reference of a sample."""

    type: Type
    instance: int = 0
    """Its place among the candidates that the picture offers of this type, from 0."""
    token: str = ""
    """What the instruction calls it, without the angle brackets: `subject_1`, `canny_image`; "" for a caption."""
    path: str = ""
    """Relative to the dataset, with forward slashes; "" for a caption."""


class Sample(Record):
    """A picture, the references to follow, and what is asked; the picture itself is the target."""

    id: str
    """Of picture, types and instances alone: the same whatever the seed, the order and the number of samples."""
    picture: str
    """The original: relative to the dataset, with forward slashes."""
    references: tuple[Given, ...]
    """In the order in which the instruction names them; the caption, if there is one, is last."""
    caption: str | None = None
    instruction: str
    """From our templates: `original_prompts` of the official JSON."""
    enhanced: tuple[str, ...] = ()
    """Rewritten in the voice of the persona and found valid: `enhance_prompts`. Empty when the original was kept."""
    persona: str | None = None
    """Whose voice was asked for, also where the original was kept."""
    rewriting: Literal["not asked", "rewritten", "kept"] = "not asked"
    why_kept: Failure | None = None
    """What was wrong with the last rewriting; a transient kind may be asked for again."""

    @property
    def types(self) -> tuple[Type, ...]:
        """Every type once, in the order of the instruction."""
        return tuple(dict.fromkeys(given.type for given in self.references))

    @property
    def combination(self) -> TypeSet:
        return set_of(self.types)

    @property
    def image_path_mapping(self) -> Mapping[str, str]:
        """Placeholder without brackets to path, as the official JSON has it."""
        return {given.token: given.path for given in self.references if given.token}

    def of_type(self, kind: Type) -> tuple[Given, ...]:
        return tuple(given for given in self.references if given.type == kind)
