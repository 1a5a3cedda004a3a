"""The nouns of this builder: a source picture, a planned item, its questions, and the item as it is shipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from refbench.benchmarks.creval.cases import Metric
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.pictures import SourcePicture
from refbench.record import Record


@dataclass(frozen=True)
class Planned:
    """A picture and the dimension that it was dealt."""

    picture: SourcePicture
    class_id: int
    split: str = ""

    @property
    def subject(self) -> Subject:
        return Subject("item", self.picture.name, self.picture.name)


class ItemQuestion(Record):
    """One yes/no question whose answer for a good edit is Yes."""

    question: str
    thinking: str = ""
    weight: int = 1


class Questions(Record):
    """The questions of one metric, and what the writer listed before it wrote them."""

    listed: tuple[str, ...] = ()
    """IF: the requirements. VC: what may change. VQ: the places where the edit shows."""
    questions: tuple[ItemQuestion, ...]
    flagged: tuple[str, ...] = ()
    """Those that cannot tell an edit from none, where they were kept all the same."""


LEAST = 5
"""Questions for each metric that the paper promises."""
MOST = 9
"""The released reader takes "Q10" for "Q1" where Q1 is missing; with nine questions there is no Q10."""


@dataclass(frozen=True)
class Item:
    """One item of the dataset."""

    planned: Planned
    instruction: str
    questions: Mapping[Metric, Questions]

    @property
    def stem(self) -> str:
        return self.planned.picture.stem
