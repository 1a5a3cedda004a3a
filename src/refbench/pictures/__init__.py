"""Pictures: bytes to pixels and back, in one place and with one documented meaning for every odd file.

| file | meaning |
|---|---|
| extension | never trusted; the signature in the bytes decides |
| palette | expanded to RGB; palette transparency is alpha |
| greyscale, 1 bit | three equal channels, black 0, white 255 |
| alpha | composited over white (`alpha="drop"`: colour channels as stored, as Pillow's convert does) |
| 16 bit | scaled by 255/65535 and rounded, so that full scale stays so (`deep="pillow"`: as Pillow's convert does) |
| EXIF rotation | applied (`exif=False`: pixels as stored, as the `paper` protocols have it) |
| CMYK | converted by OpenCV's plain formula, no profile |
| animated | the first frame |
| ICC profile | ignored; `PictureFacts.icc` reports it |
| float samples | a Failure |
| empty, cut off, too large, false about its own lengths, no picture | a Failure `unreadable_picture` that says which |

OpenCV decodes and encodes, Pillow resizes: see docs/decisions/0003-pictures.md.
"""

from refbench.pictures.facts import (
    EXTENSIONS,
    MAX_BYTES,
    MAX_PIXELS,
    PictureFacts,
    facts_of,
    picture_bytes,
    regular_bytes,
    sniff,
)
from refbench.pictures.pixels import Pixels, decode, encode, named, read_facts, read_pixels, remember, resize, verified

__all__ = [
    "EXTENSIONS",
    "MAX_BYTES",
    "MAX_PIXELS",
    "PictureFacts",
    "Pixels",
    "decode",
    "encode",
    "facts_of",
    "named",
    "picture_bytes",
    "read_facts",
    "read_pixels",
    "regular_bytes",
    "remember",
    "resize",
    "sniff",
    "verified",
]
