"""Case and Request: one task, and the part of it that the model under test may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import Field, field_validator

from refbench.record import Record

DetailsT = TypeVar("DetailsT")


class Picture(Record):
    """An input picture: its role, and its path inside the dataset (never an absolute one)."""

    name: str
    role: str
    sha256: str | None = None

    @field_validator("name")
    @classmethod
    def _inside(cls, name: str) -> str:
        if "\0" in name:
            raise ValueError(f"no file can be called {name!r}")
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"picture name {name!r} leaves the dataset directory")
        return name


MOST_PICTURES = 1000
"""Pictures that a case may ask for: they are looked for and counted one by one."""


class Request(Record):
    """All that an image model sees: the instruction and the ordered, role-tagged pictures."""

    instruction: str
    pictures: tuple[Picture, ...] = ()
    size: tuple[int, int] | None = None
    """Width and height wanted back, where the benchmark fixes them."""
    n_pictures: int = 1

    @property
    def references(self) -> tuple[Picture, ...]:
        """The pictures that are neither edited nor say where."""
        return tuple(picture for picture in self.pictures if picture.role not in ("source", "mask"))


class Case(Record, Generic[DetailsT]):
    """One task of a benchmark.

    `groups` are the names a table slices by (category, dimension, task). Cases of one `cluster` depend on
    each other (same source picture, same prompt family) and are resampled together; resampling keeps the
    number of clusters in each `stratum`, which the benchmark's design fixes. `targets` and `details` are
    for scorers only and never reach an image model.
    """

    id: str = Field(min_length=1)
    request: Request
    groups: Mapping[str, str] = {}
    tags: tuple[str, ...] = ()
    cluster: str
    stratum: str = ""
    targets: tuple[Picture, ...] = ()
    details: DetailsT


AnyCase = Case[Any]
