"""Append-only files of one JSON record a line: on disk before anything is acknowledged, whole again after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from refbench.record import Record, RefBenchError
from refbench.runs.disk import disk_error, must_not_link, open_own, open_part

LineT = TypeVar("LineT", bound=Record)


class Log(Generic[LineT]):
    """The lines of a file, read once and then only as it grows; another process may append to it as well."""

    def __init__(self, path: Path, line: type[LineT], *, flush: bool = True) -> None:
        self.path, self._line, self._flush = path, line, flush
        self._read_to = 0
        self._held: _Held | None = None
        self._written = self._synced = 0
        self._syncing = threading.Lock()
        self.broken = 0
        """Lines that cannot be read: torn by a kill, or changed by hand."""
        self.anew = False
        """Whether the lines that `new` returned last are all of a file written anew: what was known before is void."""

    def new(self) -> list[LineT]:
        """The lines since the last call; the first time, all there are. An unfinished last line waits for its end."""
        try:
            found = _Held(self.path)
            self.anew = self._held is not None and (not found.same(self._held) or found.size() < self._read_to)
            if self.anew:  # somebody was forgotten
                self._read_to = self.broken = 0
            self._held = found
            data = found.read(self._read_to)
        except FileNotFoundError:
            self.anew = False
            return []
        except OSError as error:
            raise disk_error(error, self.path) from error
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return self._parsed(whole)

    def append(self, lines: Iterable[LineT]) -> None:
        """Write the lines in one go; they are on disk when this returns."""
        self.write(lines)
        self.sync()

    def sync(self) -> None:
        """Return when all that was written is on disk. Threads that wait for it share one flush."""
        wanted = self._written
        with self._syncing:
            if not self._flush or self._synced >= wanted:
                return
            reached = self._written
            try:
                with self.path.open("rb") as file:
                    os.fsync(file.fileno())
            except OSError as error:
                raise disk_error(error, self.path) from error
            self._synced = reached

    def write(self, lines: Iterable[LineT]) -> None:
        """Hand the lines to the system in one go; `sync` brings them to the disk. What is torn at the end is closed
        first, so that nothing is ever glued to it."""
        data = b"".join(line.model_dump_json().encode() + b"\n" for line in lines)
        try:
            with self._locked(), open_own(self.path, "ab+") as file:
                if size := file.seek(0, os.SEEK_END):
                    file.seek(size - 1)
                    if file.read(1) != b"\n":
                        data = b"\n" + data
                file.write(data)
        except OSError as error:
            raise disk_error(error, self.path) from error
        self._written += 1

    def rewrite(self, kept: Callable[[LineT], LineT | None]) -> None:
        """Write the file anew with what `kept` makes of each line: only for what must be forgotten. Lines that cannot
        be read stay. Until the new file is whole, the old one stands."""
        must_not_link(self.path)
        try:
            with self._locked():
                self._replace(b"".join(self._kept(line, kept) for line in _lines(_Held(self.path).read(0))))
        except OSError as error:
            raise disk_error(error, self.path) from error

    def _kept(self, line: bytes, kept: Callable[[LineT], LineT | None]) -> bytes:
        try:
            known = self._line.model_validate_json(line)
        except ValidationError:
            return line + b"\n"
        made = kept(known)
        if made is None:
            return b""
        return (line if made is known else made.model_dump_json().encode()) + b"\n"

    def _replace(self, data: bytes) -> None:
        handle, part = open_part(self.path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), stat.S_IMODE(self.path.stat().st_mode))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
        finally:
            part.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Only one process writes. The lock is a file of its own: the log itself may become another one meanwhile."""
        with open_own(self.path.with_name(f".{self.path.name}.lock"), "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _parsed(self, data: bytes) -> list[LineT]:
        found = []
        for line in _lines(data):
            try:
                found.append(self._line.model_validate_json(line))
            except ValidationError:
                self.broken += 1
        return found


class _Held:
    """A file that stays open, so that another one in its place is known: the system gives its number to no other."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would be waited for
        weakref.finalize(self, os.close, self._handle)
        if not stat.S_ISREG(os.fstat(self._handle).st_mode):
            raise RefBenchError(f"{path} cannot be read: it is no regular file: restore it from a copy of the study")

    def same(self, other: _Held) -> bool:
        return os.path.samestat(os.fstat(self._handle), os.fstat(other._handle))

    def size(self) -> int:
        return os.fstat(self._handle).st_size

    def read(self, start: int) -> bytes:
        with os.fdopen(os.dup(self._handle), "rb") as file:
            file.seek(start)
            return file.read()


def _lines(data: bytes) -> Iterator[bytes]:
    return filter(bytes.strip, data.split(b"\n"))
