"""The 31 tasks of ICE-Bench: their names, what is measured for each, and the formula of each task's score.

A score is a weighted mean of dimensions, a dimension a weighted mean of terms, a term a metric's mean on the task,
scaled. Written as data, so that what is missing can be left out of a mean and be named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from refbench.record import Record

DIMENSIONS = (
    "aesthetic",
    "imaging",
    "prompt_following",
    "source_consistency",
    "reference_consistency",
    "controllability",
)

OFFICIAL = (
    "aes",
    "img",
    "clip_cap",
    "clip_src",
    "l1_raw",
    "clip_ref",
    "dino_ref",
    "style_ref",
    "face_ref",
    "l1_pose",
    "l1_canny",
    "l1_depth",
    "l1_colorize",
    "colorfulness",
    "ssim",
    "qa",
)
"""The parts that the released code computes; `clip_ref` enters no score, there or here."""

QA = "qa"
"""The one part that is judged, not measured."""

TEXT = "text@ppocr"
_LOCAL: Mapping[str, str] = {
    "clip_src": "clip_src@mobilenet_v2",
    "l1_raw": "lpips_src@lpips_alex",
    "clip_ref": "clip_ref@mobilenet_v2",
    "dino_ref": "dino_ref@mobilenet_v2",
    "face_ref": "face_ref@dlib_face",
    "l1_pose": "l1_pose@blazepose",
}
"""What a laptop measures beside an official part. Columns of their own: they enter no score."""

LOCAL = (*_LOCAL.values(), TEXT)
PARTS = (*OFFICIAL, *LOCAL)


Scope = Literal["Global", "Local", "Controllable", ""]


class Term(Record):
    """A metric's mean on a task as a share of a dimension: `offset + scale * mean`."""

    part: str
    weight: float = 1.0
    scale: float = 1.0
    offset: float = 0.0


class Dimension(Record):
    """One of the six dimensions as a task has it, with its weight in the task's score."""

    name: str
    weight: float
    terms: tuple[Term, ...]


class Task(Record):
    """One task. `number` and `name` are the paper's (Table 2), `code` is what data.jsonl says."""

    number: int
    name: str
    code: str
    kind: Literal["Creating", "Editing"]
    reference: bool
    scope: Scope
    """Empty where the paper has no such group: for creating, and for editing by a reference."""
    dimensions: tuple[Dimension, ...]
    unscored: tuple[str, ...] = ()
    """Parts that are computed and enter no score."""

    @property
    def scored(self) -> tuple[str, ...]:
        """The parts that the score is made of."""
        return tuple(dict.fromkeys(term.part for dimension in self.dimensions for term in dimension.terms))

    @property
    def parts(self) -> tuple[str, ...]:
        """Everything there is to measure or to ask, in the order of `PARTS`."""
        found = {*self.scored, *self.unscored}
        found |= {local for part, local in _LOCAL.items() if part in found}
        return tuple(part for part in PARTS if part in found)


_AES = (Term(part="aes", scale=0.1),)
_IMG = (Term(part="img", scale=0.01),)
_CAPTION = (Term(part="clip_cap", scale=2.0),)
_CAPTION_AND_QA = (Term(part="clip_cap", weight=0.5, scale=2.0), Term(part=QA, weight=0.5))
# The paper prints sums here and for the source; the released code takes these means, and the numbers follow from it.
_CAPTION_AND_COLOUR = (Term(part="clip_cap", weight=0.75, scale=2.0), Term(part="colorfulness", weight=0.25))
_SOURCE = (Term(part="clip_src", weight=0.5), Term(part="l1_raw", weight=0.5, scale=-1.0, offset=1.0))


def _task(
    number: int,
    name: str,
    code: str,
    quality: float,
    further: Mapping[str, tuple[float, tuple[Term, ...]]],
    *,
    scope: Scope = "",
    unscored: tuple[str, ...] = (),
) -> Task:
    """A task whose picture quality counts so much, once as aesthetics and once as imaging, and what else counts."""
    said = {"aesthetic": (quality, _AES), "imaging": (quality, _IMG), **further}
    return Task(
        number=number,
        name=name,
        code=code,
        kind="Creating" if number < _FIRST_EDIT else "Editing",
        reference="reference_consistency" in further,
        scope=scope,
        dimensions=tuple(Dimension(name=d, weight=said[d][0], terms=said[d][1]) for d in DIMENSIONS if d in said),
        unscored=unscored,
    )


