"""Pictures that lie, break off, burst or are something else: made on the spot, named by what is wrong with them."""

from __future__ import annotations

import base64
import io
import json
import random
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from refbench.pictures import Pixels
from support.judge_server import JudgeServer


def photograph(side: int = 48, seed: int = 0) -> Pixels:
    """Smooth colours with a little noise: compresses like a photograph, and no two seeds are alike."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:side, 0:side]
    plain = np.stack([x * 255 // side, y * 255 // side, (x + y + 40 * seed) % 256], axis=2)
    return np.clip(plain + rng.integers(-9, 10, plain.shape), 0, 255).astype(np.uint8)


def saved(picture: Image.Image, picture_format: str, **options: Any) -> bytes:
    data = io.BytesIO()
    picture.save(data, picture_format, **options)
    return data.getvalue()


def sound(side: int = 48, seed: int = 0) -> dict[str, bytes]:
    """A file of every format and most of its kinds; all of them can be decoded."""
    rgb = Image.fromarray(photograph(side, seed))
    rgba = rgb.copy()
    rgba.putalpha(rgb.convert("L"))
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = {"save_all": True, "append_images": [ImageOps.invert(rgb)], "duration": 50}
    few = rgb.quantize(7)
    return {
        "jpeg": saved(rgb, "JPEG", quality=90),
        "jpeg-progressive": saved(rgb, "JPEG", progressive=True),
        "jpeg-grey": saved(rgb.convert("L"), "JPEG"),
        "jpeg-cmyk": saved(rgb.convert("CMYK"), "JPEG"),
        "jpeg-turned": saved(rgb, "JPEG", exif=exif),
        "jpeg-broken-exif": saved(rgb, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff" + bytes(20)),
        "jpeg-broken-icc": saved(rgb, "JPEG", icc_profile=b"no profile" * 30),
        "jpeg-trailing-zip": saved(rgb, "JPEG") + b"PK\x03\x04" + bytes(60),
        "png": saved(rgb, "PNG"),
        "png-alpha": saved(rgba, "PNG"),
        "png-palette": saved(few, "PNG"),
        "png-palette-alpha": saved(few, "PNG", transparency=bytes([0, 128, 255])),
        "png-1bit": saved(rgb.convert("1"), "PNG"),
        "png-16bit": saved(Image.fromarray(photograph(side, seed)[:, :, 0].astype(np.uint16) * 257), "PNG"),
        "png-turned": saved(rgb, "PNG", exif=exif),
        "png-broken-icc": saved(rgb, "PNG", icc_profile=b"no profile" * 30),
        "png-animated": saved(rgb, "PNG", **frames),
        "png-trailing-html": saved(rgb, "PNG") + b"<script>alert(1)</script>",
        "webp": saved(rgb, "WEBP"),
        "webp-lossless": saved(rgba, "WEBP", lossless=True),
        "webp-animated": saved(rgb, "WEBP", **frames),
        "webp-turned": saved(rgb, "WEBP", exif=exif),
        "gif": saved(rgb, "GIF"),
        "gif-animated": saved(rgb, "GIF", **frames),
        "bmp": saved(rgb, "BMP"),
        "bmp-palette": saved(few, "BMP"),
        "tiff": saved(rgb, "TIFF"),
        "tiff-deflate": saved(rgb, "TIFF", compression="tiff_adobe_deflate"),
        "tiff-turned": saved(rgb, "TIFF", exif=exif),
        "tiff-pages": saved(rgb, "TIFF", save_all=True, append_images=[rgb]),
        "avif": saved(rgb, "AVIF") if "AVIF" in Image.SAVE else saved(rgb, "PNG"),
    }


def chunk(name: bytes, body: bytes, length: int | None = None) -> bytes:
    """A chunk of a PNG, which may say that it has another length."""
    stated = len(body) if length is None else length
    return struct.pack(">I", stated) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(
    width: int, height: int, depth: int = 8, colours: int = 2, *, rows: bytes | None = None, more: bytes = b""
) -> bytes:
    """A PNG of that header and that many bytes of rows, whether they fit or not."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows if rows is not None else b"", 9))
    return b"\x89PNG\r\n\x1a\n" + header + more + body + chunk(b"IEND", b"")


