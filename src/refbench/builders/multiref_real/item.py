"""The nouns of this builder: a request as the source has it, and the entry that is shipped."""

from __future__ import annotations

from dataclasses import dataclass

from refbench.benchmarks.multiref.cases import Category
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.pictures import SourcePicture


@dataclass(frozen=True)
class EditRequest:
    """One request of the source: what somebody asked for, the pictures before, and what others made of them."""

    id: int
    text: str
    """In the words of whoever asked."""
    inputs: tuple[SourcePicture, ...]
    outputs: tuple[SourcePicture, ...]
    split: str = ""

    @property
    def name(self) -> str:
        """What dropped.jsonl and the review call it."""
        return str(self.id)

    @property
    def hashes(self) -> frozenset[str]:
        return frozenset(picture.sha256 for picture in self.inputs)

    @property
    def subject(self) -> Subject:
        return Subject("request", self.name, self.inputs[0].name)


@dataclass(frozen=True)
class Item:
    """One entry of the dataset."""

    request: EditRequest
    output: SourcePicture
    """The one that is kept."""
    instruction: str
    category: Category | None = None
    problem: str = ""
    """What is against it: then it is not shipped, but offered for review."""

    @property
    def pictures(self) -> tuple[SourcePicture, ...]:
        return (*self.request.inputs, self.output)
