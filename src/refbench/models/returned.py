"""What came back from a model, made into encoded pictures: what is unambiguous is taken, what is not is named."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from refbench.failure import Failure, FailureKind
from refbench.machine import MACHINE_ERRORS
from refbench.models.model import Painted
from refbench.pictures import facts_of, regular_bytes

Array: TypeAlias = NDArray[Any]

_CHANNELS = (1, 3, 4)
_SLACK = 1e-3  # of a float picture clipped at 0 and 1 in half precision
_ORIENTATION = 0x0112
# Modes whose pixels have one meaning, and what PNG can hold of them.
_MODES = {"1": "L", "L": "L", "LA": "RGBA", "P": "RGBA", "RGB": "RGB", "RGBA": "RGBA", "YCbCr": "RGB", "CMYK": "RGB"}


def painted(value: Any, n_pictures: int = 1, *, who: str = "the function", seconds: float | None = None) -> Painted:
    """The pictures in order. Those before the first that is none are kept, and so is a set of the wrong size."""
    if isinstance(value, Painted):
        checked = painted(list(value.pictures), n_pictures, who=who) if value.pictures else Painted()
        failure = value.failure or checked.failure
        if failure is None and not value.pictures:
            failure = Failure(kind="missing_output", detail=f"{who} gave back no picture")
        return replace(value, pictures=checked.pictures, failure=failure, seconds=value.seconds or seconds)
    values = _several(value, who)
    if isinstance(values, Failure):
        return Painted(failure=values, seconds=seconds)
    pictures: list[bytes] = []
    for number, one in enumerate(values, 1):
        data = encoded(one, who)
        if isinstance(data, Failure):
            place = f"picture {number} of {len(values)}: " if len(values) > 1 else ""
            return Painted(tuple(pictures), Failure(kind=data.kind, detail=place + data.detail), seconds=seconds)
        pictures.append(data)
    return Painted(tuple(pictures), miscounted(len(pictures), n_pictures), seconds=seconds)


def miscounted(came: int, n_pictures: int) -> Failure | None:
    """A set of the wrong size cannot be judged as if it were the one that was asked for."""
    if came == n_pictures:
        return None
    plural = "picture" if came == 1 else "pictures"
    return Failure(kind="missing_output", detail=f"{came} {plural} came, {n_pictures} were asked for")


def encoded(value: Any, who: str = "the function") -> bytes | Failure:
    """One picture as bytes of a file: a file's own bytes as they are, pixels as PNG."""
    if value is None:
        return Failure(kind="missing_output", detail=f"{who} gave back None")
    if isinstance(value, Failure):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return _file(bytes(value), "")
    if isinstance(value, io.BytesIO):
        return _file(value.getvalue(), "")
    if isinstance(value, str | os.PathLike):
        return _read(value, who)
    if isinstance(value, Image.Image):
        return _pillow(value)
    if type(value).__module__.split(".")[0] == "torch" and hasattr(value, "detach"):
        return _pixels(_numbers(value), f"a tensor of shape {_shape(value)} and {value.dtype}", channels_first=True)
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return _pixels(array, f"an array of shape {_shape(array)} and {array.dtype}", channels_first=False)
    return _no_picture(f"{who} gave back {_what(value)}")


def _several(value: Any, who: str) -> list[Any] | Failure:
    """The pictures that came, one by one."""
    if isinstance(value, Failure):
        return value
    images = value.get("images") if isinstance(value, Mapping) else getattr(value, "images", None)
    if isinstance(images, list | tuple) or hasattr(images, "__array__"):
        # The safety checkers of diffusers paint what they object to black and say so here.
        flagged = getattr(value, "nsfw_content_detected", None)
        if isinstance(flagged, list | tuple) and any(flagged):
            return Failure(kind="refused", detail="the pipeline's safety checker has blanked the picture")
        return _several(images, who)
    if isinstance(value, list | tuple):
        return list(value) if value else Failure(kind="missing_output", detail=f"{who} gave back an empty list")
    if not isinstance(value, Image.Image) and getattr(value, "ndim", 0) == 4:
        return list(value)  # a batch, as pipelines give it
    return [value]


def _read(value: str | os.PathLike[str], who: str) -> bytes | Failure:
    try:
        path = Path(value)
        data = regular_bytes(path)
    except (OSError, ValueError) as error:  # ValueError: a text with a zero byte
        shown = str(value) if len(str(value)) <= 200 else f"{str(value)[:200]}..."
        why = getattr(error, "strerror", None) or str(error)
        kind: FailureKind = "machine_error" if getattr(error, "errno", None) in MACHINE_ERRORS else "missing_output"
        return Failure(kind=kind, detail=f"{who} gave back {shown!r}, which cannot be read: {why}")
    return _file(data, f"{path.name}: ")


