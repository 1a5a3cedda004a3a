"""What was derived from a run, kept beside its ledgers in RUN/derived: an unchanged run is not read a second time.

It is found by a hash over every byte that it was derived from (the run's files, RefBench's own code and data, what was
asked), so that it cannot be stale: whatever has changed has another hash, and is derived anew. It is believed only from
this user, whose secret signs it: a run from elsewhere, or one that somebody edited, brings no numbers of its own.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import refbench
from refbench.machine import user_folder
from refbench.record import canonical_json
from refbench.runs.disk import write_whole

FOLDER = "derived"
_MOST = 16
"""Files that are kept of one state of a run, the newest; those of other states go with the next that is written."""
_SHAPING = frozenset({".py", ".toml", ".csv", ".txt", ".md", ".json", ".jsonl"})
"""Files of RefBench that a number may come from; the others are pictures, styles and scripts of pages."""
_LIBRARIES = ("numpy", "scipy", "pydantic", "orjson")
_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{64}")
_SIGNATURE = hashlib.sha256().digest_size
Made = TypeVar("Made")


class Derived:
    """What was derived from a run as it is when this is made."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._secret = _secret()
        self.state = _state_of(run) if self._secret and code_version() else ""
        """One hash over the bytes of all files that scores come from; "" where nothing can be kept."""

    def read(self, *what: Any) -> bytes | None:
        """What was kept under this question; None where nothing was, or not by this user, or not of this state."""
        name = self._name(what)
        try:
            data = (self._run / FOLDER / name).read_bytes() if name else b""
        except OSError:
            return None
        signature, kept = data[:_SIGNATURE], data[_SIGNATURE:]
        return kept if name and hmac.compare_digest(signature, self._signed(name.encode() + kept)) else None

    def write(self, kept: bytes, *what: Any) -> None:
        """Keep it if the run still is as it was. Where that cannot be written (a full or read-only disk), it is derived
        again the next time."""
        name = self._name(what)
        folder = self._run / FOLDER
        if not name or folder.is_symlink() or not os.access(self._run, os.W_OK):
            return
        if _state_of(self._run) != self.state:  # it was written to meanwhile: nobody knows what was read
            return
        with contextlib.suppress(OSError):
            write_whole(folder / name, self._signed(name.encode() + kept) + kept, flush=False)
            self._clear(folder)

    def remembered(
        self,
        make: Callable[[], Made],
        pack: Callable[[Made], bytes | None],
        unpack: Callable[[bytes], Made],
        *what: Any,
    ) -> Made:
        """What was kept under this question, else what is made now. `pack` gives None for what would not come back
        exactly as it is; that is made each time."""
        kept = self.read(*what)
        if kept is not None:
            return unpack(kept)
        made = make()
        data = None
        with contextlib.suppress(TypeError, ValueError):  # JSON has no lone surrogates, endless or very long numbers
            data = pack(made)
        if data is not None:
            self.write(data, *what)
        return made

    def _name(self, what: tuple[Any, ...]) -> str:
        """Under what it is kept: nobody else can tell, so that what is there under it was put there by this user."""
        if not self.state:
            return ""
        question = canonical_json([code_version(), self.state, what])
        return f"{self.state[:16]}-{self._signed(question).hex()}"

    def _signed(self, data: bytes) -> bytes:
        return hmac.digest(self._secret, data, "sha256")

    def _clear(self, folder: Path) -> None:
        """Remove what is of other states, and the oldest of this one."""
        with os.scandir(folder) as entries:
            there = sorted((e.stat().st_mtime_ns, e.name) for e in entries if _NAME.fullmatch(e.name))
        mine = [name for _, name in there if name.startswith(self.state[:16])]
        for name in {name for _, name in there} - set(mine[-_MOST:]):
            (folder / name).unlink(missing_ok=True)


def _state_of(run: Path) -> str:
    """One hash over the bytes of all files that scores come from; "" while a ledger has a log or a journal, since then
    the file alone is not what it holds."""
    ledgers = [run / "ledger.sqlite", *run.glob("shards/*.sqlite")]
    try:
        if any(_size(file.with_name(file.name + end)) for file in ledgers for end in ("-wal", "-journal")):
            return ""
        files = [run / "run.json", run / "cases.jsonl", *run.glob("benchmark/*"), *filter(Path.exists, ledgers)]
        hashes = {str(file.relative_to(run)): _hash_of(str(file)) for file in files}
        return hashlib.sha256(canonical_json(hashes)).hexdigest()
    except (OSError, TypeError):  # what is no plain file, or has a name that is no text, is named by those who read it
        return ""


def _hash_of(file: str) -> str:
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would be waited for without end
    with os.fdopen(handle, "rb") as opened:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file")
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


@lru_cache(maxsize=1)
def code_version() -> str:
    """One hash over RefBench's code and data as they lie on the disk, and the libraries that numbers are computed with;
    "" where they cannot be read. A version number would not change with every edit."""
    root = Path(refbench.__file__).parent
    found: dict[str, str] = dict.fromkeys(_LIBRARIES, "")
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    try:
        for folder, _, names in os.walk(root):
            for name in names:
                if os.path.splitext(name)[1] in _SHAPING:  # noqa: PTH122 - a thousand names, in every command
                    found[f"{folder[len(str(root)) :]}/{name}"] = _hash_of(f"{folder}/{name}")
    except OSError:
        return ""
    here = f"/{Path(__file__).relative_to(root).as_posix()}"
    return hashlib.sha256(canonical_json([sys.version, found])).hexdigest() if here in found else ""


def _secret() -> bytes:
    """This user's own, made when it is first needed; b"" where none can be kept."""
    file = user_folder() / "derived.secret"
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            new = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
            with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as opened:
                opened.write(secrets.token_bytes(32))
            with contextlib.suppress(FileExistsError):  # another process was first: both take the one that is there
                os.link(new, file)
            new.unlink()
        data = file.read_bytes()
    except OSError:
        return b""
    return data if len(data) == 32 else b""
