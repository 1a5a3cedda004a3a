"""Filters: which pictures and sets are not used, as data, and what a picture's figures mean under them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError

from refbench.networks import networks
from refbench.record import Record, RefBenchError

OBJECT_FILTERS = ("object_box", "object_mask", "object_name")
"""In the order in which an object has to pass them."""


class Filter(Record):
    """The range of a figure, and who gives it."""

    use: bool = True
    predictor: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None

    def fault(self, name: str, value: float) -> str:
        """In which direction the value is outside, "" when it is not."""
        if self.least is not None and value < self.least:
            return f"{name} below {self.least:g}"
        if self.most is not None and value > self.most:
            return f"{name} above {self.most:g}"
        return ""

    def words(self) -> str:
        if not self.use:
            return "off"
        ends = [] if self.least is None else [f"at least {self.least:g}"]
        ends += [] if self.most is None else [f"at most {self.most:g}"]
        return ", ".join(ends) or "no limit"


Filters: TypeAlias = Mapping[str, Filter]


class SeenObject(Record):
    """An object that a detector found; a figure is None where it was not asked for or nobody could give it."""

    label: str
    sure: float
    box: float
    mask: float | None = None
    name: float | None = None

    def fault(self, filters: Filters) -> tuple[int, str, str]:
        """How many filters it passed, the one that stopped it, and the figure; ("", "") when none did."""
        for passed, filter_name in enumerate(OBJECT_FILTERS):
            value = getattr(self, filter_name.removeprefix("object_"))
            if value is None or not filters[filter_name].use:
                continue
            if fault := filters[filter_name].fault(filter_name.replace("_", " "), value):
                return passed, fault, f"{self.label}: {value:.3g}"
        return len(OBJECT_FILTERS), "", ""


class Seen(Record):
    """The figures of a picture. `objects` is None where no detector runs, empty where it finds none."""

    size: int
    aesthetic: float | None = None
    unsafe: float | None = None
    objects: tuple[SeenObject, ...] | None = None
    unmeasured: Mapping[str, str] = {}
    """Filters whose network gave no figure for this picture, and why."""

    @property
    def scenery_only(self) -> bool:
        """Without an object that could be taken out of it, a picture gives its surroundings and its looks."""
        return self.objects == ()


def load_filters(path: Path | None = None) -> Filters:
    """The shipped filters, with what a user's TOML file says of any of them in its place, field by field."""
    shipped = resources.files("refbench.builders.multibanana").joinpath("data/filters.toml").read_text("utf-8")
    found = {name: Filter.model_validate(said) for name, said in tomllib.loads(shipped).items()}
    if path is None:
        return found
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RefBenchError(f"--filters {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RefBenchError(f"--filters {path} is not valid TOML: {error}") from error
    for name, said in given.items():
        if name not in found or not isinstance(said, dict):
            raise RefBenchError(f"--filters {path}: {name} is no table of a filter: there are {', '.join(found)}")
        try:
            found[name] = Filter.model_validate({**found[name].model_dump(), **said})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, (name, *first["loc"])))
            raise RefBenchError(f"--filters {path}: {where}: {first['msg']}") from error
        for network in found[name].predictor:
            if network not in networks():
                raise RefBenchError(f"--filters {path}: {name}: no network is called {network}: refbench list networks")
    return found


def picture_fault(seen: Seen, filters: Filters) -> tuple[str, str] | None:
    """Why a picture is not used, and the figure; None where it passes all filters that could be measured."""
    if seen.unmeasured:
        name, detail = min(seen.unmeasured.items())
        return f"{name} could not be measured", detail
    figures = {"size": float(seen.size), "aesthetic": seen.aesthetic, "unsafe": seen.unsafe}
    for name, value in figures.items():
        if filters[name].use and value is not None and (fault := filters[name].fault(name, value)):
            return fault, f"{name} {value:.4g}"
    if not seen.objects:
        return None
    _, fault, detail = max((one.fault(filters) for one in seen.objects), key=lambda told: told[0])
    return (fault, detail) if fault else None
