"""What a picture file says about itself, read from its header."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

from PIL import Image

from refbench.failure import Failure
from refbench.pictures.sniff import EXTENSIONS, is_complete, plain_header, png_has, sniff
from refbench.record import Record

MAX_PIXELS = 89_478_485
"""Above this many pixels a file counts as a decompression bomb (Pillow's own limit, 1/4 GiB of RGB)."""

_ORIENTATION = 0x0112

# Pillow warns on standard error above its limit; here the limit below makes it a Failure.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class PictureFacts(Record):
    """Format by signature, size as stored, and what a reader may have to know before using the pixels."""

    sha256: str
    format: str
    width: int
    height: int
    mode: str
    """Pillow's mode name: RGB, RGBA, P, L, CMYK, I;16, ..."""
    orientation: int = 1
    """EXIF orientation, 1 when upright or absent."""
    icc: bool = False
    animated: bool = False


def picture_bytes(path: Path) -> bytes | Failure:
    """The bytes of a file, or the Failure that names it and says why it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        return _unreadable(f"{path.name}: {error.strerror or error}")


def facts_of(data: bytes, *, max_pixels: int = MAX_PIXELS) -> PictureFacts | Failure:
    """Facts of the bytes, or the Failure that says why they are not a usable picture."""
    if not data:
        return _unreadable("the file is empty (0 bytes)")
    picture_format = sniff(data)
    if picture_format is None:
        return _unreadable(f"not a picture: it begins with {data[:16]!r}")
    if picture_format not in EXTENSIONS:
        return _unreadable(f"{picture_format} pictures are not read; convert it to PNG or JPEG")
    if not is_complete(data, picture_format):
        return _unreadable(f"the {picture_format} is cut off after {len(data)} bytes")
    plain = plain_header(data, picture_format)
    if plain is not None:
        width, height, mode = plain
        facts = PictureFacts(
            sha256=hashlib.sha256(data).hexdigest(), format=picture_format, width=width, height=height, mode=mode
        )
    else:
        opened = _by_pillow(data, picture_format, max_pixels)
        if isinstance(opened, Failure):
            return opened
        facts = opened
    if facts.width * facts.height > max_pixels:
        return _unreadable(f"{facts.width}x{facts.height} is more than {max_pixels:,} pixels")
    return facts


def _by_pillow(data: bytes, picture_format: str, max_pixels: int) -> PictureFacts | Failure:
    try:
        header = Image.open(io.BytesIO(data))
        orientation = header.getexif().get(_ORIENTATION, 1) if _may_turn(data, picture_format) else 1
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        return _unreadable(f"more than {max_pixels:,} pixels")
    except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
        return _unreadable(f"the {picture_format} header cannot be read ({error})")
    return PictureFacts(
        sha256=hashlib.sha256(data).hexdigest(),
        format=picture_format,
        width=header.width,
        height=header.height,
        mode=header.mode,
        orientation=orientation if orientation in range(1, 9) else 1,
        icc="icc_profile" in header.info,
        animated=bool(getattr(header, "is_animated", False)),
    )


def _may_turn(data: bytes, picture_format: str) -> bool:
    """Whether it is worth asking Pillow for EXIF: for a PNG without it, Pillow would decode the whole picture."""
    return picture_format != "png" or png_has(data, b"eXIf")


def read_facts(path: Path, *, max_pixels: int = MAX_PIXELS) -> PictureFacts | Failure:
    """Facts of a file; a file that is not there or cannot be read is a Failure too."""
    data = picture_bytes(path)
    return data if isinstance(data, Failure) else facts_of(data, max_pixels=max_pixels)


def _unreadable(detail: str) -> Failure:
    return Failure(kind="unreadable_picture", detail=detail)
