"""Run: the directory of one evaluation, the fair order of its cases, and what stands of all that is on record.

Opening it again is resuming.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Self

import orjson
from pydantic import Field, ValidationError

from refbench import __version__
from refbench.case import AnyCase
from refbench.evidence import Evidence, Purpose
from refbench.machine import scratch_folder
from refbench.output import Output, content_of
from refbench.record import Record, RefBenchError, canonical_json, content_key, counted
from refbench.runs.derived import Derived
from refbench.runs.disk import Blobs, disk_error, write_whole
from refbench.runs.ledger import (
    ANSWERED,
    NOT_THE_ONE,
    SCHEMA,
    SERVED,
    SUM,
    SUMMED,
    TABLES,
    KnownPicture,
    LedgerWriter,
    Standing,
    check_schema,
    damaged,
    failure_rank,
    ledger_error,
    place_of,
    restore_or,
    retirements,
    standing_acts,
    unlike_its_sums,
)
from refbench.runs.register import FOLDER, ID, entry_of, registered
from refbench.specs import WEIGHTS

# Reading ledgers, without ever making their writer wait: what stands of all that is on record.
#
# A write-ahead log lets readers in beside the writer. A rollback journal does not: a reader's lock would hold
# up the next commit. There the file is copied, and the copy used once it is known to be of one moment.

# Names of the temporary schema come first: a ledger from before outputs could be replaced reads like one without any.
_AS_IN_SCHEMA_2 = """
CREATE TEMP VIEW purpose AS SELECT *, '' AS output FROM main.purpose;
CREATE TEMP TABLE retired (what TEXT, digest TEXT, recorded REAL);
CREATE TEMP TABLE picture (name TEXT, path TEXT, state TEXT, sha256 TEXT);
"""
_FILES = ("", "-journal", "-wal")
_LOGGED = b"\x02\x02"
"""In the header of a ledger with a write-ahead log."""
_TRIES = 200
_PAUSE = 0.02


@contextlib.contextmanager
def open_snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """A read-only connection to the ledger as it is at one moment, whoever is writing it."""
    with contextlib.ExitStack() as stack:
        try:
            header = _header(path)
            if header and not header.startswith(b"SQLite format 3\0"):  # SQLite takes a single byte for a new file
                raise damaged(path, "it is no database")
            db = _open_beside(path) if header[18:20] == _LOGGED else None
            if db is None:
                folder = stack.enter_context(scratch_folder())
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
        except (ValidationError, UnicodeDecodeError) as error:
            raise damaged(path, "a row cannot be read") from error
        except OSError as error:
            raise RefBenchError(f"{path} cannot be read: {error.strerror or error}") from error


_WHOLE = "ledgers are whole"
_whole: dict[Path, tuple[object, ...]] = {}
"""Ledgers whose rows were found to be those that were written, and in which state the files were."""


def _must_be_whole(path: Path) -> None:
    """Refuses a ledger that does not hold what was written to it; a file is read through once for each state."""
    with open_snapshot(path) as db:
        state = _state(path)
        if _whole.get(path) != state:
            if unlike := unlike_its_sums(db):
                raise damaged(path, f"rows of {', '.join(unlike)} are not those that were written")
            _whole[path] = state


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
    except sqlite3.DatabaseError:
        db.close()
        raise
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


def _lacks_its_log(path: Path) -> bool:
    """Whether a ledger that is being written, or was left so, has no write-ahead log: its writer begins one before
    anything else, and readers leave an empty one where it is gone."""
    log = path.with_name(path.name + "-wal")
    return _header(path)[18:20] == _LOGGED and not (log.exists() and log.stat().st_size)


def _header(path: Path) -> bytes:
    if not path.is_file():
        raise RefBenchError(f"{path} is no plain file: restore it from a copy of the run")
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
            if body is None:
                raise damaged(ledgers[row.ledger], "a row cannot be found")
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


_OURS = re.compile(
    r"run\.json|cases\.jsonl|ledger\.(sqlite.*|lock)|ledgers|shards|blobs|sent|benchmark|derived|variants|(batches|jobs|annotations)\.jsonl|\.part-.*"
)


class Shard(Record):
    """The i-th of n writers, counted from 1; each has a ledger of its own in the same run."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise RefBenchError(f"--shard {text}: write it as i/n with i from 1 to n, for example 3/8")
        return cls(index=int(match[1]), count=int(match[2]))

    @property
    def ledger_name(self) -> str:
        return f"shards/{self.index}-of-{self.count}.sqlite"


