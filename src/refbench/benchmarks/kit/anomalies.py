"""What can be odd in any benchmark's pictures, and the list of anomalies made of it.

A benchmark declares the kinds it tells of and adds its own checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from refbench.benchmarks.kit.definition import Anomaly, Dataset
from refbench.benchmarks.kit.rows import toml_data
from refbench.case import AnyCase, Picture
from refbench.failure import Failure
from refbench.pictures import PictureFacts, read_facts
from refbench.text.files import is_file

Oddity: TypeAlias = tuple[str, str, str]
"""The kind of an anomaly, where it is, and what it is: the place is a case or file, or a part of a case."""


@dataclass(frozen=True)
class Release:
    """What was read of a checkout: where its pictures lie, its cases, and what is odd about its files and entries."""

    place: Path
    cases: tuple[AnyCase, ...]
    oddities: tuple[Oddity, ...]


_FORMATS = {"jpg": "jpeg", "tif": "tiff"}


def anomaly_kinds(package: str) -> dict[str, str]:
    """The kinds that a benchmark tells of, each with what it does to cases and scores: its anomalies.toml."""
    return toml_data(package, "anomalies.toml")


def list_anomalies(
    dataset: Dataset, release: Iterable[Oddity], of_case: Callable[[Any], Iterable[Oddity]]
) -> list[Anomaly]:
    """Those of the release as a whole, by their places, then those of each case, by its parts."""
    anomalies = [Anomaly(kind=kind, case=place, detail=detail) for kind, place, detail in release]
    for case in dataset.cases:
        anomalies += [
            Anomaly(kind=kind, case=case.id, part=part, detail=detail) for kind, part, detail in of_case(case)
        ]
    return anomalies


def picture_facts(dataset: Dataset, picture: Picture) -> PictureFacts | Failure:
    """What the picture's header says; a Failure `missing_output` where there is no such file."""
    path = dataset.path(picture)
    return read_facts(path) if is_file(path) else Failure(kind="missing_output", detail="not there")


def picture_oddities(
    name: str,
    facts: PictureFacts | Failure,
    kinds: Collection[str],
    *,
    part: str = "",
    modes: Collection[str] = ("RGB",),
) -> Iterator[Oddity]:
    """What is odd about one picture, of the kinds that the benchmark tells of."""
    if isinstance(facts, Failure):
        kind = "missing_picture" if facts.kind == "missing_output" else "unreadable_picture"
        yield kind, part, f"{name}: {facts.detail}"
        return
    extension = PurePosixPath(name).suffix.lower().lstrip(".")
    checks = {
        "wrong_extension": (_FORMATS.get(extension, extension) != facts.format, f"{name} is {facts.format}"),
        "unusual_pixels": (facts.mode not in modes, f"{name}: {facts.mode}"),
        "rotated_picture": (facts.orientation != 1, f"{name}: orientation {facts.orientation}"),
        "animated_picture": (facts.animated, name),
        "colour_profile": (facts.icc, name),
    }
    yield from ((kind, part, detail) for kind, (odd, detail) in checks.items() if odd and kind in kinds)


def request_oddities(
    dataset: Dataset, case: AnyCase, kinds: Collection[str], *, instruction: str = "instruction", first: int = 1
) -> Iterator[Oddity]:
    """What is odd about a case's instruction, under the name that the benchmark has for it, and about its pictures by
    their numbers."""
    if not case.request.instruction:
        yield f"empty_{instruction}", "", ""
    if "\ufffd" in case.request.instruction:
        yield f"undecodable_{instruction}", "", ""
    for number, picture in enumerate(case.request.pictures, first):
        yield from picture_oddities(picture.name, picture_facts(dataset, picture), kinds, part=str(number))
