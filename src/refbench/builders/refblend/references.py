"""References: what can be extracted here, what is extracted on an executor, and which candidates each picture has.

Thresholds say, as data, which references are too poor to give: no edges, a mask of everything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from refbench.builders.kit.draws import draw
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.store import Store
from refbench.builders.refblend.extraction import VERSION, Drawn, Made, PictureRow, Wanted, reference_file
from refbench.builders.refblend.screening import LOWEST, marks_about, too_low
from refbench.builders.refblend.sources import LabelledPicture
from refbench.builders.refblend.types import Type, read_type
from refbench.engine.workers.task import Executor, Resources, Task
from refbench.extractors import EXTRACTORS
from refbench.extractors.bbox import NETWORK as OBJECTS_NETWORK
from refbench.failure import Failure
from refbench.networks import network_info, why_not
from refbench.pictures import picture_bytes
from refbench.record import Record, RefBenchError, content_key
from refbench.text.files import toml_file

EXTRACTED: tuple[Type, ...] = ("bbox", "semantic_map", "mask", "depth", "canny", "sketch", "pose")
"""Types that are taken out of a picture; the others are words and other pictures."""
_SEEDED = ("pose", "each_pose", "people", "semantic_map", "semantic_map_low_iou")
_GIVEN = ("people", "boxes", "given")
"""Drawn from annotations of the source, or taken from it, without a network."""
_CHUNK = 4
_SHIPPED = Path(__file__).with_name("data") / "thresholds.toml"


class Limits(Record):
    """A fact's range; None where it has no end."""

    least: float | None = None
    most: float | None = None


Thresholds: TypeAlias = Mapping[Type, Mapping[str, Limits]]


def load_thresholds(path: Path | None = None) -> Thresholds:
    """The shipped thresholds, with those of a user's TOML file in their place, fact by fact; `{}` takes one away."""
    limits = _read(_SHIPPED)
    if path is not None:
        for kind, facts in _read(path).items():
            for fact in facts:
                if fact not in limits.get(kind, {}):
                    known = ", ".join(limits.get(kind, {})) or "nothing"
                    raise RefBenchError(f"{path}: {kind}.{fact} is not measured: of {kind} there is {known}")
            limits[kind] = {**limits.get(kind, {}), **facts}
    return limits


def too_poor(kind: Type, facts: Mapping[str, float], thresholds: Thresholds) -> tuple[str, str] | None:
    """The reason and its figures where a reference is outside a threshold; None where it may be given."""
    for fact, limits in thresholds.get(kind, {}).items():
        value = facts.get(fact)
        if value is None:
            continue
        if limits.least is not None and value < limits.least:
            return f"{kind}: {fact} below {limits.least:g}", f"{fact} {value:g}"
        if limits.most is not None and value > limits.most:
            return f"{kind}: {fact} above {limits.most:g}", f"{fact} {value:g}"
    return None


def _read(path: Path) -> dict[Type, Mapping[str, Limits]]:
    return {
        read_type(word, str(path)): _limits(path, word, facts)
        for word, facts in toml_file(path, "--thresholds").items()
    }


def _limits(path: Path, word: str, facts: Any) -> dict[str, Limits]:
    if not isinstance(facts, dict):
        raise RefBenchError(f"{path}: {word}: give a table of facts")
    limits = {}
    for fact, ends in facts.items():
        right = isinstance(ends, dict) and set(ends) <= {"least", "most"}
        if not right or not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends.values()):
            raise RefBenchError(f"{path}: {word}.{fact}: give least, most or both, as numbers")
        limits[fact] = Limits(**ends)
    return limits


@dataclass(frozen=True)
class Extractors:
    """What makes each type in this build, and why others are not offered."""

    by_type: Mapping[Type, str]
    missing: Mapping[Type, str]
    each_pose: bool = False
    """A drawing for each person, also where the source says where people are and no network is asked."""

    def networks(self, *more: str) -> dict[str, int]:
        """The networks that are asked, also by `more` extractors, with their versions."""
        names = {name for extractor in (*self.by_type.values(), *more) for name in _networks(extractor)}
        return {name: network_info(name).version for name in sorted(names)}

    @property
    def absent(self) -> dict[str, str]:
        """The types that are not offered, in words that do not depend on what a machine lacks."""
        return {kind: f"{' and '.join(_networks(kind))} was not at hand" for kind in EXTRACTED if kind in self.missing}


