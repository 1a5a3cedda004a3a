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
import io
import os
import queue
import secrets
import socket
import sqlite3
import sys
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
from refbench.runs.disk import NETWORK_FILESYSTEMS, disk_error, filesystem_of, must_not_link, open_own
from refbench.runs.register import ID, Entry, entry_of, write_entry

SCHEMA = 3
"""Version of the ledger's tables and of run.json, bumped whenever a reader of the old one would be wrong."""
OLDEST = 1
"""The first version that is still read. What has it is not written any more."""
SUMMED = 3
"""The first version whose rows are under sums."""

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

_APPENDED = {
    "evidence": "seq, id, failure, digest, recorded, body",
    "purpose": "seq, case_id, model, judge, part, seed, repeat, protocol, output, evidence",
    "output": "seq, case_id, model, seed, step, failure, digest, recorded, body",
    "retired": "seq, what, digest, recorded, why",
    "picture": "seq, name, path, state, sha256",
}
"""The tables whose rows are only ever appended, with all their columns."""
SUM = "sum of "
"""What the note begins with that holds the sum of a table: how far it goes, and a hash over all rows up to there."""

PAINTER = "model "
"""What the note begins with that says by what, and with which settings, a model's pictures were made."""
FOUND = '{"kind":"pictures that were there"}'
"""What it says of pictures that were not made but found, in a folder or as the truth of the cases."""
SERVED = "served "
"""What the note begins with that says what is known of the model behind a judge on a server of one's own."""
ANSWERED = "answered as "
"""What the note begins with that names a judge and a state (`system_fingerprint`) that its server answered in."""
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


def _summed(db: sqlite3.Connection, table: str, after: tuple[int, str] = (0, "")) -> tuple[int, str]:
    """The last row of a table and one hash over all rows, each with the hash of those before it: the same however the
    rows were spread over commits. SQLite has no sums of its own, and reads a flipped bit as if it had been written."""
    last, total = after
    for row in db.execute(f"SELECT {_APPENDED[table]} FROM {table} WHERE seq > ? ORDER BY seq", (last,)):
        last, total = row[0], _hashed(total, row)
    return last, total


def _sum_of_notes(db: sqlite3.Connection) -> str:
    total = ""
    for row in db.execute("SELECT name, value FROM meta WHERE name <> ? ORDER BY name", (f"{SUM}meta",)):
        total = _hashed(total, row)
    return total


