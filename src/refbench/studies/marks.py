"""Marks: what raters said, a line a change. The last line about a rater's item stands, nothing is ever deleted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from refbench.record import Record
from refbench.studies.log import Log

FILE = "marks.jsonl"

Value: TypeAlias = float | str | Mapping[str, Any] | None
Seconds = Annotated[float, Field(ge=0, le=1e7)]
Place: TypeAlias = tuple[str, str, int]
"""A rater, an item, and the occasion: 0 the first time it was shown, 1 the repeat."""


class Mark(Record):
    """All that a rater said of an item at one time, in the order that the owner knows the outputs by."""

    id: str = Field(min_length=8, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")
    """The browser's: a resend is the same mark."""
    rater: str
    item: str
    occasion: int = Field(default=0, ge=0)
    version: int = 1
    """Of the design that it was given under."""
    state: Literal["given", "skipped", "undone"] = "given"
    values: Mapping[str, Value] = {}
    """By field: a number, a word of the field, or `unsure`."""
    order: tuple[int, ...] = ()
    """Which output stood in each place, as the rater saw them."""
    comment: Annotated[str, Field(max_length=20_000)] = ""
    reported: tuple[str, ...] = ()
    """Pictures that the rater could not see, or that should not be shown, by their places."""
    active: Seconds = 0
    """Seconds from all pictures painted, without those hidden or idle."""
    wall: Seconds = 0
    time: float = 0

    @property
    def place(self) -> Place:
        return self.rater, self.item, self.occasion


class Marks:
    """The marks of a study as they stand."""

    def __init__(self, folder: Path, fits: Callable[[Mark], bool] = lambda mark: True) -> None:
        """`fits` says whether a mark can be one of the study's; what does not is as good as a line nobody can read."""
        self._log, self._fits = Log(folder / FILE, Mark), fits
        self._clear()
        self.refresh()

    def _clear(self) -> None:
        self._strange = 0
        self.standing: dict[Place, Mark] = {}
        """The last line about each place, undone ones as well, in the order in which places were first marked."""
        self.by_id: dict[tuple[str, str], Mark] = {}
        self.history: dict[str, list[Place]] = {}
        """By rater: what was marked, in order; the last is what undo takes back."""
        self.skips: Counter[Place] = Counter()
        """How often each place was skipped: what was skipped once comes back once."""
        self.givers: dict[str, set[str]] = defaultdict(set)
        """By item: who gave a mark that stands."""

    @property
    def broken(self) -> int:
        """Lines that cannot be read, the torn ones of a killed server among them, and those that fit no item."""
        return self._log.broken + self._strange

    def refresh(self) -> list[Mark]:
        """Take in what was appended since, here or by another process."""
        lines = self._log.new()
        if self._log.anew:
            self._clear()
        new = [mark for mark in lines if self._fits(mark)]
        self._strange += len(lines) - len(new)
        for mark in new:
            self._stands(mark)
        return new

    def add(self, marks: Iterable[Mark]) -> list[Mark]:
        """Append those that are not there yet, by the browser's ids; `sync` returns when they are on disk."""
        self.refresh()
        fresh = list({(m.rater, m.id): m for m in marks if (m.rater, m.id) not in self.by_id}.values())
        if fresh:
            self._log.write(fresh)
            self.refresh()
        return fresh

    def sync(self) -> None:
        """Return when every mark is on disk."""
        self._log.sync()

    def without_comments(self, rater: str) -> None:
        """Delete what a rater wrote in words; the marks stay."""
        if self._log.path.exists():
            self._log.rewrite(lambda mark: mark.model_copy(update={"comment": ""}) if mark.rater == rater else mark)
        self.refresh()

    def given(self) -> Iterable[Mark]:
        """Marks that stand: neither skipped nor taken back."""
        return (mark for mark in self.standing.values() if mark.state == "given")

    def of(self, rater: str) -> list[Mark]:
        return [self.standing[place] for place in self.history.get(rater, ())]

    def _stands(self, mark: Mark) -> None:
        self.by_id[mark.rater, mark.id] = mark
        self.standing[mark.place] = mark
        if mark.occasion == 0:
            (self.givers[mark.item].add if mark.state == "given" else self.givers[mark.item].discard)(mark.rater)
        self.skips[mark.place] += mark.state == "skipped"
        history = self.history.setdefault(mark.rater, [])
        if mark.place in history:
            history.remove(mark.place)
        if mark.state == "undone":
            history.insert(0, mark.place)
        else:
            history.append(mark.place)
