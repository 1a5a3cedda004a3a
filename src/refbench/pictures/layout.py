"""What a picture file says about its own parts, held against the bytes that there are, before any decoder sees them.

Decoders believe what a file declares: a PNG of 109 bytes with one false length took 4.3 GB. So every length must lie
within the file, and the size of the picture is known, before a decoder allocates for it. Nothing is decoded here.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

MOST_PARTS = 1 << 17
"""Chunks, segments, blocks or boxes of one file. OpenCV writes a PNG of 500 MB in 62,000 of them."""
MOST_SCANS = 20
"""Passes over a large progressive JPEG: encoders use 10 or so, and each costs a decoder a walk over all its blocks."""
_SCANNED_PIXELS = 1 << 30
"""Pixels times scans up to which more scans are no burden: a hundred of a 10-megapixel picture."""
_DEFLATED = 1032
"""Bytes that one byte of a zlib stream can stand for, at the most."""


class Layout(NamedTuple):
    """The size that a file declares for its picture; and the mode, as Pillow calls it, of a plain one, "" for anything
    that needs a closer look."""

    width: int
    height: int
    mode: str = ""
    exif: bytes = b""
    icc: bool = False
    animated: bool = False


class _WrongError(Exception):
    """What the file declares cannot be."""


def layout_of(data: bytes, picture_format: str) -> Layout | str:
    """How the file is built, or the sentence that says why it cannot be a whole picture of that format.

    Bytes behind the end of a JPEG, PNG, GIF, WebP or BMP are allowed: cameras and editors append them.
    """
    try:
        layout = _READERS[picture_format](data)
    except _WrongError as wrong:
        return f"the {picture_format} {wrong}"
    except (struct.error, IndexError):
        return f"the {picture_format} is cut off after {len(data)} bytes"
    if min(layout.width, layout.height) < 1:
        return f"the {picture_format} header states a size of {layout.width}x{layout.height}"
    return layout


def _within(length: int, end: int, what: str) -> None:
    if end > length:
        raise _WrongError(f"is cut off after {length} bytes: its {what} should end at {end}")


def _counted(parts: int, what: str) -> None:
    if parts > MOST_PARTS:
        raise _WrongError(f"has more than {MOST_PARTS:,} {what}")


# --- PNG ----------------------------------------------------------------------------------------------------------

_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PNG_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_PNG_MODES = {0: "L", 2: "RGB", 4: "LA", 6: "RGBA"}
_PNG_UNUSUAL = frozenset({b"eXIf", b"iCCP", b"acTL", b"tRNS", b"zTXt", b"iTXt"})


def _png(data: bytes) -> Layout:
    if data[8:16] != b"\0\0\0\rIHDR":
        raise _WrongError("header cannot be read")
    width, height, depth, colours = struct.unpack_from(">IIBB", data, 16)
    if depth not in _PNG_DEPTHS.get(colours, ()):
        raise _WrongError(f"header states {depth} bits of colour type {colours}, which there are not")
    mode = _PNG_MODES.get(colours, "") if depth == 8 else ""
    at, parts, deflated, exif, name = 8, 0, 0, b"", b""
    while name != b"IEND":
        length, name = struct.unpack_from(">I4s", data, at)
        _within(len(data), at + 12 + length, f"chunk {name.decode('latin-1')!r}")
        if name == b"IDAT":
            deflated += length
        elif name in _PNG_UNUSUAL:
            mode = ""
            exif = data[at + 8 : at + 8 + length] if name == b"eXIf" else exif
        at, parts = at + 12 + length, parts + 1
        _counted(parts, "chunks")
    least = height * ((width * depth * _PNG_CHANNELS[colours] + 7) // 8)
    if least > deflated * _DEFLATED:
        raise _WrongError(f"has {deflated} bytes of data, which cannot be {width}x{height} pixels")
    return Layout(width, height, mode, exif)


# --- JPEG ---------------------------------------------------------------------------------------------------------

# A marker inside or after scan data: FF followed by neither a stuffed zero, a restart nor a fill byte. A `+` for fill
# bytes is not needed, and makes the walk twenty times as slow (7 ms a megabyte).
_JPEG_MARKER = re.compile(rb"\xff([\x01-\xcf\xd8-\xfe])")
# Tables, comments and scans may follow the first scan. Anything else is damage that decoders pass over in silence.
_JPEG_BETWEEN_SCANS = frozenset({0xC4, 0xCC, 0xDA, 0xDB, 0xDC, 0xDD, 0xFE, *range(0xE0, 0xF0)})
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_PLAIN = frozenset({0xC0, 0xC1, 0xC2})
_JPEG_MODES = {1: "L", 3: "RGB", 4: "CMYK"}


def _jpeg(data: bytes) -> Layout:
    width, height, mode, scans, exif, icc = 0, 0, "", 0, b"", False
    for marker, at in _segments(data):
        if scans and marker not in _JPEG_BETWEEN_SCANS:
            raise _WrongError(f"is damaged: its pixels hold the marker {marker:02X}")
        if marker in _JPEG_FRAMES:
            depth, high, wide, components = struct.unpack_from(">BHHB", data, at + 2)
            width, height = max(width, wide), max(height, high)
            mode = _JPEG_MODES.get(components, "") if depth == 8 and marker in _JPEG_PLAIN and not mode else "?"
        elif marker == 0xE1 and data.startswith(b"Exif\0\0", at + 2) and not exif:
            exif = data[at + 2 : at + int.from_bytes(data[at : at + 2], "big")]
        elif marker == 0xE2 and data.startswith(b"ICC_PROFILE\0", at + 2):
            icc = True
        elif marker in (0xE1, 0xE2):
            mode = "?"  # XMP, which may say how to turn it, or several pictures in one file
        elif marker == 0xDA:
            scans += 1
    if scans > MOST_SCANS and scans * width * height > _SCANNED_PIXELS:
        raise _WrongError(f"has {scans} scans of {width}x{height} pixels")
    return Layout(width, height, mode if mode in _JPEG_MODES.values() else "", exif, icc)


def _segments(data: bytes) -> Iterator[tuple[int, int]]:
    """The markers to the end of the image and where their segments begin; thumbnails inside of them are jumped over."""
    at, parts = 2, 0
    while match := _JPEG_MARKER.search(data, at):
        marker, at = match[1][0], match.end()
        if marker == 0xD9:
            return
        if marker in (0x01, 0xD8):  # stand-alone markers have no length
            continue
        length = int.from_bytes(data[at : at + 2], "big")
        _within(len(data), at + length, f"segment {marker:02X}")
        yield marker, at
        at, parts = at + max(length, 2), parts + 1
        _counted(parts, "segments")
    raise _WrongError(f"is cut off after {len(data)} bytes: it has no end marker")


# --- WebP ---------------------------------------------------------------------------------------------------------


def _webp(data: bytes) -> Layout:
    end = 8 + int.from_bytes(data[4:8], "little")
    _within(len(data), end, "RIFF chunk")
    width, height, alpha, exif, seen = 0, 0, False, b"", set()
    at, parts = 12, 0
    while at + 8 <= end:
        name, length = struct.unpack_from("<4sI", data, at)
        body = at + 8
        _within(end, body + length, f"chunk {name.decode('latin-1')!r}")
        wide = high = 0
        if name == b"VP8X":
            wide, high = (1 + int.from_bytes(data[body + a : body + a + 3], "little") for a in (4, 7))
            alpha = bool(data[body] & 0x10)
        elif name == b"VP8 " and data[body + 3 : body + 6] == b"\x9d\x01\x2a":
            wide, high = (size & 0x3FFF for size in struct.unpack_from("<HH", data, body + 6))
        elif name == b"VP8L" and data[body : body + 1] == b"\x2f":
            (bits,) = struct.unpack_from("<I", data, body + 1)
            wide, high = 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
            alpha = alpha or bool(bits >> 28 & 1)
        elif name == b"ANMF":
            wide, high = (1 + int.from_bytes(data[body + a : body + a + 3], "little") for a in (6, 9))
        elif name == b"EXIF":
            exif = data[body : body + length]
        seen.add(name)
        width, height = max(width, wide), max(height, high)
        at, parts = body + length + length % 2, parts + 1
        _counted(parts, "chunks")
    return Layout(width, height, "RGBA" if alpha else "RGB", exif, b"ICCP" in seen, b"ANMF" in seen)


# --- GIF, BMP -----------------------------------------------------------------------------------------------------


def _gif(data: bytes) -> Layout:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at, parts = 13 + _gif_table(flags), 0
    while (block := data[at]) != 0x3B:
        if block == 0x21:
            at = _gif_blocks(data, at + 2)
        elif block == 0x2C:
            left, top, wide, high, flags = struct.unpack_from("<HHHHB", data, at + 1)
            width, height = max(width, left + wide), max(height, top + high)
            at = _gif_blocks(data, at + 11 + _gif_table(flags))
        elif block == 0:
            at += 1  # some writers pad
        else:
            raise _WrongError(f"has a block of the unknown kind {block:02X}")
        parts += 1
        _counted(parts, "blocks")
    return Layout(width, height)


def _gif_table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _gif_blocks(data: bytes, at: int) -> int:
    while length := data[at]:
        at += 1 + length
    return at + 1


def _bmp(data: bytes) -> Layout:
    size, _, _, start, header = struct.unpack_from("<IHHII", data, 2)
    if header == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        packed = 0
    else:
        width, height, _, bits, packed = struct.unpack_from("<iiHHI", data, 18)
    height = abs(height)
    plain = packed in (0, 3)
    _within(len(data), max(size, start + (width * bits + 31) // 32 * 4 * height if plain else 0), "pixels")
    return Layout(width, height)


# --- TIFF ---------------------------------------------------------------------------------------------------------

_TIFF_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
_TIFF_CODES = {1: "B", 3: "H", 4: "I"}
_TIFF_TILE = 1 << 22
"""Pixels of a tile that may be larger than the picture it is of."""


def _tiff(data: bytes) -> Layout:
    order = "<" if data[:2] == b"II" else ">"
    (at,) = struct.unpack_from(f"{order}I", data, 4)
    (fields,) = struct.unpack_from(f"{order}H", data, at)
    values: dict[int, tuple[int, ...]] = {}
    for place in range(at + 2, at + 2 + 12 * fields, 12):
        tag, kind, count = struct.unpack_from(f"{order}HHI", data, place)
        size = count * _TIFF_BYTES.get(kind, 1)
        _within(len(data), size, f"field {tag}")
        if kind in _TIFF_CODES and tag in (256, 257, 273, 279, 322, 323, 324, 325):
            start = place + 8 if size <= 4 else struct.unpack_from(f"{order}I", data, place + 8)[0]
            values[tag] = struct.unpack_from(f"{order}{count}{_TIFF_CODES[kind]}", data, start)
    if not values.get(256) or not values.get(257):
        raise _WrongError("header has no size")
    width, height = values[256][0], values[257][0]
    tile = values.get(322, (0,))[0] * values.get(323, (0,))[0]
    if tile > max(width * height, _TIFF_TILE):
        raise _WrongError(f"has tiles of {tile:,} pixels for a picture of {width}x{height}")
    for offsets, counts in ((273, 279), (324, 325)):
        ends = map(sum, zip(values.get(offsets, ()), values.get(counts, ()), strict=False))
        _within(len(data), max(ends, default=0), "pixels")
    return Layout(width, height)


# --- AVIF ---------------------------------------------------------------------------------------------------------

# Where sizes stand: of still pictures, and of the tracks of a sequence.
_AVIF_SIZES = {
    b"meta": re.compile(rb"ispe.{4}(.{4})(.{4})", re.DOTALL),
    b"moov": re.compile(rb"av01.{24}(..)(..)", re.DOTALL),
}
_AVIF_TABLES = re.compile(rb"iloc|stco|co64")
_AVIF_MOST_TABLES = 16
_AVIF_START = 4096
"""Bytes of an item in which its first AV1 header must begin; encoders put it at the very start."""


def _avif(data: bytes) -> Layout:
    at, parts, width, height = 0, 0, 0, 0
    while at < len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, at + 8)
        size = size or len(data) - at
        if size < 8:
            raise _WrongError(f"has a box of {size} bytes")
        _within(len(data), at + size, f"box {name.decode('latin-1')!r}")
        sizes = (
            [match.groups() for match in _AVIF_SIZES[name].finditer(data, at, at + size)] if name in _AVIF_SIZES else []
        )
        for wide, high in [
            *((int.from_bytes(wide, "big"), int.from_bytes(high, "big")) for wide, high in sizes),
            *(_av1_size(start) for start in _avif_starts(data, at, at + size) if name in _AVIF_SIZES),
        ]:
            width, height = max(width, wide), max(height, high)
        at, parts = at + size, parts + 1
        _counted(parts, "boxes")
    return Layout(width, height)


def _avif_starts(data: bytes, at: int, end: int) -> Iterator[bytes]:
    """The first bytes of every item and track: decoders make room for the size that stands there, whatever the boxes
    say."""
    tables = list(itertools.islice(_AVIF_TABLES.finditer(data, at, end), _AVIF_MOST_TABLES + 1))
    if len(tables) > _AVIF_MOST_TABLES:
        raise _WrongError(f"has more than {_AVIF_MOST_TABLES} tables of items")
    inside = data.find(b"idat", at, end) + 4
    for table in tables:
        if table[0] != b"iloc":
            kind, number = (">I", 4) if table[0] == b"stco" else (">Q", 8)
            (places,) = struct.unpack_from(">I", data, table.end() + 4)
            _counted(places, "samples")
            for place in range(places):
                (offset,) = struct.unpack_from(kind, data, table.end() + 8 + place * number)
                yield data[offset : offset + _AVIF_START]
            continue
        for method, extents in _avif_items(data, table.end()):
            if method > 1:
                raise _WrongError("has an item made of others")
            start = inside if method else 0
            yield b"".join(data[start + a : start + a + min(n or _AVIF_START, _AVIF_START)] for a, n in extents)


def _avif_items(data: bytes, at: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """How and where each item lies: its method, and offset and length of its first pieces."""
    version, sizes = data[at], struct.unpack_from(">BB", data, at + 4)
    widths = [part for size in sizes for part in (size >> 4, size & 15)]
    wide = 4 if version == 2 else 2

    def number(size: int) -> int:
        nonlocal at
        at += size
        if at > len(data):
            raise IndexError
        return int.from_bytes(data[at - size : at], "big")

    at += 6
    parts = 0
    for _ in range(number(wide)):
        number(wide)
        method = number(2) & 15 if version else 0
        number(2)
        base, extents, pieces = number(widths[2]), [], number(2)
        parts += 1 + pieces
        _counted(parts, "pieces of items")
        for _ in range(pieces):
            number(widths[3] if version else 0)
            extents.append((base + number(widths[0]), number(widths[1])))
        yield method, extents[:64]


def _av1_size(start: bytes) -> tuple[int, int]:
    """The largest frame that an AV1 stream announces; (0, 0) of what is none, such as EXIF."""
    at = 0
    while at + 2 < len(start):
        head = start[at]
        kind, sized = head >> 3 & 15, head & 2
        at += 2 if head & 4 else 1
        length = len(start)
        if sized:
            length = shift = 0
            while True:
                length |= (start[at] & 127) << shift
                shift, at = shift + 7, at + 1
                if start[at - 1] < 128:
                    break
        if kind == 1:
            return _av1_sequence(_Bits(start[at : at + 200]))
        if kind not in (2, 5, 15):  # neither a delimiter, nor metadata, nor padding
            return 0, 0
        at += length
    if len(start) >= _AVIF_START:
        raise _WrongError(f"has no header of its pixels within {_AVIF_START} bytes")
    return 0, 0


class _Bits:
    """Bits of a header, one after another; zeros behind its end."""

    def __init__(self, data: bytes) -> None:
        self._value, self._left = int.from_bytes(data, "big"), 8 * len(data)

    def __call__(self, number: int) -> int:
        self._left -= number
        return (self._value >> max(self._left, 0)) & ((1 << number) - 1) if self._left >= 0 else 0


def _av1_sequence(bits: _Bits) -> tuple[int, int]:
    """Width and height in a sequence header (AV1 specification, 5.5.1)."""
    bits(4)
    if bits(1):  # of a still picture, reduced
        bits(5)
    else:
        model, delay = 0, 0
        if bits(1):  # timing
            bits(64)
            if bits(1):
                zeros = next((n for n in range(32) if bits(1)), 32)
                bits(zeros)
            if bits(1):  # of the decoder model
                delay = bits(5) + 1
                bits(42)
                model = 1
        display = bits(1)
        for _ in range(bits(5) + 1):
            bits(12)
            if bits(5) > 7:
                bits(1)
            if model and bits(1):
                bits(2 * delay + 1)
            if display and bits(1):
                bits(4)
    wide, high = bits(4) + 1, bits(4) + 1
    return bits(wide) + 1, bits(high) + 1


_READERS: dict[str, Callable[[bytes], Layout]] = {
    "png": _png,
    "jpeg": _jpeg,
    "webp": _webp,
    "gif": _gif,
    "bmp": _bmp,
    "tiff": _tiff,
    "avif": _avif,
}