def full_rows(width: int, height: int, bits: int) -> bytes:
    return bytes(height * (1 + (width * bits + 7) // 8))


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


LARGE_INSIDE = r"""
c-muNV30{GsVqn=%S>Yc0uY^>nP!-qnF!*)%uOvxWPkw0jFg-rD4U@mGr5ET4e%9YmgIt2j6f`xnUkLk;<$kLj1W;qUIqrHY9L!9Gczv@u2u@jNo9ia63Y
w>o%3_@!FFY278Df#Y0u1p<a{74l384k3boGxih=f4WP&ww012MNGDGJ^0U3~haB_Z5QC@OR1<+hx2DS#Eka%W6F3d+jXR$CcHM0QS)SR1=SR%y0#U*2`&
TmmRgCoP#=oO39qhzB-mQO%qb<Up){J?+4>tk4DUh<V&9QhOWHCE~SmTfcnxoq);Qm0EBOC5|h+?7%AVVAb$(K~-Gq9(Y@M<dA6z-
L?Zn=>n}Jup1l|K;gz*0&cOZ+x4|C$Ylt_R9qpWe4<*rOb99Red6M^<Tx*#E;Kyt?rdu{-3Gr-0MAtGU-#dcb&L-
S^w6h2<s;w#SUz4Pg#*&$2NPn)!ek(E`LLcyKWv=O1-?2)3I*n^k#*tdj0?AmRR0>6(2;Bljhg$2-B18kiF>2wwzasOU&T>I^79A*Ti233-
f93)Ba`C{7B%P#!xYn#-aPjyeGxhdp~bb-<&B`8{c2>dmAhX0Pz)M!T
"""
"""An AVIF that says it has 64 x 64 pixels around a stream of 5,000 x 5,000; to encode it here would take 10 s."""


def liars(side: int = 48) -> Iterator[tuple[str, bytes]]:
    """Files whose declared lengths, sizes and counts are not those of their bytes."""
    good = sound(side)
    for length in (0xFFFF0000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 24):
        yield f"png-chunk-of-{length:x}", png(4, 4, rows=full_rows(4, 4, 24), more=chunk(b"teSt", b"", length))
        yield f"png-idat-of-{length:x}", png(4, 4)[:33] + chunk(b"IDAT", b"x", length) + chunk(b"IEND", b"")
    for width, height in ((0, 4), (4, 0), (60_000, 60_000), (1 << 31, 1), (1, 1 << 31), (0xFFFFFFFF, 0xFFFFFFFF)):
        yield f"png-of-{width}x{height}", png(width, height, rows=full_rows(4, 4, 24))
        at = good["tiff"].find(struct.pack("<HHI", 256, 4, 1)) if good["tiff"][:2] == b"II" else -1
        if at > 0:
            yield f"tiff-of-{width}x{height}", changed(good["tiff"], at + 8, struct.pack("<I", width))
        small = (min(width, 0xFFFF), min(height, 0xFFFF))
        at = good["jpeg"].find(b"\xff\xc0")
        yield f"jpeg-of-{small[0]}x{small[1]}", changed(good["jpeg"], at + 5, struct.pack(">HH", small[1], small[0]))
        yield f"gif-of-{small[0]}x{small[1]}", changed(good["gif"], 6, struct.pack("<HH", *small))
        frame = good["gif"].find(b"\x2c\0\0\0\0")
        yield f"gif-frame-of-{small[0]}x{small[1]}", changed(good["gif"], frame + 5, struct.pack("<HH", *small))
        signed = struct.pack("<II", width, height)
        yield f"bmp-of-{width}x{height}", changed(good["bmp"], 18, signed)
        at = good["avif"].find(b"ispe")
        yield f"avif-of-{width}x{height}", changed(good["avif"], at + 8, struct.pack(">II", width, height))
        canvas = (
            struct.pack("<I", min(width, 1 << 24) - 1 & 0xFFFFFF)[:3]
            + struct.pack("<I", min(height, 1 << 24) - 1 & 0xFFFFFF)[:3]
        )
        yield f"webp-canvas-of-{width}x{height}", changed(good["webp-animated"], 24, canvas)
        at = good["webp-animated"].find(b"ANMF")
        yield f"webp-frame-of-{width}x{height}", changed(good["webp-animated"], at + 14, canvas)
    yield (
        "webp-canvas-alone",
        b"RIFF" + struct.pack("<I", 22) + b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + b"\xff\x3f\0" * 2,
    )
    for depth, colours in ((3, 0), (16, 3), (1, 2), (8, 1), (8, 5), (8, 7), (255, 255), (0, 0), (32, 2)):
        yield f"png-{depth}-bits-of-{colours}", png(4, 4, depth, colours, rows=full_rows(4, 4, 64))
    yield "png-no-palette", png(4, 4, 8, 3, rows=full_rows(4, 4, 8))
    yield "png-short-palette", png(4, 4, 8, 3, rows=b"\0\x09\x09\x09\x09" * 4, more=chunk(b"PLTE", b"\1\2\3"))
    yield "png-empty-data", png(4, 4)
    yield "png-half-the-rows", png(64, 64, rows=full_rows(64, 20, 24))
    yield "png-wrong-checksum", changed(good["png"], good["png"].find(b"IDAT") + 40, b"\xaa\xbb")
    yield "png-no-header", good["png"][:8] + good["png"][33:]
    yield "png-end-only-in-text", good["png"][:60] + chunk(b"tEXt", b"IEND\xaeB`\x82")
    yield (
        "png-actl-of-a-billion",
        png(4, 4, rows=full_rows(4, 4, 24), more=chunk(b"acTL", struct.pack(">II", 1 << 30, 0))),
    )
    riff = good["webp"]
    for length in (0, 4, 0xFFFFFFFF, len(riff) - 9):
        yield f"webp-riff-of-{length:x}", changed(riff, 4, struct.pack("<I", length))
        yield f"webp-chunk-of-{length:x}", changed(riff, 16, struct.pack("<I", length))
    yield "gif-no-frame", good["gif"][:13] + b"\x3b"
    yield "gif-unknown-block", good["gif"][:-1] + b"\x77\x3b"
    yield "avif-larger-than-it-says", zlib.decompress(base64.b85decode("".join(LARGE_INSIDE.split())))
    at = good["avif"].find(b"iloc") + 4
    yield "avif-many-pieces", changed(good["avif"], at + 4, b"\0\0\xff\xff" + b"\xff" * 20)
    for size in (0, 5, 13, 0xFFFFFFFF):
        yield f"avif-box-of-{size}", changed(good["avif"], 0, struct.pack(">I", size))
    tiff = good["tiff"]
    for value in (0, 1, 0xFFFFFFFF, len(tiff) - 1):
        yield f"tiff-ifd-at-{value:x}", changed(tiff, 4, struct.pack("<I", value))
    for tag in (257, 258, 259, 262, 273, 277, 278, 279):
        (start,) = struct.unpack_from("<I", tiff, 4)
        for at in range(start + 2, len(tiff) - 12, 12):
            if struct.unpack_from("<H", tiff, at)[0] == tag:
                yield f"tiff-{tag}-many", changed(tiff, at + 4, b"\xff\xff\xff\x7f")
                yield f"tiff-{tag}-large", changed(tiff, at + 8, b"\xff\xff\xff\x7f")
                break
    yield "jpeg-1000-scans", many_scans(good["jpeg-progressive"], 1000)


def many_scans(progressive: bytes, number: int) -> bytes:
    at = progressive.rfind(b"\xff\xda")
    return progressive[:at] + progressive[at:-2] * number + b"\xff\xd9"


def bombs() -> Iterator[tuple[str, bytes]]:
    """Small files that are large pictures: some within the limit of pixels, which costs what it costs."""
    for width, height, depth, colours, bits in (
        (9_000, 9_000, 8, 2, 24),
        (9_400, 9_400, 16, 6, 64),
        (9_400, 9_400, 1, 0, 1),
    ):
        yield f"png-bomb-{bits}-bits", png(width, height, depth, colours, rows=full_rows(width, height, bits))
    flat = Image.new("RGB", (9_000, 9_000), (9, 9, 9))
    large = saved(flat.resize((4_000, 4_000)), "JPEG", progressive=True)
    yield "jpeg-many-scans-of-a-large-picture", many_scans(large, 100)
    yield "jpeg-100000-scans", many_scans(sound()["jpeg-progressive"], 100_000)
    yield "png-many-chunks", png(4, 4, rows=full_rows(4, 4, 24), more=chunk(b"teSt", b"") * 140_000)
    yield "jpeg-bomb", saved(flat, "JPEG")
    yield "jpeg-bomb-progressive", saved(flat, "JPEG", progressive=True, subsampling=0)
    yield "gif-bomb", saved(flat.convert("P"), "GIF")
    yield "webp-bomb", saved(flat, "WEBP", lossless=True, method=0, quality=0)
    yield "tiff-bomb", saved(flat, "TIFF", compression="tiff_adobe_deflate")
    yield (
        "png-text-bomb",
        png(4, 4, rows=full_rows(4, 4, 24), more=chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(1 << 27), 9))),
    )
    yield (
        "png-icc-bomb",
        png(4, 4, rows=full_rows(4, 4, 24), more=chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(1 << 27), 9))),
    )


