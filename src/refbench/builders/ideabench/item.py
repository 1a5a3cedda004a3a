"""The nouns of this builder: a design task as the source has it, its graded questions, and the case that is shipped."""

from __future__ import annotations

from dataclasses import dataclass

from refbench.benchmarks.ideabench.cases import QUESTIONS, Category, category_of
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.pictures import SourcePicture
from refbench.record import Record

LEVELS = ("basis", "basis", "demands", "demands", "finish", "finish")
"""Of the six questions: unless the basis is earned nothing else counts, unless the demands are the finish does not."""
assert len(LEVELS) == QUESTIONS
MOST_OUTPUTS = 12


@dataclass(frozen=True)
class DesignTask:
    """One design task of the source."""

    id: str
    """`<slug>_<NNNN>`, the folder of the case."""
    slug: str
    name: str
    """The name of the task, in words."""
    uid: str
    keywords: tuple[str, ...] = ()
    instruction: str = ""
    """Empty where the writer is to write it from the keywords."""
    pictures: tuple[SourcePicture, ...] = ()
    outputs: int = 1
    split: str = ""

    @property
    def category(self) -> Category:
        return category_of(
            reference=bool(self.pictures),
            several_references=len(self.pictures) > 1,
            several_outputs=self.outputs > 1,
        )

    @property
    def several(self) -> bool:
        """Whether it is a task of several pictures, in or out."""
        return len(self.pictures) > 1 or self.outputs > 1

    @property
    def first_level(self) -> int:
        """How many questions need not be written: of a set, whether all its pictures are there is counted."""
        return 1 if self.outputs > 1 else 0

    @property
    def hashes(self) -> tuple[str, ...]:
        return tuple(picture.sha256 for picture in self.pictures)

    @property
    def subject(self) -> Subject:
        return Subject("case", self.id, self.pictures[0].name if self.pictures else "")


class GradedQuestion(Record):
    """One question with what earns 0 and what earns 1, and the pictures that it is about (numbers from 1)."""

    question: str
    zero: str
    one: str
    references: tuple[int, ...] = ()
    results: tuple[int, ...] = (1,)
    capability: str = ""
    """The keyword of a multi-image task that it tests; empty for none."""


@dataclass(frozen=True)
class Item:
    """One case of the dataset."""

    task: DesignTask
    instruction: str
    capabilities: tuple[str, ...] = ()
    questions: tuple[GradedQuestion, ...] = ()
    """The written ones: six, or five behind the count."""
    problem: str = ""
    """What the checker has against it: then it is not shipped, but offered for review."""

    @property
    def id(self) -> str:
        return self.task.id