def ledger_name(shard: Shard | None) -> str:
    """Where a command writes, inside its run."""
    return shard.ledger_name if shard else "ledger.sqlite"


class RunInfo(Record):
    """What run.json says: enough to know whether a command belongs to this run."""

    schema_version: int
    benchmark: str
    subset: str | None
    n_cases: int
    cases: str
    """Fingerprint of the cases in their order."""
    cases_file: str = ""
    """Hash of cases.jsonl."""
    kept: Mapping[Annotated[str, Field(pattern=r"^\w[\w.-]*$")], str] = {}
    """Hashes of the files of a benchmark that is not shipped, by name; of files in its own folder, since `merge` writes
    them into another run."""
    code: str = ""
    """The code of a benchmark that is not shipped, as it was when the run was begun."""
    settings: Mapping[str, str] = {}
    """How judges are asked: wording, questions a call, what is done to pictures."""
    written_by: str
    digest: str = ""
    """Hash of all of the above; "" in runs that are older than it."""

    @property
    def sum(self) -> str:
        return _sum_of_info(self.model_dump(mode="json"))


def _sum_of_info(told: Mapping[str, Any]) -> str:
    """Over what is written there, not over the fields that this version knows: an older one had fewer."""
    return content_key({name: value for name, value in told.items() if name != "digest"})


def read_info(path: Path) -> RunInfo:
    """What run.json says; says plainly what else the path may be."""
    file = path / "run.json"
    if not file.exists():
        what = "is not there" if not path.exists() else "is no run directory: run.json is missing"
        raise RefBenchError(f"{path} {what}; give the directory that --out named")
    data = own_bytes(file)
    try:
        told: Any = orjson.loads(data)
        version = told.get("schema_version") if isinstance(told, dict) else None
        check_schema(version if isinstance(version, int) else 0, file)
        info = RunInfo.model_validate(told)
    except (orjson.JSONDecodeError, ValidationError) as error:
        raise RefBenchError(f"{file} cannot be read: restore it from a copy of the run") from error
    if info.digest != _sum_of_info(told) and (info.digest or info.schema_version >= SUMMED):
        raise RefBenchError(f"{file} was changed since it was written: restore it from a copy of the run")
    return info


def own_bytes(path: Path) -> bytes:
    """A file of a run; what is no plain file (a pipe would be waited for without end) or cannot be read is named."""
    try:
        if not path.is_file():
            what = "is no plain file" if path.exists() else "is missing"
            raise RefBenchError(f"{path} {what}: restore it from a copy of the run")
        return path.read_bytes()
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read ({error.strerror}): restore it from a copy of the run") from error


