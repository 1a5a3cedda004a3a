"""Blobs: pictures stored once each, named by the hash of their bytes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from refbench.pictures.sniff import EXTENSIONS
from refbench.record import RefBenchError
from refbench.runs.disk import disk_error, open_part, write_whole


class Blobs:
    """A directory of immutable files. Any number of processes may put the same picture at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str, picture_format: str) -> Path:
        return self.root / sha256[:2] / f"{sha256}{EXTENSIONS[picture_format]}"

    def put(self, data: bytes, picture_format: str) -> str:
        """Store the bytes and return their hash; half-written files cannot arise."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256, picture_format)
        if not path.exists():
            try:
                write_whole(path, data)
            except OSError as error:
                raise disk_error(error, self.root) from error
        return sha256

    def put_copy(self, data: bytes, sha256: str, picture_format: str) -> Path:
        """Store the bytes of a file, whose hash is known. Not flushed: the file itself is still where it was."""
        path = self.path(sha256, picture_format)
        if path.exists():
            return path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, part = open_part(path.parent)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(error, self.root) from error
        return path

    def get(self, sha256: str, picture_format: str) -> bytes:
        """The bytes, checked: a blob whose content no longer has its name is an error, not a picture."""
        path = self.path(sha256, picture_format)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise RefBenchError(
                f"{path} cannot be read: {error.strerror}; restore it from a copy of the run"
            ) from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise RefBenchError(f"{path} is damaged: its content has another hash; restore it from a copy of the run")
        return data