def _hashed(before: str, row: Sequence[object]) -> str:
    text = "\0".join([before, *map(str, row)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def unlike_its_sums(db: sqlite3.Connection) -> list[str]:
    """The tables of a ledger that do not hold what was written to them; nothing for one that is older than sums."""
    notes = dict(db.execute("SELECT name, value FROM meta WHERE substr(name, 1, ?) = ?", (len(SUM), SUM)).fetchall())
    if not notes:
        held = [table for table in ("meta", *_APPENDED) if db.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()]
        # Without rows, its writer was killed before it had written any.
        return [] if db.execute("PRAGMA user_version").fetchone()[0] < SUMMED else held
    unlike = [] if notes.get(f"{SUM}meta") == _sum_of_notes(db) else ["meta"]
    return unlike + [table for table in _APPENDED if notes.get(SUM + table) != "{} {}".format(*_summed(db, table))]


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

    def __init__(
        self, path: Path, *, journal: Literal["wal", "rollback"] | None = None, register: Path | None = None
    ) -> None:
        self.path = path
        self._register = register
        self._db: sqlite3.Connection | None = None
        self._ended = False
        self.conflicts = 0
        # Rows wait here until `commit`: a transaction left open would keep readers of a rollback journal out.
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []
        self._place: list[tuple[int, int]] = []
        self._entry: Entry | None = None
        self._turn = threading.Lock()  # notes come from another thread than rows, over the same connection
        try:
            for folder in _folders(path, register):
                must_not_link(folder)
            path.parent.mkdir(parents=True, exist_ok=True)
            for end in ("", "-wal", "-journal", "-shm"):
                must_not_link(path.with_name(path.name + end))
            self._lock = _lock(path)
        except OSError as error:
            raise disk_error(error, path.parent) from error
        try:
            with _disk_errors(path):
                self._db = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
                self.journal = _set_journal(self._db, path, journal)
                _prepare(self._db, path)
                self._sums = _sums_on_record(self._db)
                with self._transaction(self._db):
                    self._db.execute("INSERT OR REPLACE INTO meta VALUES ('journal', ?)", (self.journal,))
                    self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (ID, secrets.token_hex(16)))
                self._say_open(self._db)
                self._results = standing_acts([self._db])
        except BaseException:
            self._release()
            raise

    def _say_open(self, db: sqlite3.Connection) -> None:
        """Register the ledger, now that it is there, as one whose log may hold a part of it."""
        if self._register is None:
            return
        (own,) = db.execute("SELECT value FROM meta WHERE name = ?", (ID,)).fetchone()
        try:
            known = entry_of(self._register)
            if known is not None and known.id != own:
                raise RefBenchError(f"{self.path} {NOT_THE_ONE}: {restore_or(self._register)}")
            self._entry = Entry(id=own)
            write_entry(self._register, self._entry)
        except OSError as error:
            raise disk_error(error, self._register) from error

    def _say_closed(self) -> None:
        """Note in the register that all is in the file now."""
        if self._register is None or self._entry is None:
            return
        with contextlib.suppress(OSError):  # then it stays as one that was left open
            write_entry(self._register, self._entry.model_copy(update={"closed": True}))
            self._entry = None

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
        return known is not None and known.digest == digest_of(evidence)

    def add(self, evidence: Evidence, purpose: Purpose, *, recorded: float | None = None, instead: str = "") -> Verdict:
        """Record an act and what it was for; says whether it is new, known, or contradicts what is there.

        `recorded` is the time at which another ledger first had it, when merging. `instead` is an act that was asked
        for once more on purpose: what is said now retires what it said before, unless it is a failure that will pass.
        """
        act, digest = evidence.id, digest_of(evidence)
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
        elif kind and evidence.charged_usd and recorded is None:  # the same failure once more, and paid for once more
            self._waiting.append((_INSERT_EVIDENCE, (act, kind, digest, now, evidence.model_dump_json())))
        elif verdict == "conflict":
            self.conflicts += 1
        self.link(act, purpose)
        return verdict

    def keep(self, evidence: Evidence, recorded: float) -> None:
        """Keep a row that does not stand any more, when merging: it was paid for."""
        row = (evidence.id, evidence.failure and evidence.failure.kind, digest_of(evidence), recorded)
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
            with self._transaction(self._db):
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
            self.note("wanted", "all" if limit is None else str(limit))

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
        with self._transaction(self._db):
            for statement, row in self._waiting:
                self._db.execute(statement, row)
        self._waiting.clear()

    @contextlib.contextmanager
    def _transaction(self, db: sqlite3.Connection) -> Iterator[None]:
        """All that is done inside, with the sums of it, or nothing; in a file that will be found again."""
        with self._turn, _disk_errors(self.path):
            db.execute("BEGIN IMMEDIATE")
            try:
                yield
                sums = {table: _summed(db, table, before) for table, before in self._sums.items()}
                for table, (last, total) in sums.items():
                    if (last, total) != self._sums[table] or not last:
                        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (SUM + table, f"{last} {total}"))
                db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (f"{SUM}meta", _sum_of_notes(db)))
                db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # SQLite itself has rolled back when the disk is full
                    db.execute("ROLLBACK")
                raise
            self._sums = sums
            self._must_be_in_place(db)

    def _must_be_in_place(self, db: sqlite3.Connection) -> None:
        """Raises when the file (or its log) was removed or replaced: SQLite would go on writing where nobody looks,
        and replies would be paid for and lost."""
        files = [self.path, self.path.with_name(f"{self.path.name}-wal")] if self.journal == "wal" else [self.path]
        try:
            place = [(stat.st_dev, stat.st_ino) for stat in map(os.stat, files)]
        except OSError:
            place = []
        self._place = self._place or place
        if place and place == self._place:
            return
        self._entry = None  # what is in its place was not closed by us
        saved = self.path.with_name(f"{self.path.name}.saved-{os.getpid()}")
        try:
            with contextlib.closing(sqlite3.connect(saved)) as copy:
                db.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # it is whole without a log
            remedy = f"all that it held is in {saved}: rename it to {self.path.name}, and run the same command again"
        except sqlite3.Error:
            remedy = "what was recorded since is lost: restore it from a copy, and run the same command again"
        self._waiting.clear()
        raise RefBenchError(f"{self.path} was removed or replaced while it was being written; {remedy}")

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

    def __del__(self) -> None:
        """Close what was dropped without being closed, as by an interrupt between opening and `with`: SQLite would
        remove its log, and the register would miss it."""
        if self._db is not None and not self._ended:
            self._release()

    def _release(self) -> None:
        """In a thread of its own, which no Ctrl-C reaches: a log that is removed before the register knows of it would
        be missed by the next command."""
        if sys.is_finalizing():  # no thread begins any more
            self._end()
            return
        closing = threading.Thread(target=self._end, name="refbench-close")
        closing.start()
        closing.join()

    def _end(self) -> None:
        if self._db is not None and not self._ended:
            self._ended = True
            # Before SQLite removes the log: whoever reads meanwhile, or comes after a kill, must not miss it.
            with contextlib.suppress(sqlite3.Error):
                _, pages, moved = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                if pages == moved:
                    self._say_closed()
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
            # After, where it could not be said before: a reader was in the way, or the log had filled the disk.
            if not self.path.with_name(f"{self.path.name}-wal").exists():
                self._say_closed()
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
    if any(word in text for word in ("not a database", "malformed", "no such", "decode", "out of range")):
        return damaged(path, text)
    if "readonly" in text or "unable to open" in text:
        return RefBenchError(f"{path} cannot be opened for writing: check its permissions or choose another --out")
    return RefBenchError(f"{path} cannot be written ({text}): free or repair the disk and run the same command again")


