"""Opening a ledger to read it, without ever making its writer wait.

A write-ahead log lets readers in beside the writer. A rollback journal does not: a reader's lock would hold
up the next commit. There the file is copied, and the copy used once it is known to be of one moment.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from refbench.record import RefBenchError
from refbench.runs.ledger import check_schema, ledger_error

_TRIES = 200
_PAUSE = 0.02


@contextlib.contextmanager
def open_snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection to the ledger as it is at one moment, whoever is writing it."""
    try:
        header = _header(path)
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: {error.strerror}") from error
    with contextlib.ExitStack() as stack:
        try:
            db = _open_beside(path) if header[18:20] == b"\x02\x02" else None
            if db is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refbench-")))
                _copy_of_one_moment(path, folder / "ledger.sqlite")
                db = sqlite3.connect(folder / "ledger.sqlite")
            stack.enter_context(contextlib.closing(db))
            check_schema(db.execute("PRAGMA user_version").fetchone()[0], path)
            db.execute("BEGIN")
            yield db
        except sqlite3.DatabaseError as error:
            raise ledger_error(error, path) from error


def _open_beside(path: Path) -> sqlite3.Connection | None:
    """Open next to the writer; None where the directory may not be written and a log is waiting to be read."""
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=60)
    try:
        db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    except sqlite3.OperationalError:  # no shared-memory file, and none can be made: a read-only directory
        db.close()
        log = path.with_name(path.name + "-wal")
        if log.exists() and log.stat().st_size:
            return None
        db = sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)
    return db


def _copy_of_one_moment(path: Path, copy: Path) -> None:
    """Copy the file (and a log that belongs to it) until nothing changed while it was copied."""
    log = path.with_name(path.name + "-wal")
    journal = path.with_name(path.name + "-journal")
    for _ in range(_TRIES):
        before = _state(path, log)
        shutil.copyfile(path, copy)
        if log.exists():
            shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
        hot = journal.exists() and journal.stat().st_size > 0
        if not hot and _state(path, log) == before:
            return
        time.sleep(_PAUSE)
    raise RefBenchError(f"{path} is being written without a pause: read it again when its writer is done")


def _state(path: Path, log: Path) -> tuple[bytes, int, int, int]:
    """What every commit changes: the change counter in the header, time and sizes."""
    stat = path.stat()
    return _header(path)[24:28], stat.st_mtime_ns, stat.st_size, log.stat().st_size if log.exists() else -1


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100)