def extractors_here(
    types: Sequence[Type], variants: Mapping[Type, str] | None = None, *, each_pose: bool = False
) -> Extractors:
    """The extractors that can run for these types; a network that is not here leaves its type out, with the reason."""
    wanted: dict[Type, str] = {kind: (variants or {}).get(kind, kind) for kind in types if kind in EXTRACTED}
    if each_pose and "pose" in wanted:
        wanted["pose"] = "each_pose"
    by_type: dict[Type, str] = {}
    missing: dict[Type, str] = {}
    for kind, extractor in wanted.items():
        reason = next((why for name in _networks(extractor) if (why := why_not(name)) is not None), None)
        if reason is None:
            by_type[kind] = extractor
        elif kind == "sketch":
            missing[kind] = f"{reason}; --types with sketch_dodge draws by arithmetic instead"
        else:
            missing[kind] = reason
    return Extractors(by_type, missing, each_pose)


def _networks(extractor: str) -> tuple[str, ...]:
    """The networks that an extractor asks; none where annotations of the source are drawn."""
    if extractor in _GIVEN:
        return ()
    if extractor == "objects":
        return (OBJECTS_NETWORK,)
    return EXTRACTORS["pose" if extractor == "each_pose" else extractor].networks


@dataclass(frozen=True, slots=True)
class Candidate:
    """A reference that a picture offers."""

    extractor: str
    path: Path
    drawn: Drawn


