"""What a file is by its bytes, whether it is all there, and the headers of plain JPEGs and PNGs; nothing is decoded.

Headers are read without Pillow: most pictures are plain, and opening them is half the cost of checking them.
"""

from __future__ import annotations

import re

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
