"""Versions of a design: the first is fixed at the first mark, and any change after it makes the next."""

from __future__ import annotations

from pathlib import Path

from refbench.record import Record
from refbench.studies.design import StudyDesign
from refbench.studies.log import Log

FILE = "versions.jsonl"


class Version(Record):
    """A design that marks were given under."""

    number: int
    hash: str
    time: float
    design: StudyDesign


class Versions:
    """The designs that marks were given under; `number` is the one that a mark given now belongs to."""

    def __init__(self, folder: Path, design: StudyDesign) -> None:
        self._log = Log(folder / FILE, Version)
        self.all: list[Version] = []
        self._design = design
        self._refresh()

    @property
    def number(self) -> int:
        known = next((version.number for version in self.all if version.hash == self._design.hash), None)
        return known or len(self.all) + 1

    def design(self, number: int) -> StudyDesign:
        """The design of a version; what is known of none was given under the one that stands."""
        if number != self.number and all(version.number != number for version in self.all):
            self._refresh()  # another process has made it
        return next((version.design for version in self.all if version.number == number), self._design)

    def freeze(self, time: float) -> None:
        """Write the design down as a version; one that is there already stays."""
        if any(version.hash == self._design.hash for version in self.all):
            return
        self._refresh()
        made = Version(number=self.number, hash=self._design.hash, time=time, design=self._design)
        self._log.append([made])
        self._refresh()

    def _refresh(self) -> None:
        new = self._log.new()
        self.all = new if self._log.anew else self.all + new