class Run:
    """A run directory, opened. Reading takes no lock; `writer` gives the one that appends."""

    def __init__(self, path: Path, info: RunInfo) -> None:
        self.path = path
        self.info = info
        self.blobs = Blobs(path / "blobs")
        self.derived: Derived | None = None
        """What was derived from it as it was when it was opened; None where that was not looked for."""

    @classmethod
    def create(
        cls,
        path: Path,
        benchmark: str,
        cases: Sequence[AnyCase],
        *,
        subset: str | None = None,
        settings: Mapping[str, str] | None = None,
        keep: Mapping[str, str] | None = None,
        code: str = "",
    ) -> Self:
        """Make the run, or open it for more work when it is there with the same cases and the same code."""
        files = {name: text.encode("utf-8", "surrogateescape") for name, text in (keep or {}).items()}
        lines = b"".join(case.model_dump_json().encode() + b"\n" for case in cases)
        info = RunInfo(
            schema_version=SCHEMA,
            benchmark=benchmark,
            subset=subset,
            n_cases=len(cases),
            cases=cases_fingerprint(cases),
            cases_file=hashlib.sha256(lines).hexdigest(),
            kept={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
            code=code,
            settings=settings or {},
            written_by=__version__,
        )
        info = info.model_copy(update={"digest": info.sum})
        if (path / "run.json").exists():
            run = cls.open(path)
            if not run._awaits(info):
                run._must_match(info, cases)
                return run
        try:
            path.mkdir(parents=True, exist_ok=True)
            strangers = [entry for entry in os.listdir(path) if not _OURS.fullmatch(entry)]
            if strangers:
                raise RefBenchError(
                    f"{path} is no run directory and holds other files ({strangers[0]}): choose another --out"
                )
            # run.json comes last: its presence says that the cases are all there.
            write_whole(path / "cases.jsonl", lines)
            for name, data in files.items():
                write_whole(path / "benchmark" / name, data)
            write_whole(path / "run.json", orjson.dumps(info.model_dump(), option=orjson.OPT_INDENT_2))
        except OSError as error:
            raise disk_error(error, path) from error
        return cls(path, info)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing run; says plainly what else the path may be, and refuses ledgers that are damaged."""
        run = cls(path, read_info(path))
        run._must_be_whole()
        for ledger, what, remedy in run.unlike_register():
            raise RefBenchError(f"{ledger} {what}: {remedy}")
        return run

    def _must_be_whole(self) -> None:
        """Refuses ledgers that do not hold what was written to them. Bytes that were found whole before are not read
        through again, row by row."""
        ledgers = self.ledgers()
        before = {ledger: _state(ledger) for ledger in ledgers}
        if all(_whole.get(ledger) == state for ledger, state in before.items()):
            return
        self.derived = Derived(self.path)
        if self.derived.read(_WHOLE) is not None:
            _whole.update(before)
            return
        for ledger in ledgers:
            _must_be_whole(ledger)
        self.derived.write(b"", _WHOLE)

    def unlike_register(self) -> Iterator[tuple[Path, str, str]]:
        """The ledgers that are not as the register says, what is wrong with them and what to do."""
        there = self.ledgers()
        for ledger, file, entry in registered(self.path):
            if ledger not in there:
                saved = next(ledger.parent.glob(f"{ledger.name}.saved-*"), None)
                remedy = f"rename {saved} to {ledger.name}" if saved else restore_or(file)
                yield ledger, "is not there or cannot be read, and this run has it on record", remedy
                continue
            with open_snapshot(ledger) as db:
                own = db.execute("SELECT value FROM meta WHERE name = ?", (ID,)).fetchone()
            if not entry.closed and _lacks_its_log(ledger) and not (entry_of(file) or entry).closed:
                what = f"was not closed by its writer, and its log {ledger.name}-wal, with the newest of it, is gone"
                yield ledger, what, restore_or(file)
            elif own != (entry.id,):
                yield ledger, NOT_THE_ONE, restore_or(file)

    def keeps(self, name: str) -> bool:
        """Whether the run has a copy of that file of its benchmark."""
        return name in self.info.kept or (self.path / "benchmark" / name).is_file()

    def kept(self, name: str) -> bytes:
        """A file of the benchmark that the run keeps, because it is not shipped with RefBench."""
        sha256 = self.info.kept.get(name, "")
        path = self.path / "benchmark" / name
        if not sha256 and path.is_symlink():  # it would be taken for what the run says, and shared with it
            raise RefBenchError(f"{path} is a link: put the file itself there")
        return self._own_file(f"benchmark/{name}", sha256)

    def cases(self, case_type: type[AnyCase]) -> list[AnyCase]:
        """The cases of the run, with the benchmark's own type of details."""
        path = self.path / "cases.jsonl"
        lines = self._own_file("cases.jsonl", self.info.cases_file).splitlines()
        if len(lines) != self.info.n_cases:
            here = f"{counted(len(lines), 'case')}, and run.json says {self.info.n_cases}"
            raise RefBenchError(f"{path} is damaged (it has {here}): restore it from a copy of the run")
        cases = []
        for number, line in enumerate(lines, 1):
            try:
                cases.append(case_type.model_validate_json(line))
            except ValidationError as error:
                raise RefBenchError(
                    f"{path}, line {number}: it is no case of {self.info.benchmark}: restore it from a copy of the run"
                ) from error
        if len({case.id for case in cases}) < len(cases):
            raise RefBenchError(f"{path} has a case twice: restore it from a copy of the run")
        return cases

    def _own_file(self, name: str, sha256: str) -> bytes:
        """A file that was written with the run and never again, checked where its hash is on record."""
        data = own_bytes(self.path / name)
        if sha256 and hashlib.sha256(data).hexdigest() != sha256:
            other = ", or give another with --benchmark FILE" if name.startswith("benchmark/") else ""
            raise RefBenchError(
                f"{self.path / name} is not the file that was written with the run: restore it from a copy of the "
                f"run{other}"
            )
        return data

    def writer(self, shard: Shard | None = None) -> LedgerWriter:
        """The one that appends; what other ledgers of the run hold need not be paid for again either."""
        path = self.path / ledger_name(shard)
        writer = LedgerWriter(path, register=self.path / FOLDER / path.stem)
        try:
            if len(self.ledgers()) > 1:
                writer.learn(acts_on_record(self.ledgers()))
        except BaseException:
            writer.close()
            raise
        return writer

    def ledgers(self) -> list[Path]:
        """The ledger files there are, shards in order."""
        shards = sorted(
            (self.path / "shards").glob("*.sqlite"),
            key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)],
        )
        main = self.path / "ledger.sqlite"
        return [path for path in [main, *shards] if path.exists()]

    def evidence(self) -> Iterator[tuple[Purpose, Evidence]]:
        """Every purpose with its standing evidence, across all ledgers."""
        for purpose, evidence, _ in standing_evidence(self.ledgers()):
            yield purpose, evidence

    def first_recorded(self) -> str:
        """When the first of its acts was recorded, as "2026-11-18 21:05 UTC"; "" where there is none."""
        times = []
        for path in self.ledgers():
            with open_snapshot(path) as db:
                times += [first for (first,) in db.execute("SELECT MIN(recorded) FROM evidence") if first is not None]
        return f"{datetime.fromtimestamp(min(times), UTC):%Y-%m-%d %H:%M} UTC" if times else ""

    def recorded_between(self) -> tuple[str, str]:
        """The days on which the first and last of its acts and outputs were recorded, as "2026-11-18"; "" where
        there is none."""
        times: list[float] = []
        for path in self.ledgers():
            with open_snapshot(path) as db:
                for kind in ("evidence", "output"):
                    ends = db.execute(f"SELECT MIN(recorded), MAX(recorded) FROM {kind}").fetchone()
                    times += [end for end in ends if end is not None]
        if not times:
            return "", ""
        first, last = (f"{datetime.fromtimestamp(end, UTC):%Y-%m-%d}" for end in (min(times), max(times)))
        return first, last

    def wanted(self) -> int | None:
        """How many cases of the fair order this run has been asked for; None for all."""
        limits = []
        for path in self.ledgers():
            with open_snapshot(path) as db:
                limits += [value for (value,) in db.execute("SELECT value FROM meta WHERE name = 'wanted'")]
        return None if not limits or "all" in limits else max(map(self.number, limits))

    def notes(self, prefix: str) -> dict[str, str]:
        """Facts that writers kept under names with this prefix, without it."""
        notes: dict[str, str] = {}
        for path in self.ledgers():
            with open_snapshot(path) as db:
                rows = db.execute("SELECT name, value FROM meta WHERE substr(name, 1, ?) = ?", (len(prefix), prefix))
                notes |= {name[len(prefix) :]: value for name, value in rows if not name.startswith(SUM)}
        return notes

    def number(self, note: str) -> int:
        """A note that is a count."""
        if not re.fullmatch(r"\d{1,9}", note):
            raise RefBenchError(f"{self.path}: a note of its ledger should be a number, and is {note[:40]!r}")
        return int(note)

    def told(self, note: str) -> dict[str, Any]:
        """A note that is a record."""
        with contextlib.suppress(orjson.JSONDecodeError):
            record = orjson.loads(note)
            if isinstance(record, dict):
                return record
        raise RefBenchError(f"{self.path}: a note of its ledger should be a record, and is {note[:40]!r}")

    def served(self) -> dict[str, dict[str, str]]:
        """What is known of the models behind judges on servers of one's own."""
        return {
            name: {key: str(value) for key, value in self.told(note).items()}
            for name, note in self.notes(SERVED).items()
        }

    def answered_as(self) -> dict[str, list[str]]:
        """The states that judges' servers called themselves to be in, each time that they said so."""
        states: dict[str, list[str]] = {}
        for note in sorted(self.notes(ANSWERED)):
            said = self.told(note)
            states.setdefault(str(said.get("judge")), []).append(str(said.get("state")))
        return states

    def spent_usd(self) -> float:
        """What the recorded acts and pictures count for a budget: their cost, or the most that it can have been."""
        asked = sum(evidence.charged_usd for evidence in distinct_evidence(self.ledgers()))
        return asked + sum(output.charged_usd for output in every_output(self.ledgers()))

    def outputs(self) -> list[Output]:
        """The standing output of each (case, model, seed, step)."""
        return [output for output, _ in standing_outputs(self.ledgers())]

    def judges(self) -> dict[str, str]:
        """Who each judge is: provider, model and parameters as they were asked, in JSON."""
        endpoints: dict[str, str] = {}
        for purpose, evidence in self.evidence():
            if purpose.judge not in endpoints and evidence.asked is not None:
                endpoints[purpose.judge] = canonical_json(evidence.asked).decode()
        return endpoints

    def left_out(self) -> int:
        """How many results are on record for outputs that were replaced since."""
        return left_out(self.ledgers())

    def inputs(self) -> dict[str, str]:
        """The hash of each picture of the cases, by name, as it was when it was first opened."""
        first: dict[str, str] = {}
        for picture in self.pictures():
            if picture.name:
                first.setdefault(picture.name, picture.sha256)
        return first

    def pictures(self) -> list[KnownPicture]:
        """What the pictures of cases and models were when they were opened, earliest first."""
        return pictures_on_record(self.ledgers())

    def _awaits(self, info: RunInfo) -> bool:
        """Whether the run was begun without saying how it is scored, and nothing has been said of its pictures yet."""
        here = self.info
        return (
            not (here.settings or here.code)
            and bool(info.settings or info.code)
            and (here.benchmark, here.cases, here.subset) == (info.benchmark, info.cases, info.subset)
            and next(self.evidence(), None) is None
        )

    def _must_match(self, info: RunInfo, cases: Sequence[AnyCase]) -> None:
        here = self.info
        if (here.benchmark, here.cases, here.settings) == (info.benchmark, info.cases, info.settings):
            if here.code != info.code:
                raise RefBenchError(
                    f"the code of the benchmark {here.benchmark} changed since {self.path} was begun ({here.code} "
                    f"then, {info.code} now): choose another --out, or read what the run holds with the newer code: "
                    f"refbench table {self.path} --benchmark FILE"
                )
            return
        if (here.benchmark, here.cases) == (info.benchmark, info.cases):
            keys = sorted(k for k in {*here.settings, *info.settings} if here.settings.get(k) != info.settings.get(k))
            differences = ", ".join(f"{k}: {here.settings.get(k)} then, {info.settings.get(k)} now" for k in keys)
            raise RefBenchError(f"{self.path} was judged with other settings ({differences}): choose another --out")
        if here.benchmark != info.benchmark:
            differs = f"it holds {here.benchmark}, not {info.benchmark}"
        elif here.n_cases != info.n_cases or here.subset != info.subset:
            differs = (
                f"it has {counted(here.n_cases, 'case')} ({here.subset or 'all'}), "
                f"the data now {info.n_cases} ({info.subset or 'all'})"
            )
        else:
            lines = self._own_file("cases.jsonl", here.cases_file).splitlines()
            before = {case["id"]: content_key(case) for case in map(orjson.loads, lines)}
            changed = [case.id for case in cases if before.get(case.id) != case.key]
            differs = (
                f"{counted(len(changed), 'case')} changed since (first: {changed[0] if changed else 'their order'})"
            )
        raise RefBenchError(f"{self.path} belongs to other data: {differs}; choose another --out")


