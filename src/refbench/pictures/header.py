"""The headers of plain JPEGs and PNGs, read without Pillow: most pictures are plain, and opening them is half the
cost of checking them. Anything unusual (EXIF, profiles, animation, odd samples) is left to Pillow.
"""

from __future__ import annotations

_PNG_MODES = {0: "L", 2: "RGB", 4: "LA", 6: "RGBA"}
_PNG_UNUSUAL = frozenset({b"eXIf", b"iCCP", b"acTL", b"tRNS", b"zTXt", b"iTXt"})
_JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_JPEG_UNUSUAL = frozenset({0xE1, 0xE2})
_JPEG_MODES = {1: "L", 3: "RGB"}


def plain_header(data: bytes, picture_format: str) -> tuple[int, int, str] | None:
    """Width, height and mode of a plain picture; None where Pillow has to look."""
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
    found: tuple[int, int, str] | None = None
    while at <= len(data) - 4:
        marker = data[at + 1]
        if data[at] != 0xFF or marker in _JPEG_UNUSUAL:
            return None
        if marker == 0xDA:  # the scan begins: the header is over
            return found
        if marker in _JPEG_FRAMES:
            height, width = int.from_bytes(data[at + 5 : at + 7], "big"), int.from_bytes(data[at + 7 : at + 9], "big")
            mode = _JPEG_MODES.get(data[at + 9]) if at + 9 < len(data) else None
            if data[at + 4] != 8 or mode is None or not width or not height:
                return None
            found = width, height, mode
        length = int.from_bytes(data[at + 2 : at + 4], "big")
        if length < 2 or not 0xC0 <= marker <= 0xFE:
            return None
        at += 2 + length
    return None