def strangers() -> Iterator[tuple[str, bytes]]:
    """What is no picture, or another than it seems."""
    yield "nothing", b""
    yield "svg", b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'
    yield "html", b"<!DOCTYPE html><html><body>404</body></html>"
    yield "text", b"the model could not paint this\n"
    yield "json", b'{"error": "quota"}'
    yield "zip", b"PK\x03\x04" + bytes(200)
    yield "heif", b"\0\0\0\x18ftypheic" + bytes(40)
    yield "pickle", b"\x80\x04\x8c\x08builtins\x8c\x05print\x93)R."
    yield "pgm", b"P5 4 4 255\n" + bytes(16)
    yield "jpeg2000", b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(60)
    yield "exr", b"v/1\x01" + bytes(60)
    yield "bigtiff", b"II+\0\x08\0\0\0" + bytes(60)
    yield "gif-in-png", saved(Image.fromarray(photograph(8)), "GIF") + png(4, 4)
    for name, head in (
        ("jpeg", b"\xff\xd8\xff"),
        ("png", b"\x89PNG\r\n\x1a\n"),
        ("gif", b"GIF89a"),
        ("webp", b"RIFF\x10\0\0\0WEBP"),
        ("bmp", b"BM"),
        ("tiff", b"II*\0"),
        ("avif", b"\0\0\0\x18ftypavif"),
    ):
        yield f"{name}-head-alone", head
        yield f"{name}-head-and-zeros", head + bytes(500)
        yield f"{name}-head-and-noise", head + random.Random(name).randbytes(500)


