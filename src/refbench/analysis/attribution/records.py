"""What became of the references of an output, as somebody sees it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from refbench.record import Record

State: TypeAlias = Literal["used", "distorted", "doubled", "missing"]
Way: TypeAlias = Literal["call", "each", "offline"]
WAYS: tuple[Way, ...] = ("call", "each", "offline")
"""All references in one structured call of a judge, a call for each reference, and networks on this machine."""
FOLDER = "attribution"
"""Where in a run's directory its attributions lie, each a run of its own by its way."""
BESIDE = ("mask", "source")
"""Roles of pictures that are no references."""
NETWORKS = "networks"
"""Who says it where no judge was asked."""


class Use(Record):
    """One reference: its number among the pictures of the request, from 1, and its state; without one, `why`."""

    image: int
    role: str
    state: State | None = None
    why: str = ""


class OutputUse(Record):
    """The references of one output, as one judge or the networks see them."""

    case: str
    model: str
    seed: int
    way: Way
    by: str
    references: tuple[Use, ...]

    @property
    def used(self) -> int:
        """References that are there, in whatever condition."""
        return sum(one.state not in (None, "missing") for one in self.references)

    @property
    def known(self) -> int:
        return sum(one.state is not None for one in self.references)

    def images(self, *states: State | None) -> list[int]:
        return [one.image for one in self.references if one.state in states]

    def said(self) -> str:
        """In words, with the numbers of those that are not as they should be; what is unknown is no zero."""
        whole = len(self.references)
        if not self.known:
            return f"unknown which of {whole} references it uses ({self.references[0].why})"
        of = f"{whole} references" if self.known == whole else f"the {self.known} of {whole} references that are known"
        parts = [f"used {self.used} of {of}"]
        parts += [f"{state}: {_images(self.images(state))}" for state in _TOLD if self.images(state)]
        unknown = self.images(None)
        return "; ".join([*parts, *([f"unknown: {_images(unknown)}"] if unknown else [])])


_TOLD: tuple[State, ...] = ("missing", "distorted", "doubled")


def _images(numbers: list[int]) -> str:
    return f"image{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
