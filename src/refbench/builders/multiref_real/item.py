"""The nouns of this builder: a request as the source has it, and the entry that is shipped."""

from __future__ import annotations

from dataclasses import dataclass

from refbench.benchmarks.multiref.cases import Category
from refbench.builders.kit.sources import Plain

INPUTS = (2, 6)
"""Pictures before, as the paper has them."""
MOST_OUTPUTS = 8


@dataclass(frozen=True)
class Sought:
    """One request of the source: what somebody asked for, with the pictures before and those that others made of it."""

    id: int
    where: str
    request: str
    inputs: tuple[Plain, ...]
    outputs: tuple[Plain, ...]
    split: str = ""

    @property
    def name(self) -> str:
        """What dropped.jsonl and the review call it."""
        return str(self.id)


@dataclass(frozen=True)
class Item:
    """One entry of the dataset."""

    sought: Sought
    output: Plain
    instruction: str
    category: Category | None = None
    problem: str = ""
    """What is against it: then it is not shipped, but offered for review."""