def damaged(path: Path, how: object) -> RefBenchError:
    """The one sentence for a ledger that does not hold what was written to it."""
    return RefBenchError(f"{path} is damaged ({how}): restore it from a copy; refbench check {run_of(path)} says more")


NOT_THE_ONE = "is not the ledger that this run has on record: it was emptied, or is another's"


def restore_or(register: Path) -> str:
    """What to do about a ledger that is not as the register says."""
    return f"restore it from a copy of the run, or remove {register} to go on with what is there"


def run_of(ledger: Path) -> Path:
    """The run that a ledger, or a journal beside it, belongs to."""
    return ledger.parent.parent if ledger.parent.name == "shards" else ledger.parent


def digest_of(evidence: Evidence) -> str:
    """What tells one result of an act from another."""
    return result_digest(evidence.reply, str(evidence.failure) if evidence.failure is not None else None)


def result_digest(reply: str | None, failed: str | None) -> str:
    return hashlib.sha256((f"\0{failed}" if failed is not None else reply or "").encode()).hexdigest()


def _folders(path: Path, register: Path | None) -> list[Path]:
    """Those inside of a run that are written to. The run itself may be a link: the user has named it."""
    return [register.parent, *([path.parent] if run_of(path) != path.parent else [])] if register is not None else []


def _lock(path: Path) -> IO[str]:
    """Hold the ledger for this process; the lock ends with the process, however it ends."""
    lock = io.TextIOWrapper(open_own(path.with_suffix(".lock"), "ab+"), encoding="utf-8")
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


def _sums_on_record(db: sqlite3.Connection) -> dict[str, tuple[int, str]]:
    """How far the sums go, to be continued from there; a sum that cannot be read stays one that does not fit."""
    sums = {}
    for table in _APPENDED:
        row = db.execute("SELECT value FROM meta WHERE name = ?", (SUM + table,)).fetchone()
        last, _, total = row[0].partition(" ") if row else ("0", "", "")
        sums[table] = (int(last), total) if last.isdecimal() else (0, last)
    return sums


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Make the tables in a new file; refuse a file whose version we do not write."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == 0 and not db.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
        # One transaction: a kill between the tables and the version would leave a file nobody can use.
        db.executescript(f"BEGIN IMMEDIATE; {TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
    else:
        check_schema(version, path, oldest=SCHEMA)


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
        self._waiting: queue.SimpleQueue[tuple[_Item | None, str, asyncio.Future[None] | None] | None] = (
            queue.SimpleQueue()
        )
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

    async def written(self) -> None:
        """Returns when all that came so far is safe on disk, links as well."""
        await self._put(None, "")

    async def record(self, item: _Item, *, instead: str = "") -> None:
        """Write down; raises what the disk said when it could not be. What the act `instead` said before is retired."""
        await self._put(item, instead)

    async def _put(self, item: _Item | None, instead: str) -> None:
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
                    if item is not None:
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
