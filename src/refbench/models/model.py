"""ImageModel: what is shown to a model, what it gives back, and what one may know of it. Small, and nothing else.

A model sees a `Commission`: the instruction and the pictures of a case's Request, as files. Golden pictures and other
details of the case are not in it and cannot be reached from it. Wrappers and agents map Commissions to Commissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from refbench.failure import Failure
from refbench.record import Record


@dataclass(frozen=True)
class Shown:
    """A picture that a model is shown: the file, and what it is there for (source, mask, subject, style, ...)."""

    path: Path
    role: str


@dataclass(frozen=True)
class Commission:
    """All that a model is told: instruction, ordered pictures, the size wanted back, and how many pictures."""

    instruction: str
    pictures: tuple[Shown, ...] = ()
    size: tuple[int, int] | None = None
    n_pictures: int = 1


@dataclass(frozen=True)
class Step:
    """One step on the way to a result: what it was asked, the picture it made (or why not), what it cost."""

    instruction: str
    pictures: tuple[bytes, ...] = ()
    failure: Failure | None = None
    seconds: float | None = None
    cost_usd: float | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Painted:
    """What a model gave: encoded pictures in order, or a Failure. A set that is not complete has both.

    `steps` are those before the result, of models that take several.
    """

    pictures: tuple[bytes, ...] = ()
    failure: Failure | None = None
    seconds: float | None = None
    cost_usd: float | None = None
    steps: tuple[Step, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)


class Traits(Record):
    """What is known of a model before it is asked."""

    family: str = ""
    open_weights: bool | None = None
    max_references: int | None = None
    """None: as many as there are."""
    roles: tuple[str, ...] | None = None
    """Roles of pictures that it can take; None for any."""
    max_pictures: int | None = None
    """Most pictures it gives back for one request; None for any number."""
    size: tuple[int, int] | None = None
    """The only size that it makes, where there is one."""
    usd_a_picture: float | None = None


@runtime_checkable
class ImageModel(Protocol):
    """Anything that paints. Failures are given back, not raised; RefBenchError is for what no case can succeed with."""

    name: str
    traits: Traits

    def canonical(self) -> Mapping[str, str]:
        """Who paints, with which settings: everything that changes the pictures, never a key."""
        ...

    async def generate(self, commission: Commission, seed: int) -> Painted: ...

    async def close(self) -> None: ...
