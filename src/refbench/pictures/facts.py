"""What a picture file is by its bytes, and what it says about itself in its header; nothing is decoded."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from pathlib import Path

from PIL import Image

from refbench.failure import Failure
from refbench.record import Record

# What a file is by its bytes, whether it is all there, and the headers of plain JPEGs and PNGs; nothing is decoded.
#
# Headers are read without Pillow: most pictures are plain, and opening them is half the cost of checking them.

EXTENSIONS = {
    "jpeg": ".jpg",
    "png": ".png",
    "webp": ".webp",
    "gif": ".gif",
    "bmp": ".bmp",
    "tiff": ".tif",
    "avif": ".avif",
}
"""The formats RefBench reads, each with the extension its blobs get."""

# A JPEG marker inside or after scan data: FF followed by neither a stuffed zero, a restart nor a fill byte.
_JPEG_MARKER = re.compile(rb"\xff+([^\x00\xd0-\xd7\xff])", re.DOTALL)


def sniff(data: bytes) -> str | None:
    """The format by signature, `None` for anything that is not a picture we know."""
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "webp"
    if data.startswith(b"BM") and len(data) > 26:
        return "bmp"
    if data.startswith((b"II*\x00", b"MM\x00*")):
        return "tiff"
    if data[4:8] == b"ftyp":
        return "avif" if data[8:12] in (b"avif", b"avis") else "heif"
    return None


def is_complete(data: bytes, picture_format: str) -> bool:
    """Whether the end marker is there. Decoders fill what is missing with grey and say nothing.

    Bytes behind the end marker are allowed: cameras and editors append them. Formats without an end
    marker are taken as complete; decoding then decides.
    """
    if picture_format == "jpeg":
        return _jpeg_ends(data)
    if picture_format == "png":
        return b"IEND\xaeB`\x82" in data[-65536:] or b"IEND\xaeB`\x82" in data
    if picture_format == "gif":
        return data.rstrip(b"\x00").endswith(b"\x3b")
    if picture_format == "webp":
        return len(data) >= 8 + int.from_bytes(data[4:8], "little")
    if picture_format == "bmp":
        return len(data) >= int.from_bytes(data[2:6], "little")
    return True


def _jpeg_ends(data: bytes) -> bool:
    """Walk the segments to the end-of-image marker; thumbnails inside segments are jumped over."""
    at = 2
    while match := _JPEG_MARKER.search(data, at):
        marker = match.group(1)[0]
        if marker == 0xD9:
            return True
        if marker in (0x01, 0xD8):  # stand-alone markers have no length
            at = match.end()
            continue
        if marker == 0xDA and data.endswith(b"\xff\xd9"):
            return (
                True  # scan data cannot hold this marker, so it is the end; the walk through it costs 7 ms a megabyte
            )
        length = int.from_bytes(data[match.end() : match.end() + 2], "big")
        at = match.end() + max(length, 2)
    return False


def png_has(data: bytes, chunk: bytes) -> bool:
    """Whether a PNG has a chunk of that name, found by its chunks' lengths and not by searching the pixels."""
    at = 8
    while 8 <= at <= len(data) - 8:
        if data[at + 4 : at + 8] == chunk:
            return True
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    return False


_PNG_MODES = {0: "L", 2: "RGB", 4: "LA", 6: "RGBA"}
_PNG_UNUSUAL = frozenset({b"eXIf", b"iCCP", b"acTL", b"tRNS", b"zTXt", b"iTXt"})
_JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_JPEG_UNUSUAL = frozenset({0xE1, 0xE2})
_JPEG_MODES = {1: "L", 3: "RGB"}


def plain_header(data: bytes, picture_format: str) -> tuple[int, int, str] | None:
    """Width, height and mode of a plain picture; None for anything unusual, which is left to Pillow."""
    if picture_format == "png":
        return _png(data)
    return _jpeg(data) if picture_format == "jpeg" else None


def _png(data: bytes) -> tuple[int, int, str] | None:
    if data[12:16] != b"IHDR" or data[24] != 8 or data[25] not in _PNG_MODES:
        return None
    at, pixels = 8, False
    while at <= len(data) - 12:  # to the end: EXIF may stand behind the pixels
        name = data[at + 4 : at + 8]
        if name in _PNG_UNUSUAL:
            return None
        pixels = pixels or name == b"IDAT"
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    return (width, height, _PNG_MODES[data[25]]) if pixels and width and height else None


def _jpeg(data: bytes) -> tuple[int, int, str] | None:
    at = 2
    frame: tuple[int, int, str] | None = None
    while at <= len(data) - 4:
        marker = data[at + 1]
        if data[at] != 0xFF or marker in _JPEG_UNUSUAL:
            return None
        if marker == 0xDA:  # the scan begins: the header is over
            return frame
        if marker in _JPEG_FRAMES:
            height, width = int.from_bytes(data[at + 5 : at + 7], "big"), int.from_bytes(data[at + 7 : at + 9], "big")
            mode = _JPEG_MODES.get(data[at + 9]) if at + 9 < len(data) else None
            if data[at + 4] != 8 or mode is None or not width or not height:
                return None
            frame = width, height, mode
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if length < 2 or not 0xC0 <= marker <= 0xFE:
            return None
        at += 2 + length
    return None


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
