"""Bytes to RGB pixels and back, and resizing. The meaning of every odd file is tabled in the package docstring."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from refbench.failure import Failure
from refbench.pictures.facts import PictureFacts, facts_of, load_by_pillow, no_memory, picture_bytes

Pixels: TypeAlias = NDArray[np.uint8]
"""Height x width x 3, RGB, 8 bit."""


_LARGE = 1 << 24
"""Pixels above which pictures are decoded one at a time, whatever number of threads would like to: 64 threads that
each decode one at the limit would take 64 GB."""
_LARGE_TURN = threading.Lock()
_BAND = 1 << 18
"""Pixels converted at a time, in bands of rows: the wide integers in between are never of the whole picture."""


_FORGIVEN = frozenset({"tiff", "webp"})
"""Formats whose damage OpenCV does not tell of: it fills the rest and says nothing, as with the frames of a PNG. Pillow
has to read them as well, at the price of a second decoding."""
_FROM_16_BITS = ((np.arange(1 << 16) * 255 + 32767) // 65535).astype(np.uint8)
_CUT_OFF = np.minimum(np.arange(1 << 16), 255).astype(np.uint8)
_UPPER_BYTE = (np.arange(1 << 16) >> 8).astype(np.uint8)


def read_pixels(path: Path) -> Pixels | Failure:
    """The pixels of a file, upright; what is wrong with it is said with its name."""
    data = picture_bytes(path)
    return data if isinstance(data, Failure) else named(path, decode(data))


AboutT = TypeVar("AboutT")


def named(path: Path, found: AboutT | Failure) -> AboutT | Failure:
    """The same, and a failure with the name of the file that it is about."""
    return Failure(kind=found.kind, detail=f"{path.name}: {found.detail}") if isinstance(found, Failure) else found


def decode(
    data: bytes,
    *,
    exif: bool = True,
    alpha: Literal["white", "drop"] = "white",
    deep: Literal["scaled", "pillow"] = "scaled",
    max_pixels: int | None = None,
    facts: PictureFacts | Failure | None = None,
) -> Pixels | Failure:
    """Pixels of the (first frame of the) picture, or the Failure that says what is wrong with the bytes.

    `facts` of the same bytes save looking at them again.
    """
    facts = facts or facts_of(data, max_pixels=max_pixels)
    if isinstance(facts, Failure):
        return facts
    with _LARGE_TURN if facts.width * facts.height > _LARGE else contextlib.nullcontext():
        try:
            return _decoded(data, facts, alpha, deep, exif=exif)
        except MemoryError:
            return no_memory(facts.format)


def _decoded(
    data: bytes,
    facts: PictureFacts,
    alpha: Literal["white", "drop"],
    deep: Literal["scaled", "pillow"],
    *,
    exif: bool,
) -> Pixels | Failure:
    if facts.format in _FORGIVEN or (facts.format == "png" and facts.animated):
        try:
            load_by_pillow(data, facts.format)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
            return _undecodable(facts.format, str(error))
    stored = decoded_by_opencv(data, facts, cv2.IMREAD_UNCHANGED)
    if isinstance(stored, Failure):
        return stored
    if stored.dtype == np.uint16:
        # Pillow cuts a grey value above 255 off and takes the upper byte of colours.
        by_pillow = _CUT_OFF if stored.ndim == 2 else _UPPER_BYTE
        stored = _by_bands(stored, stored.shape, (_FROM_16_BITS if deep == "scaled" else by_pillow).__getitem__)
    elif stored.dtype != np.uint8:
        return _undecodable(facts.format, f"samples of type {stored.dtype} have no agreed display range")
    rgb = _rgb(stored, alpha)
    # OpenCV turns TIFFs by their orientation tag whatever the flags say, and nothing else with this flag.
    turned = facts.format == "tiff"
    if exif and not turned:
        rgb = _turn(rgb, facts.orientation)
    elif turned and not exif:
        rgb = _turn(rgb, {6: 8, 8: 6}.get(facts.orientation, facts.orientation))
    return np.ascontiguousarray(rgb)


def decoded_by_opencv(data: bytes, facts: PictureFacts, flags: int) -> NDArray[Any] | Failure:
    """What OpenCV makes of the bytes, in its own order of channels."""
    try:
        stored = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        if error.code == cv2.Error.StsNoMem:
            return no_memory(facts.format)
        return _undecodable(facts.format, str(error.err))
    return _undecodable(facts.format, "the data is damaged") if stored is None else stored


def verified(data: bytes, facts: PictureFacts | Failure | None = None) -> PictureFacts | Failure:
    """Facts of a picture that has been decoded, or the Failure that says why it cannot be: what goes to a judge or into
    a run has been through here. A content is decoded once per process (see `remember`)."""
    facts = facts or facts_of(data)
    if isinstance(facts, Failure) or facts.sha256 in _verified:
        return facts
    pixels = decode(data, facts=facts)
    if isinstance(pixels, Failure):
        return pixels
    remember((facts.sha256,))
    return facts


_verified: dict[str, None] = {}
_MOST_VERIFIED = 1 << 20


def remember(hashes: Iterable[str]) -> None:
    """Contents that are known to decode: 100 bytes each, the oldest forgotten first."""
    _verified.update(dict.fromkeys(hashes))
    while len(_verified) > _MOST_VERIFIED:
        with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread was faster
            del _verified[next(iter(_verified))]


def read_facts(path: Path) -> PictureFacts | Failure:
    """Facts of a file that can be decoded; one that is not there or cannot be read is a Failure too."""
    data = picture_bytes(path)
    return data if isinstance(data, Failure) else verified(data)


def _rgb(stored: Pixels, alpha: Literal["white", "drop"]) -> Pixels:
    # By OpenCV, not by a reversed view: 0.2 ms a megapixel against 3.6.
    channels = 1 if stored.ndim == 2 else stored.shape[2]
    if channels == 1:
        return np.asarray(cv2.cvtColor(stored, cv2.COLOR_GRAY2RGB), dtype=np.uint8)
    if channels == 4 and alpha == "white":
        return _by_bands(stored, (*stored.shape[:2], 3), _over_white)
    return np.asarray(cv2.cvtColor(stored, cv2.COLOR_BGRA2RGB if channels == 4 else cv2.COLOR_BGR2RGB), dtype=np.uint8)


def _over_white(rows: Pixels) -> NDArray[Any]:
    opacity = rows[:, :, 3:].astype(np.uint16)
    colour = np.asarray(cv2.cvtColor(rows, cv2.COLOR_BGRA2RGB), dtype=np.uint16)
    mixed = colour * opacity + 255 * (255 - opacity) + 128
    return (mixed + (mixed >> 8)) >> 8  # divided by 255 and rounded, exactly, three times as fast


def _by_bands(stored: NDArray[Any], shape: Sequence[int], convert: Callable[[NDArray[Any]], NDArray[Any]]) -> Pixels:
    made = np.empty(shape, np.uint8)
    step = max(1, _BAND // stored.shape[1])
    for top in range(0, stored.shape[0], step):
        made[top : top + step] = convert(stored[top : top + step])
    return made


def _turn(pixels: Pixels, orientation: int) -> Pixels:
    """Upright pixels: EXIF orientations 2 to 8 are a mirror, a quarter turn, or both."""
    if orientation in (5, 6, 7, 8):
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return pixels


def _undecodable(picture_format: str, why: str) -> Failure:
    return Failure(kind="unreadable_picture", detail=f"the {picture_format} cannot be decoded: {why}")


def encode(pixels: Pixels, picture_format: Literal["png", "jpeg", "webp"] = "png", *, quality: int = 95) -> bytes:
    """The picture as a file; PNG is lossless and ignores `quality`, WebP above 100 is lossless."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        raise ValueError(f"pixels must be height x width x 3 of uint8, not {pixels.shape} of {pixels.dtype}")
    parameters = {
        "png": [],
        "jpeg": [cv2.IMWRITE_JPEG_QUALITY, quality],
        "webp": [cv2.IMWRITE_WEBP_QUALITY, quality],
    }[picture_format]
    done, data = cv2.imencode(f".{picture_format}", pixels[:, :, ::-1], parameters)
    if not done:
        raise ValueError(f"OpenCV cannot write {pixels.shape[1]}x{pixels.shape[0]} pixels as {picture_format}")
    return data.tobytes()


Filter = Literal["nearest", "bilinear", "bicubic", "lanczos", "box"]


def resize(pixels: Pixels, size: tuple[int, int], filter_name: Filter = "bicubic") -> Pixels:
    """The picture at `size` (width, height); unchanged, not copied, when it has that size already.

    By Pillow alone: official values depend on its filters (docs/decisions/0003-pictures.md).
    """
    height, width = pixels.shape[:2]
    if (width, height) == size:
        return pixels
    if min(size) < 1:
        raise ValueError(f"cannot resize to {size[0]}x{size[1]}")
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling[filter_name.upper()]))
