"""The ledger: one SQLite file, one writer at a time, rows only ever appended.

Writing and reading are apart: this module writes, `snapshot` opens for reading without any lock that a
writer could notice. Why SQLite, and which journal where: docs/decisions/0002-ledger.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import queue
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, NamedTuple, Self

from refbench.evidence import Evidence, Purpose
from refbench.failure import TRANSIENT
from refbench.output import Output
from refbench.record import RefBenchError, canonical_json
from refbench.runs.disk import NETWORK_FILESYSTEMS, disk_error, filesystem_of

SCHEMA = 2
"""Version of the ledger's tables and of run.json, bumped whenever a reader of the old one would be wrong."""
OLDEST = 1
"""The first version that is still read. What has it is not written any more."""

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE evidence (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, failure TEXT, digest TEXT NOT NULL,
    recorded REAL NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE INDEX evidence_by_id ON evidence (id);
CREATE TABLE purpose (
    seq INTEGER PRIMARY KEY, case_id TEXT NOT NULL, model TEXT NOT NULL, judge TEXT NOT NULL,
    part TEXT NOT NULL, seed INTEGER NOT NULL, repeat INTEGER NOT NULL, protocol TEXT NOT NULL,
    output TEXT NOT NULL, evidence TEXT NOT NULL,
    UNIQUE (case_id, model, judge, part, seed, repeat, protocol, output, evidence)
) STRICT;
CREATE TABLE output (
    seq INTEGER PRIMARY KEY, case_id TEXT NOT NULL, model TEXT NOT NULL, seed INTEGER NOT NULL,
    step INTEGER, failure TEXT, digest TEXT NOT NULL, recorded REAL NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE INDEX output_by_case ON output (case_id, model);
CREATE TABLE retired (
    seq INTEGER PRIMARY KEY, what TEXT NOT NULL, digest TEXT NOT NULL, recorded REAL NOT NULL, why TEXT NOT NULL
) STRICT;
CREATE TABLE picture (
    seq INTEGER PRIMARY KEY, name TEXT NOT NULL, path TEXT NOT NULL, state TEXT NOT NULL, sha256 TEXT NOT NULL,
    UNIQUE (name, path, state, sha256)
) STRICT;
"""

_ROWS = "SELECT id, digest, failure, recorded, seq FROM evidence"
_INSERT_EVIDENCE = "INSERT INTO evidence (id, failure, digest, recorded, body) VALUES (?,?,?,?,?)"
_KEEP_EVIDENCE = (
    "INSERT INTO evidence (id, failure, digest, recorded, body) SELECT ?,?,?,?,? "
    "WHERE NOT EXISTS (SELECT 1 FROM evidence WHERE id = ? AND digest = ? AND recorded = ?)"
)
_INSERT_PURPOSE = (
    "INSERT OR IGNORE INTO purpose (case_id, model, judge, part, seed, repeat, protocol, output, evidence) "
    "VALUES (?,?,?,?,?,?,?,?,?)"
)
_INSERT_RETIRED = "INSERT INTO retired (what, digest, recorded, why) VALUES (?,?,?,?)"
_INSERT_PICTURE = "INSERT OR IGNORE INTO picture (name, path, state, sha256) VALUES (?,?,?,?)"
_INSERT_OUTPUT = (
    "INSERT INTO output (case_id, model, seed, step, failure, digest, recorded, body) VALUES (?,?,?,?,?,?,?,?)"
)

SEEDS = "seeds of "
"""What the note begins with that says with how many seeds a model is to paint."""

Verdict = Literal["new", "known", "conflict"]


class KnownPicture(NamedTuple):
    """What a picture was when a run opened it: `name` in the dataset ("" for an output), the file, its state (see
    `file_state`), and the hash of its bytes."""

    name: str
    path: str
    state: str
    sha256: str


def file_state(path: Path) -> str:
    """What changes whenever a file is written or replaced: a cheap first look before its bytes are hashed."""
    stat = path.stat()
    return f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}"


class Standing(NamedTuple):
    """The row of an act that stands: what it said, how it failed (None: it did not), when, and where it is."""

    digest: str
    failure: str | None
    recorded: float
    ledger: int
    seq: int

    @property
    def rank(self) -> tuple[int, float, int, int]:
        """The least stands: a success before a failure, a final failure before one that is tried again, then the
        earliest."""
        return failure_rank(self.failure), self.recorded, self.ledger, self.seq


def failure_rank(kind: str | None) -> int:
    return 0 if kind is None else 2 if kind in TRANSIENT else 1


def retirements(ledgers: Sequence[sqlite3.Connection]) -> dict[tuple[str, str], float]:
    """What was retired (an act, or the place of an output) with which content, and when for the last time: rows
    recorded before do not stand any more."""
    retired: dict[tuple[str, str], float] = {}
    for db in ledgers:
        for what, digest, recorded in db.execute("SELECT what, digest, recorded FROM retired"):
            retired[what, digest] = max(recorded, retired.get((what, digest), recorded))
    return retired


def standing_acts(ledgers: Sequence[sqlite3.Connection]) -> dict[str, Standing]:
    """The row that stands for each act, over all ledgers of a run."""
    retired = retirements(ledgers)
    best: dict[str, Standing] = {}
    for number, db in enumerate(ledgers):
        for act, digest, failure, recorded, seq in db.execute(_ROWS):
            row = Standing(digest, failure, recorded, number, seq)
            if retired.get((act, digest), recorded) > recorded:
                continue
            if act not in best or row.rank < best[act].rank:
                best[act] = row
    return best


def place_of(output: Output) -> str:
    """Where an output belongs, as it is retired."""
    return canonical_json([output.case, output.model, output.seed]).decode()


class LedgerWriter:
    """Appends to one ledger. Nothing counts before `commit` has returned; a kill loses only what came after.

    An act that already has a result is not recorded again: the earliest success stays. A success beats an
    earlier failure. A different result for the same act is counted in `conflicts` and left out. What is to give way
    all the same (a picture that was replaced, a reply that was asked for again) is retired by a record of its own.
    """

    def __init__(self, path: Path, *, journal: Literal["wal", "rollback"] | None = None) -> None:
        self.path = path
        self.conflicts = 0
        # Rows wait here until `commit`: a transaction left open would keep readers of a rollback journal out.
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path)
        except OSError as error:
            raise disk_error(error, path.parent) from error
        self._db: sqlite3.Connection | None = None
        try:
            with _disk_errors(path):
                self._db = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
                self.journal = _set_journal(self._db, path, journal)
                _prepare(self._db, path, self.journal)
                self._results = standing_acts([self._db])
        except BaseException:
            self._release()
            raise

    def learn(self, results: dict[str, Standing]) -> None:
        """Know what stands over all ledgers of the run, so that nothing is paid for twice under another sharding."""
        self._results = results

    def succeeded(self, act: str) -> bool:
        """Whether this act has a result that need not be paid for again."""
        known = self._results.get(act)
        return known is not None and known.failure is None

    def failed(self, act: str) -> str | None:
        """The kind of failure that stands for this act, None where it succeeded or was never tried."""
        known = self._results.get(act)
        return known.failure if known is not None else None

    def says(self, evidence: Evidence) -> bool:
        """Whether this very result stands."""
        known = self._results.get(evidence.id)
        return known is not None and known.digest == _digest(evidence)

    def add(self, evidence: Evidence, purpose: Purpose, *, recorded: float | None = None, instead: str = "") -> Verdict:
        """Record an act and what it was for; says whether it is new, known, or contradicts what is there.

        `recorded` is the time at which another ledger first had it, when merging. `instead` is an act that was asked
        for once more on purpose: what is said now retires what it said before, unless it is a failure that will pass.
        """
        act, digest = evidence.id, _digest(evidence)
        kind = evidence.failure.kind if evidence.failure is not None else None
        before = self._results.get(act)
        now = recorded or time.time()
        verdict: Verdict = "new"
        if before is not None and before.digest == digest:
            verdict = "known"
        elif before is not None and before.failure is None:
            verdict = "known" if kind else "conflict"
        old = self._results.get(instead)
        if old is not None:
            verdict, now = "new", max(now, old.recorded + 1e-6)  # two clocks may not agree
            if (act, digest) != (instead, old.digest) and kind not in TRANSIENT:
                self.retire(instead, old.digest, "asked again", now)
                del self._results[instead]
                before = self._results.get(act)
        if verdict == "new":
            self._waiting.append((_INSERT_EVIDENCE, (act, kind, digest, now, evidence.model_dump_json())))
            row = Standing(digest, kind, now, 0, 0)
            if before is None or row.rank < before.rank:
                self._results[act] = row
        elif verdict == "conflict":
            self.conflicts += 1
        self.link(act, purpose)
        return verdict

    def keep(self, evidence: Evidence, recorded: float) -> None:
        """Keep a row that does not stand any more, when merging: it was paid for."""
        row = (evidence.id, evidence.failure and evidence.failure.kind, _digest(evidence), recorded)
        self._waiting.append((_KEEP_EVIDENCE, (*row, evidence.model_dump_json(), row[0], *row[2:])))

    def retire(self, what: str, digest: str, why: str, recorded: float) -> None:
        """Say that rows about `what` with this content, recorded before, do not stand any more."""
        self._waiting.append((_INSERT_RETIRED, (what, digest, recorded, why)))

    def replace_output(self, before: Output, output: Output) -> None:
        """Retire what stands for a place, and with it the evidence about it, in favour of another output."""
        now = time.time()
        self.retire(place_of(before), before.content, "replaced", now)
        self.add_output(output, recorded=now)

    def link(self, act: str, purpose: Purpose) -> None:
        """Say that an act that is recorded already serves this purpose too."""
        p = purpose
        row = (p.case, p.model, p.judge, p.part, p.seed, p.repeat, p.protocol, p.output, act)
        self._waiting.append((_INSERT_PURPOSE, row))

    def know(self, picture: KnownPicture) -> None:
        """Keep what a picture was when it was opened, so that a later command can see whether it still is."""
        self._waiting.append((_INSERT_PICTURE, (picture.name, picture.path, picture.state, picture.sha256)))

    def note(self, name: str, value: str) -> None:
        """Keep a fact about the run that is no evidence, for example the family of a judge."""
        if self._db is not None:
            with _disk_errors(self.path):
                self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def note_data(self, data: Path, pictures: Path) -> None:
        """Keep where the data and its pictures lie, for pages: a fact of this machine, in no fingerprint."""
        self.note("data", str(data.absolute()))
        self.note("pictures", str(pictures.absolute()))

    def want(self, limit: int | None) -> None:
        """Note how many cases (of the fair order) this run is to have; it only ever grows, None is all."""
        if self._db is None:
            return
        with _disk_errors(self.path):
            before = self._db.execute("SELECT value FROM meta WHERE name = 'wanted'").fetchone()
            if before is None or (before[0] != "all" and (limit is None or limit > int(before[0]))):
                value = "all" if limit is None else str(limit)
                self._db.execute("INSERT OR REPLACE INTO meta VALUES ('wanted', ?)", (value,))

    def note_seeds(self, model: str, seeds: int) -> None:
        """Note with how many seeds a model is to paint each case; it only ever grows."""
        name = SEEDS + model
        if self._db is not None:
            with _disk_errors(self.path):
                before = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
            self.note(name, str(max(seeds, int(before[0]) if before else 1)))

    def add_output(self, output: Output, *, recorded: float | None = None) -> None:
        """Record what a model gave for a case; later rows for the same place are history, not a change."""
        kind = output.failure and output.failure.kind
        place = (output.case, output.model, output.seed, output.step)
        row = (*place, kind, output.key, recorded or time.time(), output.model_dump_json())
        self._waiting.append((_INSERT_OUTPUT, row))

    def commit(self) -> None:
        """Make everything so far durable, all of it or nothing."""
        if not self._waiting or self._db is None:
            return
        with _disk_errors(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for statement, row in self._waiting:
                    self._db.execute(statement, row)
                self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite itself has rolled back when the disk is full
                    self._db.execute("ROLLBACK")
                raise
        self._waiting.clear()

    def close(self) -> None:
        """Commit and let the next writer in."""
        try:
            self.commit()
        finally:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        # What was added before an error or an interrupt has been paid for: keep it if the disk still takes it.
        try:
            with contextlib.suppress(RefBenchError):
                self.commit()
        finally:
            self._release()

    def _release(self) -> None:
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
        self._lock.close()


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise ledger_error(error, path) from error


def ledger_error(error: sqlite3.Error, path: Path) -> RefBenchError:
    """What SQLite says, as a sentence with the remedy."""
    text = str(error)
    if "full" in text:
        return RefBenchError(
            f"the disk of {path} is full: free some space and run the same command again; what was recorded is safe"
        )
    if "locked" in text or "busy" in text:
        return RefBenchError(f"{path} is being written by another process: wait for it, or write a shard of your own")
    if "not a database" in text or "malformed" in text:
        return RefBenchError(f"{path} is damaged ({text}): restore it from a copy, or remove it and run again")
    if "readonly" in text or "unable to open" in text:
        return RefBenchError(f"{path} cannot be opened for writing: check its permissions or choose another --out")
    return RefBenchError(f"{path} cannot be written ({text}): free or repair the disk and run the same command again")


def _digest(evidence: Evidence) -> str:
    result = evidence.reply if evidence.failure is None else f"\0{evidence.failure}"
    return hashlib.sha256((result or "").encode()).hexdigest()


def _lock(path: Path) -> IO[str]:
    """Hold the ledger for this process; the lock ends with the process, however it ends."""
    lock = path.with_suffix(".lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (
            errno.ENOLCK,
            errno.EOPNOTSUPP,
        ):  # no locks on this file system: SQLite's own must do
            return lock
        lock.seek(0)
        holder = lock.read().strip() or "another process"
        lock.close()
        if not isinstance(error, BlockingIOError):
            raise
        raise RefBenchError(
            f"{path.parent} is being written by {holder}: wait for it to end, or give each process its own --shard i/n"
        ) from None
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}")
    lock.flush()
    return lock


def _set_journal(
    db: sqlite3.Connection, path: Path, wanted: Literal["wal", "rollback"] | None
) -> Literal["wal", "rollback"]:
    """Write-ahead log on local disks, rollback journal where that cannot work. `REFBENCH_JOURNAL` overrides."""
    choice = wanted or os.environ.get("REFBENCH_JOURNAL")
    if choice is None:
        choice = "rollback" if filesystem_of(path.parent) in NETWORK_FILESYSTEMS else "wal"
    if choice not in ("wal", "rollback"):
        raise RefBenchError(f"REFBENCH_JOURNAL is {choice!r}: set it to wal or rollback, or unset it")
    db.execute("PRAGMA synchronous = FULL")
    got = db.execute(f"PRAGMA journal_mode = {'WAL' if choice == 'wal' else 'DELETE'}").fetchone()[0]
    return "wal" if got == "wal" else "rollback"


def _prepare(db: sqlite3.Connection, path: Path, journal: str) -> None:
    """Make the tables in a new file; refuse a file whose version we do not write."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == 0 and not db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        # One transaction: a kill between the tables and the version would leave a file nobody can use.
        db.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
    else:
        check_schema(version, path, oldest=SCHEMA)
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT OR REPLACE INTO meta VALUES ('journal', ?)", (journal,))
    db.execute("COMMIT")


def check_schema(version: int, path: Path, *, oldest: int = OLDEST) -> None:
    """Refuse what this version cannot read rightly, and say which version can."""
    if version > SCHEMA:
        raise RefBenchError(
            f"{path} has schema {version}, newer than the {SCHEMA} this RefBench knows: upgrade refbench to read it"
        )
    if version < OLDEST:
        raise RefBenchError(
            f"{path} has schema {version}, older than the {OLDEST} this RefBench reads: "
            "read it with the RefBench that wrote it, or import its replies into a new run"
        )
    if version < oldest:
        raise RefBenchError(
            f"{path} has schema {version}, older than the {SCHEMA} this RefBench writes: take it over into a new run "
            "with refbench merge"
        )


_Item = tuple[Evidence, tuple[Purpose, ...]] | Output | KnownPicture | tuple[str, Purpose]


class Recorder:
    """Takes evidence and outputs; awaiting `record` returns when they are safe on disk.

    Everything that arrives while a commit is running goes into the next one: a busy run pays few flushes.
    """

    def __init__(self, writer: LedgerWriter) -> None:
        self.writer = writer
        self._loop = asyncio.get_running_loop()
        self._waiting: queue.SimpleQueue[tuple[_Item, str, asyncio.Future[None] | None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="refbench-ledger")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.put(None)
        self._thread.join()

    def link(self, act: str, purpose: Purpose) -> None:
        """Note that recorded evidence serves another purpose; goes into the next commit, nobody waits for it."""
        self._waiting.put(((act, purpose), "", None))

    def know(self, picture: KnownPicture) -> None:
        """Note what a picture is that was opened; goes into the next commit too, before what is said about it."""
        self._waiting.put((picture, "", None))

    async def record(self, item: _Item, *, instead: str = "") -> None:
        """Write down; raises what the disk said when it could not be. What the act `instead` said before is retired."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((item, instead, done))
        await done

    def _write(self) -> None:
        ended = False
        while not ended:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            ended = None in batch
            entries = [entry for entry in batch if entry is not None]
            failure: BaseException | None = None
            try:
                for item, instead, _ in entries:
                    self._add(item, instead)
                self.writer.commit()
            except Exception as error:  # noqa: BLE001 - carried to whoever waits for the record
                failure = error
            for *_, done in entries:
                if done is not None:
                    self._loop.call_soon_threadsafe(_settle, done, failure)

    def _add(self, item: _Item, instead: str) -> None:
        if isinstance(item, Output):
            self.writer.add_output(item)
        elif isinstance(item, KnownPicture):
            self.writer.know(item)
        elif isinstance(item[0], str):
            act, purpose = item
            assert isinstance(act, str)
            assert isinstance(purpose, Purpose)
            self.writer.link(act, purpose)
        else:
            evidence, purposes = item
            assert isinstance(evidence, Evidence)
            assert isinstance(purposes, tuple)
            first, *others = purposes
            self.writer.add(evidence, first, instead=instead)
            for purpose in others:
                self.writer.link(evidence.id, purpose)


def _settle(done: asyncio.Future[None], failure: BaseException | None) -> None:
    if done.done():  # its waiter was cancelled
        return
    if failure is None:
        done.set_result(None)
    else:
        done.set_exception(failure)
