"""What a picture file is by its bytes, and what it says about itself in its header; nothing is decoded."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from refbench.failure import Failure, FailureKind
from refbench.machine import MACHINE_ERRORS, with_handle
from refbench.pictures.layout import Layout, layout_of
from refbench.record import Record, RefBenchError

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


def limit_from(name: str, default: int) -> int:
    """A limit that the environment may set: a whole number, at least 1."""
    text = os.environ.get(name, "").strip().replace("_", "").replace(",", "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise RefBenchError(f"{name}={os.environ[name]}: give a whole number, at least 1, or unset it")
    return int(text)


MAX_PIXELS = limit_from("REFBENCH_MAX_PIXELS", 89_478_485)
"""Above this many pixels a file counts as a decompression bomb (by default Pillow's own limit, 1/4 GiB of RGB)."""
MAX_BYTES = limit_from("REFBENCH_MAX_PICTURE_BYTES", 1 << 29)
"""Larger files are not read: by default no picture within the limit of pixels is that large."""

_HEAVY = {"avif": 4}
"""Formats whose decoders take so many times the memory of others: 38 bytes a pixel against at most 16."""
_ORIENTATION, _BITS_PER_SAMPLE = 0x0112, 0x0102
# The one reader that may look at a file: by default Pillow tries all it has. Telephones' JPEGs are often MPO.
_PILLOW = {"jpeg": ("JPEG", "MPO")}

# Ours is checked before Pillow looks; where somebody has raised it, Pillow must not warn or refuse below it.
if Image.MAX_IMAGE_PIXELS is not None:
    Image.MAX_IMAGE_PIXELS = max(Image.MAX_IMAGE_PIXELS, MAX_PIXELS)


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
    deep: bool = False
    """Whether samples have more than 8 bits."""


def picture_bytes(path: Path) -> bytes | Failure:
    """The bytes of a file, or the Failure that names it and says why it cannot be read."""
    try:
        return regular_bytes(path)
    except OSError as error:
        kind: FailureKind = "machine_error" if error.errno in MACHINE_ERRORS else "unreadable_picture"
        return Failure(kind=kind, detail=f"{path.name}: {error.strerror or error}")
    except ValueError:  # a name with a zero byte, from a list
        return _unreadable(f"{path.name!r} is no name of a file")


def regular_bytes(path: Path) -> bytes:
    """The bytes of a regular file of at most `MAX_BYTES`. Anything else is an OSError at once: reading a pipe would
    wait for ever, reading a device would never end."""
    # Looked at before it is opened, since opening alone has effects on some devices; and after, since it may be
    # another one by then.
    _refuse_special(path.stat())
    with os.fdopen(with_handle(lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)), "rb") as file:
        size = _refuse_special(os.fstat(file.fileno()))
        data = file.read(MAX_BYTES + 1) if size else b""  # what the kernel makes up in /proc has no size
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES:,} bytes")
    return data


def _refuse_special(found: os.stat_result) -> int:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    if found.st_size > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, more than {MAX_BYTES:,}")
    return found.st_size


def facts_of(data: bytes, *, max_pixels: int | None = None) -> PictureFacts | Failure:
    """Facts of the bytes, or the Failure that says why they are not a usable picture. Whether they can be decoded is
    not known here: see `verified`."""
    if not data:
        return _unreadable("the file is empty (0 bytes)")
    picture_format = sniff(data)
    if picture_format is None:
        return _unreadable(f"not a picture: it begins with {data[:16]!r}")
    if picture_format not in EXTENSIONS:
        return _unreadable(f"{picture_format} pictures are not read; convert it to PNG or JPEG")
    layout = layout_of(data, picture_format)
    if isinstance(layout, str):
        return _unreadable(layout)
    most = (MAX_PIXELS if max_pixels is None else max_pixels) // _HEAVY.get(picture_format, 1)
    if layout.width * layout.height > most:
        return _unreadable(f"{layout.width}x{layout.height} is more than {most:,} pixels")
    facts = _told(data, picture_format, layout) if layout.mode else _by_pillow(data, picture_format, layout.exif)
    if not isinstance(facts, Failure) and facts.width * facts.height > most:
        return _unreadable(f"{facts.width}x{facts.height} is more than {most:,} pixels")
    return facts


def _told(data: bytes, picture_format: str, layout: Layout) -> PictureFacts:
    """Of a plain file. Most are, and opening them with Pillow is half the cost of checking them; of a WebP, Pillow
    makes two canvases before it knows the size."""
    return PictureFacts(
        sha256=hashlib.sha256(data).hexdigest(),
        format=picture_format,
        width=layout.width,
        height=layout.height,
        mode=layout.mode,
        orientation=_orientation(layout.exif),
        icc=layout.icc,
        animated=layout.animated,
    )


def _by_pillow(data: bytes, picture_format: str, exif: bytes) -> PictureFacts | Failure:
    try:
        header = _opened(data, picture_format)
        # For the EXIF of a PNG Pillow would decode the whole picture.
        turned = _orientation(exif) if picture_format == "png" else _orientation_in(header)
    except MemoryError:
        return no_memory(picture_format)
    except UnidentifiedImageError:  # its own words have an address of this process
        return _unreadable(f"the {picture_format} header cannot be read")
    except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
        return _unreadable(f"the {picture_format} header cannot be read ({error})")
    return PictureFacts(
        sha256=hashlib.sha256(data).hexdigest(),
        format=picture_format,
        width=header.width,
        height=header.height,
        mode=header.mode,
        orientation=turned,
        icc="icc_profile" in header.info,
        animated=bool(getattr(header, "is_animated", False)),
        deep=_is_deep(data, picture_format, header),
    )


def _is_deep(data: bytes, picture_format: str, header: Image.Image) -> bool:
    """By the file's own header: Pillow opens colours of 16 bits as RGB like others."""
    if picture_format == "png":
        return data[24] > 8
    bits = getattr(header, "tag_v2", {}).get(_BITS_PER_SAMPLE, (8,))
    return header.mode.startswith("I") or max(bits if isinstance(bits, tuple) else (bits,)) > 8


def _opened(data: bytes, picture_format: str) -> Image.Image:
    return Image.open(io.BytesIO(data), formats=_PILLOW.get(picture_format, (picture_format.upper(),)))


def load_by_pillow(data: bytes, picture_format: str) -> None:
    """Have Pillow decode the (first frame of the) picture, and raise what it raises."""
    with _opened(data, picture_format) as opened:
        opened.load()


def _orientation(block: bytes) -> int:
    """What EXIF says of the picture's turn; 1 where there is none, or none that can be read."""
    if not block:
        return 1
    exif = Image.Exif()
    try:
        exif.load(block)
        return _turned(exif)  # which reads it: not before
    except Exception:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
        return 1


def _orientation_in(header: Image.Image) -> int:
    try:
        return _turned(header.getexif())
    except Exception:  # noqa: BLE001 - broken EXIF does not make a picture unreadable
        return 1


def _turned(exif: Image.Exif) -> int:
    turned = exif.get(_ORIENTATION, 1)
    return turned if turned in range(1, 9) else 1


def no_memory(picture_format: str) -> Failure:
    """Not the picture's fault: another machine, or this one later, may have it."""
    return Failure(kind="machine_error", detail=f"not enough memory for the {picture_format}")


def _unreadable(detail: str) -> Failure:
    return Failure(kind="unreadable_picture", detail=detail)
