"""Samples: in words, finished for the writers of all formats, and in a file that is read one at a time.

The planner says which references (`plan.PlannedSample`), `instructions.compose` puts them into words.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import orjson

from refbench.builders.refblend.rules import Rules
from refbench.builders.refblend.split import Side
from refbench.builders.refblend.tables import Box
from refbench.builders.refblend.types import Type
from refbench.failure import Failure
from refbench.record import Record
from refbench.runs.disk import whole_file


class SampleReference(Record):
    """One reference of a sample."""

    type: Type
    instance: int = 0
    """Its place among the candidates that the picture offers of this type, from 0."""
    token: str = ""
    """What the instruction calls it, without the angle brackets: `subject_1`, `canny_image`; "" for a caption."""
    path: str = ""
    """Relative to the dataset, with forward slashes; "" for a caption."""


class Sample(Record):
    """A picture, the references to follow, and what is asked; the picture itself is the target."""

    id: str
    """Of picture, types and instances alone: the same whatever the seed, the order and the number of samples."""
    picture: str
    """The original: relative to the dataset, with forward slashes."""
    references: tuple[SampleReference, ...]
    """In the order in which the instruction names them; the caption, if there is one, is last."""
    caption: str | None = None
    instruction: str
    """From our templates: `original_prompts` of the official JSON."""
    enhanced: tuple[str, ...] = ()
    """Rewritten in the voice of the persona and found valid: `enhance_prompts`. Empty when the original was kept."""
    persona: str | None = None
    """Whose voice was asked for, also where the original was kept."""
    rewriting: Literal["not asked", "rewritten", "kept"] = "not asked"
    why_kept: Failure | None = None
    """What was wrong with the last rewriting; a transient kind may be asked for again."""

    @property
    def types(self) -> tuple[Type, ...]:
        """Every type once, in the order of the instruction."""
        return tuple(dict.fromkeys(given.type for given in self.references))

    @property
    def image_path_mapping(self) -> Mapping[str, str]:
        """Placeholder without brackets to path, as the official JSON has it."""
        return {given.token: given.path for given in self.references if given.token}

    def of_type(self, kind: Type) -> tuple[SampleReference, ...]:
        return tuple(given for given in self.references if given.type == kind)


class Finished(Record):
    """A sample that goes into the dataset, with all that files need of it."""

    sample: Sample
    split: Side
    source: str
    """What its source calls the picture."""
    licence: str = ""
    extractors: Mapping[str, str] = {}
    """What made each of its references: sketches come from `sketch` or `sketch_dodge`, which draw differently."""
    boxes: tuple[Box, ...] = ()
    marks: Mapping[str, int] = {}
    review: str = ""
    """accept or edit where somebody has decided; `needed` where nobody has and the types ask for it."""
    files: Mapping[str, str] = {}
    """Where each reference was made, below the folder of the build's work; other pictures are originals."""

    def entry(self, rules: Rules) -> dict[str, Any]:
        """The sample as MultiRef-Bench reads it: in the form of the released files (with `mask_path` and `pose_path` as
        texts), and with further keys of RefBlend."""
        sample = self.sample
        conditions: dict[str, Any] = {}
        for kind in sample.types:
            paths = [given.path for given in sample.of_type(kind)]
            conditions[rules.types[kind].path_key] = sample.caption if kind == "caption" else _as_released(kind, paths)
            if kind == "bbox":
                conditions["bbox_value"] = self.boxes
        return {
            "id": sample.id,
            "original_image_path": sample.picture,
            "conditions": conditions,
            "instructions": {
                "conditions": sample.types,
                "image_path_mapping": sample.image_path_mapping,
                "original_prompts": sample.instruction,
                "enhance_prompts": sample.enhanced,
            },
            "judge": self.marks,
            "split": self.split,
            "extractors": self.extractors,
            "source": self.source,
            "licence": self.licence,
            "persona": sample.persona,
            "review": self.review,
        }


def _as_released(kind: Type, paths: list[str]) -> str | list[str]:
    """Lists for what the release has lists of; the released evaluation stops at a list of masks or poses."""
    return paths if kind in ("subject", "style") or len(paths) > 1 else paths[0]


async def write_samples(path: Path, samples: AsyncIterable[Finished]) -> None:
    """A line for each sample, in order."""
    with whole_file(path) as file:
        async for sample in samples:
            file.write(orjson.dumps(sample.model_dump(mode="json"), option=orjson.OPT_APPEND_NEWLINE))


class SampleFile:
    """The samples of a build in a file, read one at a time: memory does not grow with the dataset."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._starts = array("Q")
        at = 0
        with path.open("rb") as file:
            for line in file:
                self._starts.append(at)
                at += len(line)

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, place: int) -> Finished:
        with self._path.open("rb") as file:
            file.seek(self._starts[place])
            return Finished.model_validate_json(file.readline())

    def __iter__(self) -> Iterator[Finished]:
        with self._path.open("rb") as file:
            for line in file:
                yield Finished.model_validate_json(line)
