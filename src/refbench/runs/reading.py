"""Reading ledgers, without ever making their writer wait: what stands of all that is on record.

A write-ahead log lets readers in beside the writer. A rollback journal does not: a reader's lock would hold
up the next commit. There the file is copied, and the copy used once it is known to be of one moment.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refbench.evidence import Evidence, Purpose
from refbench.output import Output, content_of
from refbench.record import RefBenchError
from refbench.runs.ledger import (
    TABLES,
    KnownPicture,
    Standing,
    check_schema,
    failure_rank,
    ledger_error,
    place_of,
    retirements,
    standing_acts,
)

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
    state: list[object] = [_header(path)[24:28]]
    for end in _FILES:
        try:
            stat = path.with_name(path.name + end).stat()
            state.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        except FileNotFoundError:
            state.append(None)
    return tuple(state)


def _header(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(100)


# What stands: of all rows for the same act, success beats failure, then the earliest wins; what was retired does not
# stand, nor does evidence about an output that was.

_PURPOSES = """
    SELECT case_id, model, judge, part, seed, repeat, protocol, output, evidence FROM purpose ORDER BY seq
"""
_OUTPUTS = "SELECT case_id, model, seed, step, failure, recorded, body FROM output ORDER BY seq"


@contextlib.contextmanager
def _opened(ledgers: Sequence[Path]) -> Iterator[list[sqlite3.Connection]]:
    """All ledgers at one moment each: a row may be linked to, or retired, in another ledger than its own."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(open_snapshot(path)) for path in ledgers]


def acts_on_record(ledgers: Sequence[Path]) -> dict[str, Standing]:
    """What stands for each act."""
    with _opened(ledgers) as dbs:
        return standing_acts(dbs)


def standing_evidence(ledgers: Sequence[Path]) -> Iterator[tuple[Purpose, Evidence, float]]:
    """Each purpose once with its standing evidence and the time of its recording, one row in memory at a time."""
    with _opened(ledgers) as dbs:
        best = standing_acts(dbs)
        for purpose, act in _links(dbs, stand=True):
            row = best.get(act)
            if row is None:  # its writer has linked it and not recorded it yet
                continue
            body = dbs[row.ledger].execute("SELECT body FROM evidence WHERE seq = ?", (row.seq,)).fetchone()
            yield purpose, Evidence.model_validate_json(body[0]), row.recorded


def left_out(ledgers: Sequence[Path]) -> int:
    """How many results are about an output that does not stand, and are left out for that."""
    with _opened(ledgers) as dbs:
        gone = [act for _, act in _links(dbs, stand=False)]
        best = standing_acts(dbs) if gone else {}
        return sum(act in best for act in gone)


def _links(dbs: Sequence[sqlite3.Connection], *, stand: bool) -> Iterator[tuple[Purpose, str]]:
    """Each purpose and act once: those about outputs that stand (or about none that is known), or the others."""
    contents = {(o.case, o.model, o.seed): o.content for o, _ in _outputs(dbs) if o.step is None}
    nothing = content_of(())
    given: set[tuple[Any, ...]] = set()
    for db in dbs:
        for row in db.execute(_PURPOSES):
            case, model, judge, part, seed, repeat, protocol, output, act = row
            if (not output or contents.get((case, model, seed), nothing) == output) != stand or row in given:
                continue
            given.add(row)
            yield (
                Purpose(
                    case=case,
                    model=model,
                    judge=judge,
                    part=part,
                    seed=seed,
                    repeat=repeat,
                    protocol=protocol,
                    output=output,
                ),
                act,
            )


def distinct_evidence(ledgers: Sequence[Path]) -> Iterator[Evidence]:
    """Every act on record, failed tries and retired ones included, each as often as it was paid for."""
    return map(Evidence.model_validate_json, _bodies(ledgers, "SELECT body FROM evidence"))


def retired_evidence(ledgers: Sequence[Path]) -> Iterator[tuple[Evidence, float]]:
    """Rows that were retired, with the time of their recording: paid for, and nothing more."""
    with _opened(ledgers) as dbs:
        retired = retirements(dbs)
        for db in dbs:
            for act, digest, recorded, body in db.execute("SELECT id, digest, recorded, body FROM evidence"):
                if retired.get((act, digest), recorded) > recorded:
                    yield Evidence.model_validate_json(body), recorded


def all_retirements(ledgers: Sequence[Path]) -> Iterator[tuple[str, str, float, str]]:
    """What was retired, which content of it, when and why."""
    with _opened(ledgers) as dbs:
        for db in dbs:
            yield from db.execute("SELECT what, digest, recorded, why FROM retired ORDER BY seq")


def every_output(ledgers: Sequence[Path]) -> Iterator[Output]:
    """Every output on record, as often as it was made."""
    return map(Output.model_validate_json, _bodies(ledgers, "SELECT body FROM output ORDER BY seq"))


def _bodies(ledgers: Sequence[Path], query: str) -> Iterator[str]:
    for path in ledgers:
        with open_snapshot(path) as db:
            for (body,) in db.execute(query):
                yield body


def standing_outputs(ledgers: Sequence[Path]) -> list[tuple[Output, float]]:
    """The output that stands for each (case, model, seed, step), and when it was recorded."""
    with _opened(ledgers) as dbs:
        return _outputs(dbs)


def _outputs(dbs: Sequence[sqlite3.Connection]) -> list[tuple[Output, float]]:
    retired = retirements(dbs)
    places = {what for what, _ in retired}
    best: dict[tuple[Any, ...], tuple[tuple[int, float], str]] = {}
    for db in dbs:
        for *place, failure, recorded, body in db.execute(_OUTPUTS):
            rank = (failure_rank(failure), recorded)
            if tuple(place) in best and best[tuple(place)][0] <= rank:
                continue
            if places:
                output = Output.model_validate_json(body)
                if output.step is None and retired.get((place_of(output), output.content), recorded) > recorded:
                    continue
            best[tuple(place)] = rank, body
    return [(Output.model_validate_json(body), rank[1]) for rank, body in best.values()]


def pictures_on_record(ledgers: Sequence[Path]) -> list[KnownPicture]:
    """What the pictures were when they were opened, earliest first."""
    pictures: list[KnownPicture] = []
    for path in ledgers:
        with open_snapshot(path) as db:
            pictures += map(
                KnownPicture._make, db.execute("SELECT name, path, state, sha256 FROM picture ORDER BY seq")
            )
    return pictures


def disagreements(ledgers: Sequence[Path]) -> int:
    """How many acts have more than one distinct success, none retired: the same request, answered differently."""
    results: dict[str, set[str]] = {}
    with _opened(ledgers) as dbs:
        retired = retirements(dbs)
        for db in dbs:
            for act, digest, recorded in db.execute("SELECT id, digest, recorded FROM evidence WHERE failure IS NULL"):
                if retired.get((act, digest), recorded) <= recorded:
                    results.setdefault(act, set()).add(digest)
    return sum(len(digests) > 1 for digests in results.values())
