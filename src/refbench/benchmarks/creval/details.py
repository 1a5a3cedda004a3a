"""What only scorers of CREval see: the questions, exactly as the release has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from refbench.case import Case
from refbench.record import Record

Metric = Literal["IF", "VC", "VQ"]
METRICS: tuple[Metric, ...] = ("IF", "VC", "VQ")

DIMENSIONS: Mapping[int, tuple[str, str]] = {
    1: ("Customization", "Derivative Character"),
    2: ("Customization", "Reimagined Representations"),
    3: ("Customization", "Surreal Fantasy"),
    4: ("Stylization", "Artistic Style Transformation"),
    5: ("Stylization", "Identity & Cultural Transformation"),
    6: ("Stylization", "Material Transformation"),
    7: ("Contextualization", "Containerized Scenario"),
    8: ("Contextualization", "Commercial Design"),
    9: ("Contextualization", "Informational & Narrative Expression"),
}
"""class_id to category and dimension, by the names of the paper's Table S1."""


class Question(Record):
    """One yes/no question. Text, choices and reference are raw: reading them is the protocol's business."""

    id: str
    text: str
    choices: tuple[str, ...]
    reference: str
    weight: int
    written_weight: int | None = None
    """The weight in the question writer's own text, where the released conversion lost it."""


class CREvalDetails(Record):
    """Number and class of the item, and its questions for each metric in the order of the file."""

    item: int
    class_id: int
    source_size: tuple[int, int] | None
    """Width and height of the source picture as the release states them."""
    questions: Mapping[Metric, tuple[Question, ...]]


CREvalCase: TypeAlias = Case[CREvalDetails]
