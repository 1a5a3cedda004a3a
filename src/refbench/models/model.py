"""ImageModel: what is shown to a model, what it gives back, and what one may know of it. Small, and nothing else.

A model sees a `Commission`: the instruction and the pictures of a case's Request, as files. Golden pictures and other
details of the case are not in it and cannot be reached from it. Wrappers and agents map Commissions to Commissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.record import Record
from refbench.specs import Options


@dataclass(frozen=True)
class Commission:
    """All that a model is told: instruction, ordered pictures, the size wanted back, and how many pictures."""

    instruction: str
    pictures: tuple[Shown, ...] = ()
    size: tuple[int, int] | None = None
    n_pictures: int = 1


@dataclass(frozen=True)
class Shown:
    """A picture that a model is shown."""

    path: Path
    role: str
    """What it is there for: source, mask, subject, style, ..."""


@dataclass(frozen=True)
class Step:
    """One step on the way to a result: what it was asked, the picture it made (or why not), what it cost."""

    instruction: str
    pictures: tuple[bytes, ...] = ()
    failure: Failure | None = None
    seconds: float | None = None
    cost_usd: float | None = None
    worst_usd: float | None = None
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
    worst_usd: float | None = None
    """The most that it can have cost, where that is not known."""
    steps: tuple[Step, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)


_AFTERWARDS: ContextVar[list[Callable[[], None]] | None] = ContextVar("afterwards", default=None)


@contextmanager
def making() -> Iterator[list[Callable[[], None]]]:
    """An output is being made: gathers what models want done once it is safe on record."""
    afterwards: list[Callable[[], None]] = []
    token = _AFTERWARDS.set(afterwards)
    try:
        yield afterwards
    finally:
        _AFTERWARDS.reset(token)


def when_recorded(act: Callable[[], None]) -> None:
    """Do this once the output that is being made is on record. Without a run nobody records, and it is not done."""
    if (afterwards := _AFTERWARDS.get()) is not None:
        afterwards.append(act)


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
    price: float | None = None
    """US dollars for one picture; None when it is not known."""


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


class Startable:
    """A model that can be started before its first request: what is wrong with it is found before others have painted
    and been paid."""

    async def start(self) -> None:
        """Raises RefBenchError where the model cannot be used."""
        raise NotImplementedError


def traits_of(options: Options, family: str, known: Traits | None = None) -> Traits:
    """What is known of a model, with what its spec says instead."""
    traits = known or Traits()
    given = {
        name: options[name]
        for name in ("open_weights", "max_references", "max_pictures", "roles")
        if options[name] is not None
    }
    if options["price"] is not None and len(options["price"]) == 1:  # two are for tokens
        given["price"] = options["price"][0]
    size = options["size"]
    if isinstance(size, str) and "x" in size and size[0].isdigit():  # not 2K
        size = tuple(int(side) for side in size.split("x"))
    if isinstance(size, tuple):
        given["size"] = size
    return traits.model_copy(update={**given, "family": options["family"] or traits.family or family})


def priced(painted: Painted, traits: Traits) -> Painted:
    """The result at the price of its pictures, where it does not say itself what it cost."""
    if painted.cost_usd is not None or traits.price is None:
        return painted
    return replace(painted, cost_usd=traits.price * len(painted.pictures))


def takes_role(traits: Traits, role: str) -> bool:
    return traits.roles is None or role in traits.roles


def pictures_too_many(pictures: Sequence[Shown], traits: Traits) -> str:
    """Why the model cannot take these pictures, "" when it can. Masks travel apart and do not count."""
    foreign = sorted({shown.role for shown in pictures if not takes_role(traits, shown.role)})
    if foreign:
        return f"it takes no picture in the role {', '.join(foreign)}"
    count = sum(shown.role != "mask" for shown in pictures)
    if traits.max_references is not None and count > traits.max_references:
        return f"it takes at most {traits.max_references} pictures and the request has {count}"
    return ""


def not_native(commission: Commission, traits: Traits) -> str:
    """Why the model cannot take the request as it is, "" when it can."""
    if traits.max_pictures is not None and commission.n_pictures > traits.max_pictures:
        return f"it gives at most {traits.max_pictures} pictures and {commission.n_pictures} are asked for"
    return pictures_too_many(commission.pictures, traits)


def unsupported(detail: str) -> Failure:
    """The request is none for this model: final, and no fault of it."""
    return Failure(kind="unsupported", detail=detail)


@runtime_checkable
class GivenOutputs(Protocol):
    """Outputs that need not be made: their model's name and family, and the files for a case, in order."""

    name: str
    family: str
    one_seed: str
    """Why there is one picture for every request, whatever the seed; "" where seeds tell several apart."""

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure: ...


AnyModel: TypeAlias = GivenOutputs | ImageModel


def seeds_for(model: AnyModel, seeds: int) -> range:
    """The seeds that a model is asked for when so many are wanted: the same picture twice would not be two."""
    return range(seeds if isinstance(model, ImageModel) or not model.one_seed else 1)


def seeds_unused(model: AnyModel, cases: Sequence[AnyCase], seeds: int) -> str:
    """A sentence about outputs of further seeds than are asked for; "" where there are none."""
    if isinstance(model, ImageModel) or model.one_seed:
        return ""
    there = seeds
    while any(not isinstance(model.find(case, there), Failure) for case in cases):
        there += 1
    if there == seeds:
        return ""
    used = "only seed 0 is used" if seeds == 1 else f"only the seeds 0 to {seeds - 1} are used"
    return f"{model.name} has pictures of {there} seeds, and {used}: --seeds {there} takes them all"
