"""Pictures as a judge gets them: the file as it is, unless it would display differently or be refused."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from refbench.failure import Failure
from refbench.pictures import (
    PictureFacts,
    decode,
    encode,
    facts_of,
    named,
    picture_bytes,
    regular_bytes,
    resize,
    verified,
)
from refbench.record import Record

# What all providers take. Animated files go as their first frame: judges differ in which frame they see.
_ACCEPTED = frozenset({"jpeg", "png", "webp", "gif"})
MIME = {"jpeg": "image/jpeg", "png": "image/png", "webp": "image/webp", "gif": "image/gif"}


_RESIZED = "resized to"


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
    name: str = ""
    """What the file was called that it comes from; "" where it still has that name."""
    file: Path | None = None
    """The file that it was made of, where its bytes are others."""

    @property
    def resized(self) -> bool:
        """Whether the user's policy has made it smaller; else a changed one has another format or rotation alone."""
        return self.changed.startswith(_RESIZED)

    def read(self) -> bytes:
        """The bytes to send: those just prepared, if they are still at hand, else the file's."""
        data = _recent.take(self.sha256)
        if data is None:
            data = regular_bytes(self.path)
            if hashlib.sha256(data).hexdigest() != self.sha256:
                raise OSError(f"{self.path.name} has changed since it was prepared")
        return data


class _Recent:
    """The bytes of pictures prepared a moment ago, a bounded number of them, so that no file is opened twice."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._data: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, sha256: str, data: bytes) -> None:
        with self._lock:
            if sha256 in self._data or len(data) > self._most:
                return
            self._data[sha256] = data
            self._held += len(data)
            while self._held > self._most:
                self._held -= len(self._data.popitem(last=False)[1])

    def take(self, sha256: str) -> bytes | None:
        with self._lock:
            return self._data.get(sha256)


_recent = _Recent(96 << 20)


def store_in(folder: Path) -> Callable[[bytes, str], Path]:
    """How `prepare` keeps re-encoded pictures: as numbered files of a folder."""

    def store(data: bytes, extension: str) -> Path:
        path = folder / f"sent-{len(list(folder.iterdir()))}.{extension}"
        path.write_bytes(data)
        return path

    return store


def prepare(
    path: Path, policy: PicturePolicy, store: Callable[[bytes, str], Path], data: bytes | None = None
) -> SentPicture | Failure:
    """The picture as it will be sent; re-encoded ones are stored once by `store`. `data` are the file's bytes, where
    they have been read already."""
    read = picture_bytes(path) if data is None else data
    if isinstance(read, Failure):
        return read
    facts = facts_of(read)
    reason = "" if isinstance(facts, Failure) else _reason(facts, policy)
    if not reason:
        facts = verified(read, facts)
        if isinstance(facts, Failure):
            return named(path, facts)
        _recent.put(facts.sha256, read)
        return SentPicture(facts.sha256, path, MIME[facts.format], facts.width, facts.height, len(read), facts)
    assert not isinstance(facts, Failure)
    pixels = decode(read, facts=facts)
    if isinstance(pixels, Failure):
        return named(path, pixels)
    height, width = pixels.shape[:2]
    if policy.max_side and max(width, height) > policy.max_side:
        scale = policy.max_side / max(width, height)
        pixels = resize(pixels, (max(1, round(width * scale)), max(1, round(height * scale))), "lanczos")
    target: Literal["png", "jpeg"] = "jpeg" if policy.max_side else "png"
    encoded = encode(pixels, target, quality=policy.quality)
    made = facts_of(encoded)
    assert not isinstance(made, Failure)
    size = made.width, made.height, len(encoded)
    return SentPicture(made.sha256, store(encoded, target), MIME[target], *size, facts, reason, file=path)


def made_picture(
    data: bytes, told: str, store: Callable[[bytes, str], Path], original: PictureFacts | None = None
) -> SentPicture | Failure:
    """A picture that a benchmark has made to be sent, kept by `store`; of a picture of the case, `original` is its."""
    facts = facts_of(data)
    if isinstance(facts, Failure):
        return facts
    mime = MIME.get(facts.format, f"image/{facts.format}")
    size = facts.width, facts.height, len(data)
    return SentPicture(facts.sha256, store(data, facts.format), mime, *size, original or facts, told)


def _reason(facts: PictureFacts, policy: PicturePolicy) -> str:
    if policy.max_side and max(facts.width, facts.height) > policy.max_side:
        return f"{_RESIZED} {policy.max_side} px, JPEG {policy.quality}"
    if facts.format not in _ACCEPTED:
        return f"{facts.format} re-encoded as PNG"
    if facts.orientation != 1:
        return "turned upright"
    if facts.animated:
        return "first frame"
    if facts.mode == "CMYK":
        return "CMYK re-encoded as RGB"
    return ""
