"""What a build left out, at which stage and why: nothing disappears without a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.builders.kit.folder import as_lines, write_file
from refbench.record import Record, clean_text


@dataclass(frozen=True)
class Subject:
    """What a line of dropped.jsonl is about: a picture, an item, a case, by its id, with a picture to show."""

    what: str
    id: str
    picture: str = ""


class Dropped(Record):
    """One thing that did not make it: `what` it is (a picture, an item, a question), by its id."""

    stage: str
    what: str
    id: str
    reason: str
    """One of a few kinds, so that they can be counted."""
    detail: str = ""
    picture: str = ""
    """Path of a picture to show in the card, relative to the source; empty where there is none."""


class DroppedItems:
    """The list of one build, in an order that does not depend on who finished first: by `stages` as the build goes
    through them, then by name."""

    def __init__(self, stages: Sequence[str] = ()) -> None:
        self._stages = {stage: place for place, stage in enumerate(stages)}
        self._items: dict[tuple[str, str, str], Dropped] = {}

    def add(self, stage: str, what: str, item: str, reason: str, detail: str = "", picture: str = "") -> None:
        dropped = Dropped(
            stage=stage, what=what, id=clean_text(item), reason=reason, detail=clean_text(detail), picture=picture
        )
        self._items.setdefault((stage, what, dropped.id), dropped)

    def __iter__(self) -> Iterator[Dropped]:
        last = len(self._stages)
        return iter(
            sorted(
                self._items.values(), key=lambda one: (self._stages.get(one.stage, last), one.stage, one.what, one.id)
            )
        )

    def __len__(self) -> int:
        return len(self._items)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many for each stage and reason, the most frequent first."""
        found: dict[str, Counter[str]] = {}
        for one in self:
            found.setdefault(one.stage, Counter())[one.reason] += 1
        return {stage: dict(counter.most_common()) for stage, counter in found.items()}

    def write(self, path: Path) -> None:
        write_file(path, as_lines(one.model_dump() for one in self))
