"""Pictures: every odd file has the meaning that the package docstring gives it. Pillow is the oracle."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps

from refbench import Failure
from refbench.pictures import Pixels, decode, encode, facts_of, read_facts, resize, sniff
from refbench.pictures.layout import Layout, layout_of


def smooth(height: int = 40, width: int = 60) -> Pixels:
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // width, y * 255 // height, (x + y) * 255 // (width + height)], axis=2).astype(np.uint8)


def saved(picture: Image.Image, picture_format: str, **options: Any) -> bytes:
    data = io.BytesIO()
    picture.save(data, picture_format, **options)
    return data.getvalue()


def pixels_of(data: bytes, **options: Any) -> Pixels:
    found = decode(data, **options)
    assert not isinstance(found, Failure), found
    assert found.dtype == np.uint8
    assert found.ndim == 3
    assert found.shape[2] == 3
    assert found.flags.c_contiguous
    return found


def by_pillow(data: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


RGB = Image.fromarray(smooth())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("jpeg", saved(RGB, "JPEG", quality=90)),
        ("progressive", saved(RGB, "JPEG", progressive=True)),
        ("grey jpeg", saved(RGB.convert("L"), "JPEG")),
        ("png", saved(RGB, "PNG")),
        ("palette png", saved(RGB.convert("P"), "PNG")),
        ("grey png", saved(RGB.convert("L"), "PNG")),
        ("1 bit png", saved(RGB.convert("1"), "PNG")),
        ("webp", saved(RGB, "WEBP", lossless=True)),
        ("bmp", saved(RGB, "BMP")),
        ("tiff", saved(RGB, "TIFF")),
        ("gif", saved(RGB, "GIF")),
    ],
)
def test_plain_files_have_the_pixels_that_pillow_reads(name: str, data: bytes) -> None:
    assert np.array_equal(pixels_of(data), by_pillow(data)), name


def test_alpha_is_composited_over_white_or_dropped_on_demand() -> None:
    picture = RGB.copy()
    picture.putalpha(RGB.convert("L"))
    for data in (saved(picture, "PNG"), saved(picture, "WEBP", lossless=True, exact=True)):
        white = Image.new("RGBA", picture.size, "white")
        over_white = np.asarray(Image.alpha_composite(white, picture).convert("RGB")).astype(int)
        assert np.abs(pixels_of(data) - over_white).max() <= 1
        assert np.array_equal(pixels_of(data, alpha="drop"), by_pillow(data))


def test_a_transparent_pixel_is_white_whatever_colour_lies_under_it() -> None:
    picture = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    assert (pixels_of(saved(picture, "PNG")) == 255).all()


def test_palette_transparency_is_alpha() -> None:
    picture = Image.new("P", (4, 4), 1)
    picture.putpalette([10, 20, 30, 40, 50, 60])
    assert (pixels_of(saved(picture, "PNG", transparency=1)) == 255).all()
    assert (pixels_of(saved(picture, "PNG", transparency=0)) == [40, 50, 60]).all()


def test_sixteen_bits_keep_black_white_and_everything_between() -> None:
    levels = np.arange(256, dtype=np.uint16).repeat(3).reshape(16, 16, 3)
    for stored in (levels * 257, levels[:, :, 0] * 257):
        done, data = cv2.imencode(".png", stored)
        assert done
        assert np.array_equal(pixels_of(data.tobytes()), levels)


@pytest.mark.parametrize("picture_format", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_is_applied_unless_the_protocol_says_no(picture_format: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = saved(RGB, picture_format, exif=exif)
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    # Pillow and OpenCV may differ by rounding in lossy formats; a wrong turn differs by far more.
    assert pixels_of(data).shape == upright.shape
    assert np.abs(pixels_of(data).astype(int) - upright).mean() < 1
    as_stored = by_pillow(data) if picture_format != "TIFF" else np.asarray(RGB)
    assert pixels_of(data, exif=False).shape == as_stored.shape
    assert np.abs(pixels_of(data, exif=False).astype(int) - as_stored).mean() < 1


def test_cmyk_has_the_colours_that_pillow_gives_it() -> None:
    data = saved(RGB.convert("CMYK"), "JPEG", quality=95)
    assert np.abs(pixels_of(data).astype(int) - by_pillow(data)).mean() < 2


@pytest.mark.parametrize("picture_format", ["GIF", "WEBP", "PNG"])
def test_of_an_animation_the_first_frame_counts(picture_format: str) -> None:
    frames = [RGB.convert("P", palette=Image.Palette.ADAPTIVE), ImageOps.invert(RGB)]
    options = {"lossless": True} if picture_format == "WEBP" else {}
    data = saved(frames[0].convert("RGB"), picture_format, save_all=True, append_images=frames[1:], **options)
    assert np.abs(pixels_of(data).astype(int) - by_pillow(data)).mean() < 1
    facts = facts_of(data)
    assert not isinstance(facts, Failure)
    assert facts.animated


def test_a_colour_profile_is_ignored_and_reported() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    tagged = saved(RGB, "PNG", icc_profile=profile)
    facts = facts_of(tagged)
    assert not isinstance(facts, Failure)
    assert facts.icc
    assert np.array_equal(pixels_of(tagged), pixels_of(saved(RGB, "PNG")))


def test_float_samples_are_a_failure() -> None:
    data = saved(Image.fromarray(np.ones((4, 4), dtype=np.float32)), "TIFF")
    assert isinstance(decode(data), Failure)


@pytest.mark.parametrize("picture_format", ["JPEG", "PNG", "WEBP", "GIF", "BMP"])
def test_a_file_cut_off_anywhere_is_never_read_as_a_picture(picture_format: str) -> None:
    data = saved(
        Image.fromarray(np.random.default_rng(0).integers(0, 255, (30, 30, 3), dtype=np.uint8)), picture_format
    )
    for length in {0, 1, 2, 3, 10, *range(20, len(data) - 1, max(1, len(data) // 150))}:
        found = decode(data[:length])
        assert isinstance(found, Failure), f"{picture_format} cut at {length} of {len(data)}"
        assert found.kind == "unreadable_picture"


def test_a_jpeg_with_a_thumbnail_is_complete_only_with_its_own_end_marker() -> None:
    thumbnail = saved(RGB.resize((8, 8)), "JPEG")
    whole = saved(RGB, "JPEG", comment=thumbnail)
    assert isinstance(layout_of(whole, "jpeg"), Layout)
    assert not isinstance(layout_of(whole[:-40], "jpeg"), Layout)
    assert isinstance(layout_of(whole + b"trailing bytes of a camera", "jpeg"), Layout)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html>not found</html>", "not a picture"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "not a picture"),
        (b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00", "heif"),
        (b"\x89PNG\r\n\x1a\n" + b"\x00" * 60 + b"IEND\xaeB`\x82", "header"),
    ],
)
def test_what_is_no_picture_says_what_it_is(data: bytes, says: str) -> None:
    found = decode(data)
    assert isinstance(found, Failure)
    assert found.kind == "unreadable_picture"
    assert says in found.detail


def test_a_decompression_bomb_is_refused_before_it_is_decoded() -> None:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    found = decode(bomb)
    assert isinstance(found, Failure)
    assert "pixels" in found.detail
    small = saved(RGB, "PNG")
    assert isinstance(decode(small, max_pixels=100), Failure)


def test_the_extension_is_never_trusted(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(saved(RGB, "PNG"))
    facts = read_facts(path)
    assert not isinstance(facts, Failure)
    assert (facts.format, facts.width, facts.height) == ("png", 60, 40)
    assert isinstance(read_facts(tmp_path / "absent.png"), Failure)


def test_random_bytes_behind_a_signature_never_raise() -> None:
    rng = np.random.default_rng(0)
    for head in (
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        b"RIFF\x10\0\0\0WEBP",
        b"BM",
        b"II*\0",
        b"\0\0\0\x18ftypavif",
    ):
        for _ in range(40):
            data = head + rng.bytes(int(rng.integers(0, 400)))
            assert isinstance(decode(data), Failure)


@pytest.mark.parametrize(("picture_format", "tolerance"), [("png", 0), ("jpeg", 3), ("webp", 4)])
def test_what_is_encoded_is_decoded_again(picture_format: Any, tolerance: int) -> None:
    data = encode(smooth(), picture_format)
    assert sniff(data) == picture_format
    assert np.abs(pixels_of(data).astype(int) - smooth()).mean() <= tolerance


def test_encoding_refuses_what_are_no_pixels() -> None:
    with pytest.raises(ValueError, match="uint8"):
        encode(smooth().astype(np.float64))  # type: ignore[arg-type]


@pytest.mark.parametrize("filter_name", ["nearest", "bilinear", "bicubic", "lanczos", "box"])
def test_resizing_is_pillows(filter_name: Any) -> None:
    resample: Callable[..., Any] = RGB.resize
    expected = np.asarray(resample((33, 17), Image.Resampling[filter_name.upper()]))
    assert np.array_equal(resize(smooth(), (33, 17), filter_name), expected)
    assert resize(smooth(), (60, 40)).shape == (40, 60, 3)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "1", "CMYK", "LA", "I;16"])
@pytest.mark.parametrize("picture_format", ["JPEG", "PNG"])
def test_a_header_read_without_pillow_is_the_one_that_pillow_reads(mode: str, picture_format: str) -> None:
    if (picture_format, mode) in {("JPEG", "RGBA"), ("JPEG", "P"), ("JPEG", "LA"), ("JPEG", "I;16"), ("PNG", "CMYK")}:
        pytest.skip(f"{picture_format} has no {mode}")
    data = saved(RGB.convert(mode) if mode != "I;16" else Image.new("I;16", (60, 40), 9), picture_format)
    facts = facts_of(data)
    assert not isinstance(facts, Failure)
    opened = Image.open(io.BytesIO(data))
    assert (facts.width, facts.height, facts.mode) == (*opened.size, opened.mode)


def test_a_damaged_header_is_never_taken_for_another_size() -> None:
    rng = np.random.default_rng(3)
    for data in (saved(RGB, "JPEG"), saved(RGB, "PNG"), saved(RGB.convert("L"), "JPEG", progressive=True)):
        for _ in range(300):
            damaged = bytearray(data)
            for _ in range(int(rng.integers(1, 4))):
                damaged[int(rng.integers(2, min(len(data), 300)))] = int(rng.integers(0, 256))
            kind = sniff(bytes(damaged))
            header = layout_of(bytes(damaged), kind) if kind else ""
            if isinstance(header, Layout):
                try:
                    opened = Image.open(io.BytesIO(bytes(damaged)))
                except (OSError, SyntaxError, ValueError, struct.error, KeyError, IndexError):
                    continue  # Pillow is stricter about checksums and tables; decoding will say
                assert header[:2] == opened.size