def _creating(number: int, name: str, code: str, part: str = "") -> Task:
    share = 0.25 if part else 1 / 3
    said: dict[str, tuple[float, tuple[Term, ...]]] = {"prompt_following": (share, _CAPTION)}
    if part:
        said["reference_consistency"] = share, (Term(part=part),)
    return _task(number, name, code, share, said, unscored=("clip_ref",) if part else ())


def _editing(number: int, name: str, scope: Scope) -> Task:
    # How well wanted words can be read off the picture: no metric of the paper, and in no score.
    unscored = (TEXT,) if name.endswith("Text Render") else ()
    said = {"prompt_following": (0.3, _CAPTION_AND_QA), "source_consistency": (0.1, _SOURCE)}
    return _task(number, name, name, 0.3, said, scope=scope, unscored=unscored)


def _controlled(number: int, name: str, code: str, part: str, following: tuple[Term, ...] = _CAPTION) -> Task:
    said = {"prompt_following": (0.2, following), "controllability": (0.2, (Term(part=part),))}
    return _task(number, name, code, 0.3, said, scope="Controllable")


def _by_reference(number: int, name: str, code: str, part: str) -> Task:
    matched = 0.2, (Term(part=part),)
    following, source = (0.2, _CAPTION_AND_QA), (0.1, _SOURCE)
    said = {"prompt_following": following, "reference_consistency": matched, "source_consistency": source}
    return _task(number, name, code, 0.25, said)


_FIRST_EDIT = 5
_GLOBAL = (
    *("Color Editing", "Motion Editing", "Face Editing", "Texture Editing", "Style Editing", "Scene Editing"),
    *("Subject Addition", "Subject Removal", "Subject Change", "Text Render", "Text Removal", "Composite Editing"),
)
# Table 8 swaps the numbers of the last two; numbers here are Table 2's, and published values go by name.
_LOCAL_EDITS = (
    *("Inpainting", "Outpainting", "Local Subject Addition", "Local Subject Removal"),
    *("Local Text Removal", "Local Text Render"),
)

_ALL = (
    _creating(1, "Text-to-Image Creating", "Text2Image"),
    _creating(2, "Face Reference Creating", "Face Reference Generation", "face_ref"),
    _creating(3, "Style Reference Creating", "Style Reference Generation", "style_ref"),
    _creating(4, "Subject Reference Creating", "Subject Reference Generation", "dino_ref"),
    *(_editing(number, name, "Global") for number, name in enumerate(_GLOBAL, _FIRST_EDIT)),
    *(_editing(number, name, "Local") for number, name in enumerate(_LOCAL_EDITS, 17)),
    _controlled(23, "Pose-guided Generation", "Pose-guided Generation", "l1_pose"),
    _controlled(24, "Edge-guided Generation", "Edge-guided Generation", "l1_canny"),
    _controlled(25, "Depth-guided Generation", "Depth-guided Generation", "l1_depth"),
    _controlled(26, "Image Colorization", "Image Colorize", "l1_colorize", _CAPTION_AND_COLOUR),
    _controlled(27, "Image Deblurring", "Image Deblur", "ssim", _IMG),
    _by_reference(28, "Style Transfer", "Style Reference Editing", "style_ref"),
    _by_reference(29, "Subject-guided Inpainting", "Subject-guided Inpainting", "dino_ref"),
    _by_reference(30, "Virtual Try On", "Virtual Try On", "dino_ref"),
    _by_reference(31, "Face Swap", "Face Swap", "face_ref"),
)

TASKS: Mapping[str, Task] = {task.name: task for task in _ALL}
"""By the paper's name, in the order of the paper's numbers."""

BY_CODE: Mapping[str, Task] = {task.code: task for task in _ALL}
"""By the `Task` of data.jsonl."""

N_CASES = 6538
"""Cases of the whole release."""
