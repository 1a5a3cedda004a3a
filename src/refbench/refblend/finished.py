"""A finished sample with all that files need of it, and its entry in the official JSON, which MultiRef-Bench reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refbench.record import Record
from refbench.refblend.rules import Rules
from refbench.refblend.sample import Sample
from refbench.refblend.split import Side
from refbench.refblend.tables import Box
from refbench.refblend.types import Type


class Finished(Record):
    """A sample that goes into the dataset."""

    sample: Sample
    split: Side
    source: str
    """What its source calls the picture."""
    licence: str = ""
    extractors: Mapping[str, str] = {}
    """What made each of its references: `sketch_dodge` is no `sketch`, although both are sketches to a reader."""
    boxes: tuple[Box, ...] = ()
    marks: Mapping[str, int] = {}
    review: str = ""
    """accept or edit where somebody has decided; `needed` where nobody has and the types ask for it."""
    files: Mapping[str, str] = {}
    """Where each reference was made, below the folder of the build's work; other pictures are originals."""


def entry(finished: Finished, rules: Rules) -> dict[str, Any]:
    """The sample as the released files have it (with `mask_path` and `pose_path` as texts), and what is ours beside."""
    sample = finished.sample
    conditions: dict[str, Any] = {}
    for kind in sample.types:
        key = rules.types[kind].path_key
        paths = [given.path for given in sample.of_type(kind)]
        conditions[key] = sample.caption if kind == "caption" else _as_released(kind, paths)
        if kind == "bbox":
            conditions["bbox_value"] = finished.boxes
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
        "judge": finished.marks,
        "split": finished.split,
        "extractors": finished.extractors,
        "source": finished.source,
        "licence": finished.licence,
        "persona": sample.persona,
        "review": finished.review,
    }


def _as_released(kind: Type, paths: list[str]) -> str | list[str]:
    """Lists for what the release has lists of; the released evaluation stops at a list of masks or poses."""
    return paths if kind in ("subject", "style") or len(paths) > 1 else paths[0]
