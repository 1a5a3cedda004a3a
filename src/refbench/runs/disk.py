"""The disk under a run: whole files or none, pictures stored once by their hash, and whether it is shared over a
network."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from refbench.machine import sweep, unfinished, with_handle
from refbench.pictures.facts import EXTENSIONS, regular_bytes
from refbench.record import RefBenchError

_HASH = re.compile(r"[0-9a-f]{64}")

# File systems on which SQLite's write-ahead log does not work (it needs shared memory between readers).
NETWORK_FILESYSTEMS = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "lustre",
        "gpfs",
        "beegfs",
        "ceph",
        "glusterfs",
        "fuse.glusterfs",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.gcsfuse",
        "fuse.rclone",
        "afs",
        "9p",
        "pvfs2",
        "orangefs",
        "ocfs2",
        "gfs2",
        "wekafs",
        "panfs",
        "davfs",
        "fuse.juicefs",
        "virtiofs",
    ]
)

_swept: set[Path] = set()


def _sweep_once(folder: Path) -> None:
    if folder not in _swept:
        sweep(folder)
        _swept.add(folder)


def open_part(folder: Path) -> tuple[int, Path]:
    """A new file under a name that readers pass over, open for writing. Not tempfile's: its files are for the owner
    alone, and colleagues read runs and datasets on shared disks. What was left there by who was killed goes first."""
    _sweep_once(folder)
    path = folder / unfinished(secrets.token_hex(8))
    return with_handle(lambda: os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)), path


def write_whole(path: Path, data: bytes, *, flush: bool = True, begun_in: Path | None = None) -> None:
    """Write a file so that it is either all there or not there, also after a kill or, with `flush`, a power cut. Until
    then it lies in its own folder or in `begun_in`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = open_part(begun_in or path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if flush:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes its name when all is written. What the disk refuses is told in one sentence."""
    part: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = open_part(path.parent)
        with os.fdopen(handle, "wb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def open_own(path: Path, mode: str) -> BinaryIO:
    """A file of a run, to be changed where it lies. No link is followed: whoever made the run would choose which of
    our files is written over."""
    must_not_link(path)
    return cast("BinaryIO", open(path, mode, opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o666)))


def must_not_link(path: Path) -> None:
    """Refuses a link in the place of a file that a run is about to change."""
    if path.is_symlink():
        raise RefBenchError(f"{path} is a link, and a run changes only files of its own: remove it")


def filesystem_of(path: Path) -> str:
    """The type of the file system that holds `path` ("ext4", "nfs4", ...), "unknown" where it is not told."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown"
    resolved = path.resolve()
    best, kind = -1, "unknown"
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        mount_point = Path(fields.split()[4].replace("\\040", " "))
        depth = len(mount_point.parts)
        if depth >= best and (resolved == mount_point or mount_point in resolved.parents):
            best, kind = depth, rest.split()[0]
    return kind


def disk_error(error: OSError, path: Path) -> RefBenchError:
    """The one sentence for a disk that is full, read-only or closed to us."""
    reasons = {
        errno.ENOSPC: f"the disk of {path} is full: free some space and run the same command again; "
        "what was recorded is safe",
        errno.EDQUOT: f"the disk quota for {path} is used up: free some space and run the same command again; "
        "what was recorded is safe",
        errno.EROFS: f"{path} is on a read-only file system: choose another --out",
        errno.EACCES: f"{path} may not be written: change its permissions or choose another --out",
        errno.EPERM: f"{path} may not be written: change its permissions or choose another --out",
        errno.ENOTDIR: f"{path} cannot be made, a part of it is a file: choose another --out",
        errno.EEXIST: f"{path} is a file, not a run directory: choose another --out",
    }
    return RefBenchError(reasons.get(error.errno or 0, f"{path} cannot be written: {error.strerror or error}"))


class Blobs:
    """A directory of immutable files. Any number of processes may put the same picture at once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str, picture_format: str) -> Path:
        """Where a picture lies. What is no hash is refused: a run from elsewhere must not name other files with it."""
        if not _HASH.fullmatch(sha256) or picture_format not in EXTENSIONS:
            raise RefBenchError(f"{self.root} can hold no picture {sha256!r} ({picture_format}): its record is damaged")
        return self.root / sha256[:2] / f"{sha256}{EXTENSIONS[picture_format]}"

    def put(self, data: bytes, picture_format: str) -> str:
        """Store the bytes and return their hash; half-written files cannot arise."""
        _sweep_once(self.root)
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256, picture_format)
        if not path.exists():
            try:
                write_whole(path, data, begun_in=self.root)
            except OSError as error:
                raise disk_error(error, self.root) from error
        return sha256

    def put_copy(self, data: bytes, sha256: str, picture_format: str) -> Path:
        """Store the bytes of a file, whose hash is known. Not flushed: the file itself is still where it was."""
        path = self.path(sha256, picture_format)
        if path.exists():
            return path
        try:
            write_whole(path, data, flush=False)
        except OSError as error:
            raise disk_error(error, self.root) from error
        return path

    def get(self, sha256: str, picture_format: str) -> bytes:
        """The bytes, checked: a blob whose content no longer has its name is an error, not a picture."""
        return self.checked(self.path(sha256, picture_format))

    def checked(self, path: Path) -> bytes:
        """The bytes of a file that is called by their hash."""
        try:
            data = regular_bytes(path)
        except OSError as error:
            raise RefBenchError(
                f"{path} cannot be read: {error.strerror}; restore it from a copy of the run"
            ) from error
        if hashlib.sha256(data).hexdigest() != path.stem:
            raise RefBenchError(f"{path} is damaged: its content has another hash; restore it from a copy of the run")
        return data
