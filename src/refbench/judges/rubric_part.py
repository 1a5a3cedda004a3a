"""RubricPart: one call of a rubric, and the measures its reply gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from refbench.judges.criteria import Criterion, Scale, Text
from refbench.judges.totals import Rule

Shown = Literal["source", "references", "targets", "output"]
Range: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class RubricPart:
    """One call to the judge: what it is shown, what it is told, what it is asked for.

    With `combine`, the marks of the call are combined to one measure that has the part's name. With
    `questions`, the call asks the case's own questions and gives the share answered yes under that name.
    """

    name: str
    shows: tuple[Shown, ...]
    text: str
    criteria: tuple[Criterion, ...]
    weights: tuple[float, ...]
    """Of the criteria, in their order."""
    combine: Rule | None = None
    weight: float = 1.0
    questions: str = ""

    def measures(self) -> dict[str, Range]:
        """The measures that a reply to this part gives, with their ranges."""
        found = {c.name: _range(c) for c in self.criteria if not isinstance(c.kind, Text)}
        if self.questions:
            found[self.questions] = (0.0, 1.0)
        if self.combine:
            found[self.name] = next(iter(found.values()))
        return found

    def headline(self) -> dict[str, float]:
        """The measures that go into the total, with their weights."""
        if self.combine:
            return {self.name: self.weight}
        if self.questions:
            return {self.questions: self.weight}
        marks = zip(self.criteria, self.weights, strict=True)
        return {c.name: weight for c, weight in marks if not isinstance(c.kind, Text)}


def _range(criterion: Criterion) -> Range:
    return (criterion.kind.low, criterion.kind.high) if isinstance(criterion.kind, Scale) else (0.0, 1.0)
