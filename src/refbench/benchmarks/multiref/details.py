"""The names of MultiRef-Bench: its splits, reference types and categories, and what only scorers see of a case."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from refbench.case import Case, Picture
from refbench.record import Record

Split = Literal["synthetic", "real-world"]
SPLITS: Mapping[Split, int] = {"synthetic": 990, "real-world": 1000}
"""With the number of cases that the paper has."""

Type = Literal["bbox", "semantic_map", "mask", "depth", "canny", "sketch", "caption", "pose", "subject", "style"]
TYPES: tuple[Type, ...] = (
    "bbox",
    "semantic_map",
    "mask",
    "depth",
    "canny",
    "sketch",
    "caption",
    "pose",
    "subject",
    "style",
)
"""In the order of the columns of the paper's Table 6."""

ERRORS: frozenset[Type] = frozenset({"depth", "canny", "sketch"})
"""Measured by a mean squared error: lower is better, and 1 - x goes into every average."""

MAPS: frozenset[Type] = frozenset({"bbox", "semantic_map", "mask", "depth", "canny", "sketch", "pose"})
"""Extracted from the original picture, so that their pixels mean something; the others are photographs or text."""

WORDS: Mapping[Type, str] = {
    "bbox": "bounding box",
    "semantic_map": "semantic map",
    "mask": "mask",
    "depth": "depth map",
    "canny": "Canny edges",
    "sketch": "sketch",
    "caption": "caption",
    "pose": "pose",
    "subject": "subject",
    "style": "art style",
}

Category = Literal[
    "element_replacement", "element_addition", "style_appearance", "spatial_environment", "attribute_transfer"
]
CATEGORIES: Mapping[Category, tuple[int, str, int]] = {
    "element_replacement": (1, "Element Replacement", 529),
    "element_addition": (2, "Element Addition", 246),
    "style_appearance": (3, "Style and Appearance", 41),
    "spatial_environment": (4, "Spatial/Environment", 111),
    "attribute_transfer": (5, "Attribute Transfer", 73),
}
"""The real-world taxonomy: number in the files, name in the tables, cases in the paper."""
UNKNOWN = "unknown"

AXES = ("IQ", "IF", "SF")
"""Image quality, instruction following, source fidelity: a judge's marks from 1 to 5."""
LOWEST, HIGHEST = 1.0, 5.0

Box: TypeAlias = tuple[float, float, float, float]


class Reference(Record):
    """One reference of a synthetic case: what the model is shown of it, and what it can be compared with."""

    type: Type
    token: str = ""
    """What the instruction calls the picture, without the angle brackets; empty for a caption."""
    picture: Picture | None = None
    """None for a caption, and where the entry names no file that could be used."""
    official: Picture | None = None
    """The picture that the released code compares with, where the model was shown another one."""
    box: Box | None = None
    """In pixels of the picture, where the entry has the numbers."""
    caption: str | None = None
    extractor: str = ""
    """What drew it, where the entry says so: another extractor than the paper's is measured by itself."""

    @property
    def usable(self) -> bool:
        return self.picture is not None or bool(self.caption)


class MultiRefDetails(Record):
    """What a case is made of, beyond what the model sees."""

    split: Split
    entry: int
    """Its place in the file, from 0."""
    references: tuple[Reference, ...] = ()
    tokens: tuple[str, ...] = ()
    """What the instruction calls each picture of the request."""
    structured: str = ""
    enhanced: tuple[str, ...] = ()

    def of_type(self, name: str) -> tuple[Reference, ...]:
        """The references of a type; more than one where several subjects or people were given."""
        return tuple(reference for reference in self.references if reference.type == name)

    @property
    def types(self) -> tuple[Type, ...]:
        there = {reference.type for reference in self.references}
        return tuple(name for name in TYPES if name in there)


MultiRefCase: TypeAlias = Case[MultiRefDetails]
