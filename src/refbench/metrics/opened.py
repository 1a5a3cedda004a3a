"""Opened: pictures read and decoded once, however many metrics look at them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.pictures import PictureFacts, Pixels, decode, facts_of

Array: TypeAlias = NDArray[np.uint8]


def decodes_alike(facts: PictureFacts) -> bool:
    """Whether both protocols see the same pixels: `paper` ignores EXIF turns and drops alpha, `corrected` does not."""
    return facts.orientation == 1 and facts.mode in ("RGB", "L", "1", "CMYK", "I;16")


class Opened:
    """The pictures of one piece of work. `paper` sees stored orientation and no alpha; greyscale is OpenCV's."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[bytes, PictureFacts] | Failure] = {}
        self._given: dict[Path, str] = {}
        self._decoded: dict[tuple[Path, str, str], Array | Failure] = {}

    def add(self, name: str, pixels: Array) -> Path:
        """A picture that is in memory already, under a name that serves as its path."""
        path = Path(name)
        rgb = np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels
        grey = pixels if pixels.ndim == 2 else cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
        self._given[path] = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()
        for protocol in ("paper", "corrected"):
            self._decoded[path, protocol, "pixels"] = np.ascontiguousarray(rgb)
            self._decoded[path, protocol, "grey"] = np.asarray(grey)
        return path

    def sha256(self, path: Path) -> str | Failure:
        """The hash of the file's bytes."""
        if path in self._given:
            return self._given[path]
        read = self._file(path)
        return read if isinstance(read, Failure) else read[1].sha256

    def alike(self, path: Path) -> bool:
        """Whether both protocols see the same pixels of this picture."""
        if path in self._given:
            return True
        read = self._file(path)
        return isinstance(read, Failure) or decodes_alike(read[1])

    def pixels(self, path: Path, protocol: str) -> Pixels | Failure:
        """The picture in RGB."""
        return self._get(path, protocol, "pixels")

    def grey(self, path: Path, protocol: str) -> Array | Failure:
        """The picture as one channel."""
        return self._get(path, protocol, "grey")

    def _get(self, path: Path, protocol: str, kind: str) -> Array | Failure:
        way = "paper" if protocol == "paper" or self.alike(path) else "corrected"
        place = path, way, kind
        if place not in self._decoded:
            read = self._file(path)
            if isinstance(read, Failure):
                return read
            decoded = self._decode(*read, way) if kind == "pixels" else self._decode_grey(*read, way)
            if isinstance(decoded, Failure):
                decoded = Failure(kind=decoded.kind, detail=f"{path.name}: {decoded.detail}")
            self._decoded[place] = decoded
        return self._decoded[place]

    def _decode(self, data: bytes, facts: PictureFacts, way: str) -> Array | Failure:
        return decode(data, exif=way == "corrected", alpha="white" if way == "corrected" else "drop", facts=facts)

    def _decode_grey(self, data: bytes, facts: PictureFacts, way: str) -> Array | Failure:
        if way == "corrected":
            rgb = self._decode(data, facts, way)
            return rgb if isinstance(rgb, Failure) else np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY))
        flags = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
        grey = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if grey is None:
            return Failure(kind="unreadable_picture", detail="the data is damaged")
        return np.asarray(grey, dtype=np.uint8)

    def _file(self, path: Path) -> tuple[bytes, PictureFacts] | Failure:
        if path not in self._read:
            self._read[path] = _read(path)
        return self._read[path]


def _read(path: Path) -> tuple[bytes, PictureFacts] | Failure:
    try:
        data = path.read_bytes()
    except OSError as error:
        return Failure(kind="unreadable_picture", detail=f"{path.name}: {error.strerror}")
    facts = facts_of(data)
    if isinstance(facts, Failure):
        return Failure(kind=facts.kind, detail=f"{path.name}: {facts.detail}")
    return data, facts
