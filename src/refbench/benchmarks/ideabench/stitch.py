"""The one picture that the released scripts make of a question's pictures, and the card that shows how many there are.

Sizes, gaps and order are those of the release. Pillow does all of it, as there: file by file, without EXIF rotation.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from refbench.failure import Failure

GAP = 20
CARD = 512
FONT = 256
_WHITE = (255, 255, 255)


def stitched(inputs: Sequence[Path], outputs: Sequence[Path]) -> bytes | Failure:
    """References in a row above the outputs in a row, as JPEG; the references as high as the first output."""
    try:
        results = [Image.open(path) for path in outputs]
        height = results[0].height
        references = [_as_high(Image.open(path), height) for path in inputs]
        rows = [_row(pictures) for pictures in (references, results) if pictures]
        return _jpeg(_column(rows))
    except Exception as error:  # noqa: BLE001 - hostile bytes make Pillow raise almost anything
        names = ", ".join(path.name for path in (*inputs, *outputs))
        return Failure(kind="unreadable_picture", detail=f"{names} could not be stitched ({error})")


def count_card(number: int) -> bytes:
    """The number in black in the middle of a white card.

    The released script loads its font by a path that depends on where it is started, and falls back to a tiny one
    without a word. Pillow's own scalable font is there on every machine, at the size that was meant.
    """
    card = Image.new("RGB", (CARD, CARD), _WHITE)
    draw = ImageDraw.Draw(card)
    draw.text((CARD / 2, CARD / 2), str(number), fill="black", font=ImageFont.load_default(FONT), anchor="mm")
    return _jpeg(card)


def _as_high(picture: Image.Image, height: int) -> Image.Image:
    return picture.resize((int(height * (picture.width / picture.height)), height), Image.Resampling.LANCZOS)


def _row(pictures: Sequence[Image.Image]) -> Image.Image:
    """Side by side, their tops in line."""
    width = sum(picture.width for picture in pictures) + GAP * (len(pictures) - 1)
    row = Image.new("RGB", (width, max(picture.height for picture in pictures)), _WHITE)
    left = 0
    for picture in pictures:
        row.paste(picture, (left, 0))
        left += picture.width + GAP
    return row


def _column(rows: Sequence[Image.Image]) -> Image.Image:
    """One below the other, their left edges in line."""
    if len(rows) == 1:
        return rows[0]
    height = sum(row.height for row in rows) + GAP * (len(rows) - 1)
    column = Image.new("RGB", (max(row.width for row in rows), height), _WHITE)
    top = 0
    for row in rows:
        column.paste(row, (0, top))
        top += row.height + GAP
    return column


def _jpeg(picture: Image.Image) -> bytes:
    data = io.BytesIO()
    picture.save(data, format="JPEG")
    return data.getvalue()
