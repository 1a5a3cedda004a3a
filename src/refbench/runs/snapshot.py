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
from refbench.runs.ledger import TABLES, check_schema, ledger_error

# Names of the temporary schema come first: a ledger from before outputs could be replaced reads like one without any.
_AS_IN_SCHEMA_2 = """
CREATE TEMP VIEW purpose AS SELECT *, '' AS output FROM main.purpose;
CREATE TEMP TABLE retired (what TEXT, digest TEXT, recorded REAL);
CREATE TEMP TABLE picture (name TEXT, path TEXT, state TEXT, sha256 TEXT);
"""
_FILES = ("", "-journal", "-wal")
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
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and not db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
                # Its writer was killed before it had made the tables: nothing is recorded yet.
                db = stack.enter_context(contextlib.closing(sqlite3.connect(":memory:")))
                db.executescript(TABLES)
            else:
                check_schema(version, path)
                if version == 1:
                    db.executescript(_AS_IN_SCHEMA_2)
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
    """Copy the file with its log or journal until nothing changed meanwhile: what a crash at that moment would
    leave. SQLite recovers the copy as it would the original, undoing a transaction that was not finished."""
    for _ in range(_TRIES):
        before = _state(path)
        for end in _FILES:
            with contextlib.suppress(FileNotFoundError):
                copy.with_name(copy.name + end).unlink(missing_ok=True)
                shutil.copyfile(path.with_name(path.name + end), copy.with_name(copy.name + end))
        if _state(path) == before:
            return
        time.sleep(_PAUSE)
    raise RefBenchError(f"{path} is being written without a pause: read it again when its writer is done")


def _state(path: Path) -> tuple[object, ...]:
    """What every commit changes: the change counter in the header, and which files there are, of what size and age."""
    found: list[object] = [_header(path)[24:28]]
    for end in _FILES:
        try:
            stat = path.with_name(path.name + end).stat()
            found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        except FileNotFoundError:
            found.append(None)
    return tuple(found)


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100)
