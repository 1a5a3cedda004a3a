"""Pictures as a judge gets them: the file as it is, unless it would display differently or be refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from refbench.failure import Failure
from refbench.pictures import PictureFacts, decode, encode, facts_of, resize
from refbench.record import Record

# What all providers take. Animated files go as their first frame: judges differ in which frame they see.
_ACCEPTED = frozenset({"jpeg", "png", "webp", "gif"})
MIME = {"jpeg": "image/jpeg", "png": "image/png", "webp": "image/webp", "gif": "image/gif"}


class PicturePolicy(Record):
    """What is done to pictures before they are sent; recorded, because it changes what the judge sees."""

    max_side: int | None = None
    quality: int = 90

    @classmethod
    def parse(cls, max_side: str | None, quality: str | None) -> PicturePolicy:
        return cls(max_side=int(max_side) if max_side else None, quality=int(quality) if quality else 90)


@dataclass(frozen=True)
class SentPicture:
    """A picture ready to be sent: where its bytes are, by their hash, and what was done to them."""

    sha256: str
    path: Path
    mime: str
    width: int
    height: int
    size: int
    original: PictureFacts
    changed: str = ""
    """Empty when the file goes as it is."""


def prepare(path: Path, policy: PicturePolicy, store: Callable[[bytes, str], Path]) -> SentPicture | Failure:
    """The picture as it will be sent; re-encoded ones are stored once by `store`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        return Failure(kind="unreadable_picture", detail=f"{path.name}: {error.strerror}")
    facts = facts_of(data)
    if isinstance(facts, Failure):
        return Failure(kind="unreadable_picture", detail=f"{path.name}: {facts.detail}")
    reason = _reason(facts, policy)
    if not reason:
        return SentPicture(facts.sha256, path, MIME[facts.format], facts.width, facts.height, len(data), facts)
    pixels = decode(data)
    if isinstance(pixels, Failure):
        return Failure(kind="unreadable_picture", detail=f"{path.name}: {pixels.detail}")
    height, width = pixels.shape[:2]
    if policy.max_side and max(width, height) > policy.max_side:
        scale = policy.max_side / max(width, height)
        pixels = resize(pixels, (max(1, round(width * scale)), max(1, round(height * scale))), "lanczos")
    target: Literal["png", "jpeg"] = "jpeg" if policy.max_side else "png"
    encoded = encode(pixels, target, quality=policy.quality)
    made = facts_of(encoded)
    assert not isinstance(made, Failure)
    return SentPicture(
        made.sha256, store(encoded, target), MIME[target], made.width, made.height, len(encoded), facts, reason
    )


def _reason(facts: PictureFacts, policy: PicturePolicy) -> str:
    if policy.max_side and max(facts.width, facts.height) > policy.max_side:
        return f"resized to {policy.max_side} px, JPEG {policy.quality}"
    if facts.format not in _ACCEPTED:
        return f"{facts.format} re-encoded as PNG"
    if facts.orientation != 1:
        return "turned upright"
    if facts.animated:
        return "first frame"
    if facts.mode == "CMYK":
        return "CMYK re-encoded as RGB"
    return ""