class References:
    """The references of a build: made once each, by content and parameters, whatever was killed on the way."""

    def __init__(
        self,
        work: Path,
        extractors: Extractors,
        types: Sequence[Type],
        *,
        seed: int = 0,
        objects: bool = False,
        device: str = "cpu",
    ) -> None:
        self.folder = work / "references"
        self._store = Store(work / "references.jsonl")
        self._extractors = extractors
        self._types = tuple(types)
        self._seed = seed
        self._objects = objects
        self._device = device
        self._hashes: dict[str, str] = {}

    def wanted(self, picture: LabelledPicture) -> dict[Type, Wanted]:
        """What is to be made of a picture, by type."""
        chosen = {**self._extractors.by_type, **{kind: "given" for kind, _ in picture.given if kind in self._types}}
        if picture.people and "pose" in self._types:
            chosen["pose"] = "each_pose" if self._extractors.each_pose else "people"
        if picture.boxes and "bbox" in self._types:
            chosen["bbox"] = "boxes"
        return {kind: self._wanted(picture, kind, extractor) for kind, extractor in chosen.items()}

    def _names(self, picture: LabelledPicture) -> Wanted:
        """The names of what is in the picture, for captions."""
        return self._wanted(picture, "objects", "objects")

    def _wanted(self, picture: LabelledPicture, kind: str, extractor: str) -> Wanted:
        seed = draw(self._seed, picture.sha256, kind) if extractor in _SEEDED else 0
        files = dict(picture.given).get(kind, ()) if extractor == "given" else ()  # type: ignore[call-overload]
        given: Any = [self._hash(file) for file in files] or {"pose": picture.people, "bbox": picture.boxes}.get(
            kind, ()
        )
        networks = {} if given else {name: network_info(name).version for name in _networks(extractor)}
        parts = [picture.sha256, extractor, VERSION, networks, seed, given if extractor != "bbox" else ()]
        return Wanted(content_key(parts)[:32], extractor, seed, files)

    def _hash(self, file: str) -> str:
        """What names a file's content in this build; empty for one that cannot be read, which fails when it is."""
        if file not in self._hashes:
            data = picture_bytes(Path(file))
            self._hashes[file] = "" if isinstance(data, Failure) else hashlib.sha256(data).hexdigest()
        return self._hashes[file]

    async def make(
        self,
        pictures: Sequence[LabelledPicture],
        executor: Executor,
        progress: Callable[[int], None] = lambda done: None,
    ) -> dict[str, Failure]:
        """Make what is missing. Returns the pictures that failed as a whole, by hash, with the reason."""
        failed: dict[str, Failure] = {}
        task = Task(
            name="references",
            factory="refbench.builders.refblend.extraction:Extraction",
            args={"folder": str(self.folder.resolve()), "device": self._device},
            chunk=_CHUNK,
            resources=Resources(gpus=0.0 if self._device == "cpu" else 1.0),
        )
        done = 0
        async with aclosing(executor.run(task, self._rows(pictures))) as outcomes:
            async for outcome in outcomes:
                if outcome.failure is not None:
                    failed[outcome.key] = outcome.failure
                for key, made in outcome.value or ():
                    self._keep(key, made)
                done += 1
                progress(done)
        self._store.settle()
        return failed

    def missing(self, pictures: Sequence[LabelledPicture]) -> int:
        """How many pictures have something to be made."""
        return sum(1 for _ in self._rows(pictures))

    def _rows(self, pictures: Sequence[LabelledPicture]) -> Iterator[PictureRow]:
        for picture in pictures:
            all_of_it = [*self.wanted(picture).values(), *([self._names(picture)] if self._objects else [])]
            wanted = tuple(one for one in all_of_it if not self._is_here(one))
            if wanted:
                yield PictureRow(picture.sha256, picture.path, wanted, picture.people, picture.boxes)

    def _keep(self, key: str, made: Made | Failure) -> None:
        if isinstance(made, Failure):
            if not made.transient:
                self._store.put(key, {"failure": made.model_dump()})
        else:
            self._store.put(key, {"made": made.model_dump(exclude_defaults=True)})

    def _is_here(self, wanted: Wanted) -> bool:
        """On record, and its files as large as they were: one that a power cut has emptied is made again."""
        record = self._store.get(wanted.key)
        if record is None:
            return False
        for number, drawn in enumerate(record.get("made", {}).get("drawn", ())):
            try:
                if reference_file(self.folder, wanted.key, number).stat().st_size != drawn["bytes"]:
                    return False
            except OSError:
                return False
        return True

    def _of(self, wanted: Wanted) -> Made | Failure:
        record = self._store.get(wanted.key)
        if record is None:
            return Failure(kind="not_measured", detail="it has not been made")
        return Failure(**record["failure"]) if "failure" in record else Made(**record["made"])

    def candidates(
        self, picture: LabelledPicture, thresholds: Thresholds, dropped: DroppedItems | None = None
    ) -> dict[Type, tuple[Candidate, ...]]:
        """The references that a picture offers, by type; those that failed or are too poor go on record."""
        offered: dict[Type, tuple[Candidate, ...]] = {}
        for kind, wanted in self.wanted(picture).items():
            made = self._of(wanted)
            if isinstance(made, Failure):
                if dropped is not None:
                    dropped.add("references", kind, picture.name, f"{kind}: {made.kind}", made.detail, picture.name)
                continue
            low = too_low(marks_about(kind, picture.marks)) if wanted.extractor in _GIVEN else ""
            if low:
                if dropped is not None:
                    dropped.add(
                        "judge", kind, picture.name, f"{low.rpartition(' ')[0]} below {LOWEST}", low, picture.name
                    )
                continue
            good = []
            for number, drawn in enumerate(made.drawn):
                poor = too_poor(kind, drawn.facts, thresholds)
                if poor is None:
                    good.append(Candidate(wanted.extractor, reference_file(self.folder, wanted.key, number), drawn))
                elif dropped is not None:
                    name = f"{picture.name}{f' ({number + 1})' if len(made.drawn) > 1 else ''}"
                    dropped.add("thresholds", kind, name, *poor, picture.name)
            if good:
                offered[kind] = tuple(good)
        return offered

    def objects(self, picture: LabelledPicture) -> tuple[str, ...] | Failure:
        """Names of what is seen in the picture."""
        made = self._of(self._names(picture))
        return made if isinstance(made, Failure) else made.labels

    def close(self) -> None:
        self._store.close()
