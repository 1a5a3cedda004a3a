"""Bytes to RGB pixels and back, and resizing. The meaning of every odd file is tabled in the package docstring."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, cast

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from refbench.failure import Failure
from refbench.pictures.facts import MAX_PIXELS, PictureFacts, facts_of

Pixels: TypeAlias = NDArray[np.uint8]
"""Height x width x 3, RGB, 8 bit."""


def read_pixels(path: Path) -> Pixels | Failure:
    """The pixels of a file, upright; what is wrong with it is said with its name."""
    try:
        pixels = decode(path.read_bytes())
    except OSError as error:
        return Failure(kind="unreadable_picture", detail=f"{path.name}: {error.strerror}")
    if isinstance(pixels, Failure):
        return Failure(kind=pixels.kind, detail=f"{path.name}: {pixels.detail}")
    return pixels


def decode(
    data: bytes,
    *,
    exif: bool = True,
    alpha: Literal["white", "drop"] = "white",
    max_pixels: int = MAX_PIXELS,
    facts: PictureFacts | Failure | None = None,
) -> Pixels | Failure:
    """Pixels of the (first frame of the) picture, or the Failure that says what is wrong with the bytes.

    `facts` of the same bytes save looking at them again.
    """
    facts = facts or facts_of(data, max_pixels=max_pixels)
    if isinstance(facts, Failure):
        return facts
    try:
        stored = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        return _undecodable(facts.format, str(error.err))
    if stored is None:
        return _undecodable(facts.format, "the data is damaged")
    if stored.dtype == np.uint16:
        stored = ((stored.astype(np.uint32) * 255 + 32767) // 65535).astype(np.uint8)
    elif stored.dtype != np.uint8:
        return _undecodable(facts.format, f"samples of type {stored.dtype} have no agreed display range")
    rgb = _rgb(cast("Pixels", stored), alpha)
    # OpenCV turns TIFFs by their orientation tag whatever the flags say, and nothing else with this flag.
    turned = facts.format == "tiff"
    if exif and not turned:
        rgb = _turn(rgb, facts.orientation)
    elif turned and not exif:
        rgb = _turn(rgb, {6: 8, 8: 6}.get(facts.orientation, facts.orientation))
    return np.ascontiguousarray(rgb)


def _rgb(stored: Pixels, alpha: Literal["white", "drop"]) -> Pixels:
    # By OpenCV, not by a reversed view: 0.2 ms a megapixel against 3.6.
    channels = 1 if stored.ndim == 2 else stored.shape[2]
    if channels == 1:
        return np.asarray(cv2.cvtColor(stored, cv2.COLOR_GRAY2RGB), dtype=np.uint8)
    rgb = cv2.cvtColor(stored, cv2.COLOR_BGRA2RGB if channels == 4 else cv2.COLOR_BGR2RGB)
    if channels == 4 and alpha == "white":
        opacity = stored[:, :, 3:].astype(np.uint32)
        return ((rgb * opacity + 255 * (255 - opacity) + 127) // 255).astype(np.uint8)
    return np.asarray(rgb, dtype=np.uint8)


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
