"""What a pipeline of diffusers takes: found in its call signature, and in a table where that does not tell."""

from __future__ import annotations

import inspect
import tomllib
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from refbench.failure import Failure
from refbench.models.model import Shown
from refbench.record import Record, RefBenchError

Plain = str | int | float | bool

_TABLE = Path(__file__).with_name("pipelines.toml")
_PICTURES = ("image", "images", "input_images", "control_image")
_MASKS = ("mask_image", "mask")
_IMAGE_GUIDANCE = ("image_guidance_scale", "img_guidance_scale")
_NOT_PICTURES = ("num_frames", "video", "audio_duration_s", "audio_length_in_s", "frame_size", "gen_length")
_OURS = {"prompt", "generator", "output_type", "return_dict", "num_images_per_prompt", "height", "width", "kwargs"}
EDITED = ("previous", "source")
_TRUTH = {"true": True, "false": False}


class Entry(Record):
    """One class of the table; its columns are explained there."""

    tested: bool = False
    pictures: str | None = None
    several: bool = False
    needed: bool | None = None
    mask: str | None = None
    reference: str | None = None
    guidance: str | None = None
    also: Mapping[str, Plain] = {}
    tag: str | None = None
    follows: bool = False
    source_side: int | None = None
    area: str | None = None
    together: bool = False
    needs: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Shape:
    """What a pipeline takes, and under which names."""

    name: str
    entry: Entry
    parameters: Mapping[str, inspect.Parameter]
    pictures: str | None
    """The argument for pictures, None where it paints from text alone."""
    needed: bool
    mask: str | None
    guidance: str | None
    image_guidance: str | None

    @property
    def sized(self) -> bool:
        return "width" in self.parameters and "height" in self.parameters

    @property
    def mask_needed(self) -> bool:
        return self.mask == "mask_image"

    @property
    def most(self) -> int | None:
        """How many pictures it can be shown beside a mask; None for any number."""
        if self.pictures is None:
            return 0
        if self.entry.several:
            return None
        return 1 + (self.entry.reference is not None)

    def argument(self, option: str) -> str | None:
        """The argument of the call that an option of the spec sets."""
        ours = {"steps": "num_inference_steps", "guidance": self.guidance, "image_guidance": self.image_guidance}
        name = ours.get(option, option)
        return name if name in self.parameters else None


@dataclass(frozen=True)
class Arranged:
    """The pictures of a request by what they are for the pipeline."""

    pictures: tuple[Path, ...] = ()
    mask: Path | None = None
    references: tuple[Path, ...] = ()


@lru_cache(maxsize=1)
def pipelines() -> Mapping[str, Entry]:
    """The table of classes that need a word, or that are tested."""
    return {name: Entry.model_validate(types) for name, types in tomllib.loads(_TABLE.read_text("utf-8")).items()}


def shape_of(pipeline: type[Any], where: str) -> Shape:
    """What that class takes. `where` is the spec, for the sentence that says that it paints no pictures at all."""
    name = pipeline.__name__
    parameters = dict(inspect.signature(pipeline.__call__).parameters)
    entry = pipelines().get(name, Entry())
    if "prompt" not in parameters or any(other in parameters for other in _NOT_PICTURES):
        raise RefBenchError(f"{where} is a {name}, which does not paint pictures after an instruction")
    pictures = entry.pictures or _first(_PICTURES, parameters)
    needed = pictures is not None and _seems_needed(parameters, pictures)
    return Shape(
        name=name,
        # Of a list that a class wants and the table does not know: `images` is only ever a list for one request.
        entry=entry if name in pipelines() else entry.model_copy(update={"several": pictures in _PICTURES[1:3]}),
        parameters=parameters,
        pictures=pictures,
        needed=needed if entry.needed is None else entry.needed,
        mask=entry.mask or _first(_MASKS, parameters),
        guidance=entry.guidance or _first(("guidance_scale",), parameters),
        image_guidance=_first(_IMAGE_GUIDANCE, parameters),
    )


