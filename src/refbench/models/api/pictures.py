"""Pictures on their way to an image API and back: encoded as all of them accept it, and checked when they return."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import cv2
import numpy as np
import pybase64

from refbench.chat.pictures import MIME, PicturePolicy, SentPicture, prepare
from refbench.failure import Failure
from refbench.pictures import decode, encode, facts_of, resize
from refbench.record import clean_text

T = TypeVar("T")

_DATA_URL = re.compile(r"data:[\w.+/-]*(?:;[\w=.+-]+)*;base64,")
_SPACE = str.maketrans("", "", " \r\n\t")


def enclose(path: Path, policy: PicturePolicy, store: Callable[[bytes, str], Path]) -> SentPicture | Failure:
    """The picture as it will be sent: as for judges, but a GIF goes as PNG, since image models take none."""
    sent = prepare(path, policy, store)
    if isinstance(sent, Failure) or sent.mime != MIME["gif"]:
        return sent
    pixels = decode(sent.read())
    if isinstance(pixels, Failure):
        return Failure(kind="unreadable_picture", detail=f"{path.name}: {pixels.detail}")
    return _stored(encode(pixels), sent, "gif re-encoded as PNG", store)


def transparent_where_white(
    mask: SentPicture, first: SentPicture, store: Callable[[bytes, str], Path]
) -> SentPicture | Failure:
    """A mask as OpenAI wants it: as large as the first picture, transparent where it may be edited.

    Benchmarks have it white there. Sent as it is, it would have no transparent pixel, and nothing could be edited.
    """
    pixels = decode(mask.read())
    if isinstance(pixels, Failure):
        return pixels
    pixels = resize(pixels, (first.width, first.height), "nearest")
    alpha = np.where(pixels.mean(axis=2) > 127.5, 0, 255).astype(np.uint8)
    done, data = cv2.imencode(".png", np.dstack([np.zeros_like(pixels), alpha]))
    assert done, "OpenCV writes PNG"
    return _stored(data.tobytes(), mask, "white made transparent", store)


def _stored(png: bytes, sent: SentPicture, changed: str, store: Callable[[bytes, str], Path]) -> SentPicture:
    facts = facts_of(png)
    assert not isinstance(facts, Failure)
    path = store(png, "png")
    return SentPicture(facts.sha256, path, MIME["png"], facts.width, facts.height, len(png), sent.original, changed)


@dataclass(frozen=True)
class FormBody:
    """A multipart form in pieces: text, the bytes of a picture, text, ... Pictures are read as they are sent."""

    boundary: str
    texts: tuple[bytes, ...]
    pictures: tuple[SentPicture, ...]

    @classmethod
    def of(cls, fields: Sequence[tuple[str, str]], files: Sequence[tuple[str, SentPicture]]) -> FormBody:
        """Fields first, then files in the order given: the order of `image[]` is the order that a model sees."""
        boundary = f"refbench-{secrets.token_hex(16)}"  # random, so that no instruction and no picture has it
        text = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{clean_text(value)}\r\n'
            for name, value in fields
        )
        texts: list[bytes] = []
        for number, (name, picture) in enumerate(files, 1):
            filename = f"{number}.{picture.mime.removeprefix('image/')}"
            text += (
                f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n'
                f"Content-Type: {picture.mime}\r\n\r\n"
            )
            texts.append(text.encode())
            text = "\r\n"
        texts.append(f"{text}--{boundary}--\r\n".encode())
        return cls(boundary, tuple(texts), tuple(picture for _, picture in files))

    def __len__(self) -> int:
        return sum(map(len, self.texts)) + sum(picture.size for picture in self.pictures)

    def __iter__(self) -> Iterator[bytes]:
        yield self.texts[0]
        for picture, text in zip(self.pictures, self.texts[1:], strict=True):
            yield picture.read()
            yield text


def decoded(text: str) -> bytes | Failure:
    """The bytes of base64, with or without the head of a data URL; what is cut off or damaged is a Failure."""
    head = _DATA_URL.match(text)
    text = (text[head.end() :] if head else text).translate(_SPACE)
    try:
        return pybase64.b64decode(text, validate=True)
    except ValueError as error:
        detail = f"{len(text)} characters that are no whole base64 ({error}): {text[:40]!r}"
        return Failure(kind="unreadable_picture", detail=detail)


def asked_for(pictures: Sequence[T], wanted: int, extra: str) -> Sequence[T]:
    """Those of a reply's pictures that are taken."""
    return pictures[-wanted:] if extra == "last" else pictures[:wanted]


def checked(
    came: Sequence[bytes | Failure], wanted: int, extra: str, words: str = "", named: int = 0
) -> tuple[tuple[bytes, ...], Failure | None]:
    """The pictures that came, checked, and what is wrong with them or with their number, which is `named` where not all
    were fetched.

    Of a set with an unreadable picture only those before it are kept: the others would move up to a wrong place.
    """
    if extra != "fail":
        came, named = asked_for(came, wanted, extra), 0
    pictures: list[bytes] = []
    for number, data in enumerate(came, 1):
        wrong = data if isinstance(data, Failure) else facts_of(data)
        if isinstance(wrong, Failure):
            which = f"picture {number} of {len(came)}: " if len(came) > 1 else ""
            return tuple(pictures), Failure(kind=wrong.kind, detail=f"{which}{wrong.detail}")
        assert isinstance(data, bytes)
        pictures.append(data)
    named = max(named, len(pictures))
    if named == wanted:
        return tuple(pictures), None
    detail = f"{len(pictures)} of {wanted} pictures came"
    if named > wanted:
        detail = f"{named} pictures came, {wanted} asked for: extra=first or extra=last takes some of them"
    elif words:
        detail = f"{detail}; it said: {words[:300]}"
    return tuple(pictures), Failure(kind="missing_output", detail=detail)