def cases_fingerprint(cases: Iterable[AnyCase]) -> str:
    """One hash for the cases and their order; the same wherever the dataset lies."""
    return content_key([case.key for case in cases])


def other_weights(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What a judge's server told of its weights and tells otherwise now."""
    return [
        f"{kind} {then[kind]} then, {now[kind]} now"
        for kind in WEIGHTS
        if kind in then and kind in now and then[kind] != now[kind]
    ]


def fair_order(cases: Sequence[AnyCase], seed: int = 0, pace: Mapping[str, float] | None = None) -> list[AnyCase]:
    """Cases shuffled within strata and dealt out in proportion, the same for the same seed.

    A run that stops early (budget, deadline) has then about the same share of every stratum. With `pace`, strata come
    as if they had so many cases: one of more than it has is through sooner.
    """
    strata: dict[str, list[AnyCase]] = defaultdict(list)
    for case in cases:
        strata[case.stratum].append(case)
    placed = []
    for name, members in strata.items():
        members.sort(key=lambda case: _draw(seed, case.id))
        offset = _draw(seed, name)
        size = len(members) if pace is None else pace[name]
        placed += [((rank + offset) / size, name, case) for rank, case in enumerate(members)]
    return [case for *_, case in sorted(placed, key=lambda place: place[:2])]


def fair_order_of_clusters(cases: Sequence[AnyCase]) -> list[AnyCase]:
    """The same with the cases of a cluster one after another, where what comes early is judged as whole clusters. A
    large cluster comes no sooner than a small one."""
    members: dict[str, list[AnyCase]] = defaultdict(list)
    for case in fair_order(cases):
        members[case.cluster].append(case)
    first = fair_order([min(of_one, key=lambda case: case.id) for of_one in members.values()])
    return [case for one in first for case in members[one.cluster]]


def _draw(seed: int, name: str) -> float:
    """A number in [0, 1) that belongs to the name; independent of the other cases, so subsets keep their order."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{name}".encode()).digest()[:7], "big") / 2**56