def damaged(trials: int, seed: int = 0, side: int = 24) -> Iterator[tuple[str, bytes]]:
    """Real pictures with bytes flipped, cut out, doubled or cut off."""
    rng = random.Random(seed)
    good = list(sound(side, seed).items())
    for trial in range(trials):
        name, data = good[trial % len(good)]
        at = rng.randrange(len(data))
        if rng.random() < 0.5:
            at = rng.randrange(min(len(data), 200))  # most of what matters stands in front
        ways = (
            lambda: data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],  # noqa: B023
            lambda: data[:at] + rng.randbytes(4) + data[at + 4 :],  # noqa: B023
            lambda: data[:at] + rng.choice((b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff")) + data[at + 4 :],  # noqa: B023
            lambda: data[:at],  # noqa: B023
            lambda: data[:at] + data[at + rng.randrange(1, 40) :],  # noqa: B023
            lambda: data[: at + 20] + data[at:],  # noqa: B023
        )
        yield f"{name}-damaged-{trial}", rng.choice(ways)()


def own_cases(folder: Path, outputs: Mapping[str, bytes], references: Mapping[str, bytes]) -> Path:
    """Cases with a reference and an output of a model each, whatever they are; the names of both are the ids."""
    (folder / "out").mkdir(parents=True)
    (folder / "in").mkdir()
    for name, data in outputs.items():
        (folder / "out" / f"{name}.png").write_bytes(data)
        (folder / "in" / f"{name}.png").write_bytes(references[name])
    rows = [{"id": n, "instruction": f"Paint {n}.", "references": [f"in/{n}.png"]} for n in outputs]
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "cases.jsonl"


def shown_to(server: JudgeServer) -> dict[str, list[bytes]]:
    """The pictures that the judge was shown, by the id that stands in the instruction."""
    shown = {}
    for request in server.requests:
        parts = request.body["messages"][0]["content"]
        text = " ".join(part.get("text", "") for part in parts)
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        shown[text.partition("Paint ")[2].split(".")[0]] = [base64.b64decode(url.partition(",")[2]) for url in urls]
    return shown


def peak() -> int:
    """The most memory that this process has had, in kB. Not by getrusage, which counts what it was forked from."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