def settings(shape: Shape, options: Mapping[str, str], where: str) -> dict[str, Plain]:
    """Arguments of every call, from options of the spec that are not about loading."""
    arguments: dict[str, Plain] = {key: value for key, value in shape.entry.also.items() if key in shape.parameters}
    asked: dict[str, str] = {}
    for option, text in options.items():
        name = shape.argument(option)
        kind = None if name is None or _is_ours(name, shape) else _plain_type(shape.parameters[name])
        if name is None or kind is None:
            raise RefBenchError(
                f"{where}: {shape.name} has no setting {option!r}: there are {', '.join(_known(shape))}"
            )
        if name in asked:
            raise RefBenchError(f"{where}: {option} and {asked[name]} both set {name}: write one of them")
        asked[name] = option
        arguments[name] = _read(text, kind, f"{where}: {option}={text}")
    return arguments


def arranged(shape: Shape, shown: Sequence[Shown]) -> Arranged | Failure:
    """Which picture is what, or why the pipeline cannot be shown these."""
    masks = [picture.path for picture in shown if picture.role == "mask"] if shape.mask else []
    others = [picture for picture in shown if not (shape.mask and picture.role == "mask")]
    if shape.pictures is None and others:
        return _cannot(f"{shape.name} paints from text alone, the request shows {_count(len(others))}: use rephrase")
    if len(masks) > 1 or (shape.most is not None and len(others) > shape.most):
        takes = f"{shape.name} takes {_count(shape.most or 0)}{' and a mask' if shape.mask else ''}"
        hint = "drop the mask with ablate" if any(one.role == "mask" for one in others) else "choose an overflow policy"
        return _cannot(f"{takes}, the request shows {len(shown)}: {hint}")
    if shape.needed and not others:
        return _cannot(f"{shape.name} edits a picture, the request shows none")
    if shape.mask_needed and not masks:
        return _cannot(f"{shape.name} paints what a mask marks, the request has no picture of the role mask")
    mask = masks[0] if masks else None
    if shape.entry.reference is None:
        return Arranged(tuple(picture.path for picture in others), mask)
    # What is edited is the source, wherever it stands; the other is a reference to it.
    source = next((picture for role in EDITED for picture in others if picture.role == role), others[0])
    return Arranged((source.path,), mask, tuple(picture.path for picture in others if picture is not source))


def _cannot(detail: str) -> Failure:
    return Failure(kind="undefined", detail=detail)


def _count(number: int) -> str:
    return f"{number} picture{'' if number == 1 else 's'}"


def _first(names: Sequence[str], parameters: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name in parameters), None)


def _seems_needed(parameters: Mapping[str, inspect.Parameter], name: str) -> bool:
    """Pipelines that start from a picture have a strength or a mask; else the annotation says whether None is one."""
    if any(other in parameters for other in ("strength", "mask_image", "image_guidance_scale")):
        return True
    parameter = parameters[name]
    return "None" not in str(parameter.annotation) and "Optional" not in str(parameter.annotation)


def _is_ours(name: str, shape: Shape) -> bool:
    return name in _OURS or name in (shape.pictures, shape.mask) or name.startswith("callback")


def _plain_type(parameter: inspect.Parameter) -> type | None:
    """What a setting is, where it can be written in a spec; numbers come before text, as `4` is one."""
    types = typing.get_args(parameter.annotation) or (parameter.annotation, type(parameter.default))
    return next((kind for kind in (bool, float, int, str) if kind in types), None)


def _known(shape: Shape) -> list[str]:
    ours = [option for option in ("steps", "guidance", "image_guidance") if shape.argument(option)]
    named = {shape.argument(option) for option in ours}
    return ours + [
        name
        for name, parameter in shape.parameters.items()
        if name not in named and name != "self" and not _is_ours(name, shape) and _plain_type(parameter)
    ]


def _read(text: str, kind: type, where: str) -> Plain:
    if kind is bool:
        if text.casefold() not in _TRUTH:
            raise RefBenchError(f"{where}: write true or false")
        return _TRUTH[text.casefold()]
    try:
        value: Plain = kind(text)
    except ValueError:
        raise RefBenchError(f"{where}: write a {'whole ' if kind is int else ''}number") from None
    if isinstance(value, float) and not -1e9 < value < 1e9:
        raise RefBenchError(f"{where}: write a number")
    return value