def _file(data: bytes, place: str) -> bytes | Failure:
    facts = facts_of(data)
    return Failure(kind=facts.kind, detail=place + facts.detail) if isinstance(facts, Failure) else data


def _pillow(image: Image.Image) -> bytes | Failure:
    try:
        image.load()
        turned = image.getexif().get(_ORIENTATION, 1) != 1
        mode = _MODES.get(image.mode)
        if mode is None:
            return _no_picture(f"a Pillow image of mode {image.mode} has no agreed display range: convert it to RGB")
        if image.mode == "P" and "transparency" not in image.info:
            mode = "RGB"
        plain = image if image.mode == mode else image.convert(mode)
        if not turned:
            return _png(np.asarray(plain))
        file = io.BytesIO()  # the pixels lie on their side: so does the file, and it says so
        plain.save(file, "PNG", exif=image.getexif())
        return file.getvalue()
    except (OSError, SyntaxError, ValueError) as error:  # opened lazily, and the file is cut off
        return _no_picture(f"the Pillow image cannot be loaded: {error}")


def _pixels(array: Array, what: str, *, channels_first: bool) -> bytes | Failure:
    shaped = _height_width_channels(array, what, channels_first=channels_first)
    if isinstance(shaped, Failure):
        return shaped
    if shaped.dtype == np.bool_:
        return _png(shaped.astype(np.uint8) * 255)
    if shaped.dtype == np.uint8:
        if shaped.max() == 1:  # a float picture that was cast before it was scaled looks like this
            return _no_picture(f"{what} has only the values 0 and 1: scale it to 0..255")
        return _png(shaped)
    if not np.issubdtype(shaped.dtype, np.floating):
        return _no_picture(f"{what}: give uint8, or floats from 0 to 1")
    if not np.isfinite(shaped).all():
        return _no_picture(f"{what} has {int((~np.isfinite(shaped)).sum())} values that are no numbers")
    low, high = float(shaped.min()), float(shaped.max())
    if low < -_SLACK or high > 1 + _SLACK:
        return _no_picture(f"{what} has values from {low:g} to {high:g}: give uint8, or floats from 0 to 1")
    if high == 1 and np.isin(shaped, (0, 1)).all():
        return _no_picture(f"{what} has only the values 0 and 1, which may be of 0..1 or of 0..255: give uint8")
    return _png(np.rint(np.clip(shaped.astype(np.float64), 0, 1) * 255).astype(np.uint8))


def _height_width_channels(array: Array, what: str, *, channels_first: bool) -> Array | Failure:
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.size == 0 or array.ndim not in (2, 3):
        return _no_picture(f"{what} is no picture: give height x width x 3")
    if array.ndim == 2:
        return array
    first, last = array.shape[0] in _CHANNELS, array.shape[2] in _CHANNELS
    if first and last and channels_first:
        return _no_picture(f"{what} may be channels first or last")
    if last:
        return array
    if first:
        return array.transpose(1, 2, 0)
    return _no_picture(f"{what} has no axis of 1, 3 or 4 channels: give height x width x 3")


def _png(array: Array) -> bytes | Failure:
    """PNG of 1, 3 or 4 channels of uint8, red first, as OpenCV writes it: eight times as fast as Pillow."""
    if array.ndim == 3 and array.shape[2] >= 3:
        array = array[:, :, [2, 1, 0, 3][: array.shape[2]]]
    try:
        done, data = cv2.imencode(".png", np.ascontiguousarray(array))
    except cv2.error as error:
        return _no_picture(f"{_shape(array)} cannot be written as PNG: {error.err}")
    return _file(data.tobytes(), "") if done else _no_picture(f"{_shape(array)} cannot be written as PNG")


def _numbers(tensor: Any) -> Array:
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        tensor = tensor.float()  # numpy knows no bfloat16
    array: Array = tensor.numpy()
    return array


def _shape(array: Any) -> str:
    return "x".join(str(n) for n in array.shape) or "()"


def _what(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a {type(value).__name__} with the keys {', '.join(map(str, list(value)[:8])) or '(none)'}"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if hasattr(value, "__len__") else "")


def _no_picture(detail: str) -> Failure:
    return Failure(kind="unreadable_picture", detail=detail)
