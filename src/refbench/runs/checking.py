"""What is wrong with a run directory: every file held against what was written, and what to do about it.

Opening a run refuses ledgers whose sums do not fit and files that were changed; this looks at everything, pictures
included, and goes on after the first thing that it finds.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
from pydantic import ValidationError

from refbench.case import AnyCase
from refbench.evidence import Evidence
from refbench.output import Output
from refbench.record import Record, RefBenchError, content_key, counted
from refbench.runs.annotations import FILE, read_annotations
from refbench.runs.ledger import result_digest, unlike_its_sums
from refbench.runs.register import FOLDER
from refbench.runs.run import Run, cases_fingerprint, every_output, open_snapshot, read_info

_RESTORE = "restore it from a copy of the run"
_NAMED = 3
"""How many of many places are named."""


class Problem(Record):
    """One thing that is not as it was written: where, what, and what to do."""

    file: str
    what: str
    remedy: str
    damage: bool = True
    """Whether something that the run held is lost or changed; else it only may be."""


class Checked(Record):
    """What was looked at, how much of it, and what is wrong with it."""

    run: str
    counts: dict[str, int]
    problems: tuple[Problem, ...]

    @property
    def damaged(self) -> bool:
        return any(problem.damage for problem in self.problems)


def check_run(path: Path) -> Checked:
    """Look at every file of a run."""
    counts: Counter[str] = Counter()
    try:
        run = Run(path, read_info(path))
    except RefBenchError as error:
        return Checked(run=str(path), counts={}, problems=(_said(path / "run.json", error),))
    problems = [*_cases(run, counts), *_kept(run), *_ledgers(run, counts), *_pictures(run, counts), *_others(run)]
    return Checked(run=str(path), counts=dict(counts), problems=tuple(problems))


def _said(path: Path, error: RefBenchError) -> Problem:
    what, _, remedy = str(error).removeprefix(f"{path} ").rpartition(": ")
    return Problem(file=str(path), what=what or str(error), remedy=remedy if what else _RESTORE)


def _cases(run: Run, counts: Counter[str]) -> Iterator[Problem]:
    path = run.path / "cases.jsonl"
    try:
        cases = run.cases(AnyCase)
    except RefBenchError as error:
        yield _said(path, error)
        return
    counts["cases"] = len(cases)
    if cases_fingerprint(cases) != run.info.cases:
        yield Problem(file=str(path), what="its cases are not those that run.json has a hash of", remedy=_RESTORE)


def _kept(run: Run) -> Iterator[Problem]:
    folder = run.path / "benchmark"
    for name in run.info.kept:
        try:
            run.kept(name)
        except RefBenchError as error:
            yield _said(folder / name, error)
    for path in sorted(folder.glob("*")):
        if path.name not in run.info.kept and run.info.digest:
            what = "was not written with the run, and is not read"
            yield Problem(file=str(path), what=what, remedy="remove it", damage=False)


def _ledgers(run: Run, counts: Counter[str]) -> Iterator[Problem]:
    for path in run.ledgers():
        counts["ledgers"] += 1
        try:
            with open_snapshot(path) as db:
                yield from _ledger(db, path, counts)
        except RefBenchError as error:
            yield _said(path, error)
    lost = set()
    try:
        for path, what, remedy in run.unlike_register():
            lost.add(path)
            yield Problem(file=str(path), what=what, remedy=remedy)
    except RefBenchError as error:  # of a ledger that cannot be read it was said above
        yield from [] if any(str(path) in str(error) for path in run.ledgers()) else [_said(run.path / FOLDER, error)]
    yield from _unwritten(run, lost)


def _unwritten(run: Run, lost: set[Path]) -> Iterator[Problem]:
    """Ledgers of which nobody can tell whether they were ever written, and copies that were saved of others."""
    names = [match for path in run.ledgers() if (match := re.fullmatch(r"(\d+)-of-(\d+)", path.stem))]
    for count in sorted({int(match[2]) for match in names}):
        there = {int(match[1]) for match in names if int(match[2]) == count}
        for index in sorted({*range(1, count + 1)} - there):
            path = run.path / f"shards/{index}-of-{count}.sqlite"
            if path in lost:
                continue
            what = f"is not there, and other shards of {count} are"
            remedy = f"run --shard {index}/{count}, or restore it from a copy if it was run"
            yield Problem(file=str(path), what=what, remedy=remedy, damage=False)
    for saved in sorted(run.path.glob("**/*.sqlite.saved-*")):
        what = "was saved when its ledger was removed or replaced during a run"
        remedy = f"rename it to {saved.name.partition('.saved')[0]} if that is not there, else remove it"
        yield Problem(file=str(saved), what=what, remedy=remedy, damage=False)
    if not run.ledgers() and not lost:
        painted = next(run.blobs.root.glob("*/*"), None) is not None
        what = "is not there, and pictures are" if painted else "is not there: nothing was recorded yet, or it is lost"
        yield Problem(file=str(run.path / "ledger.sqlite"), what=what, remedy=_RESTORE, damage=painted)


def _ledger(db: sqlite3.Connection, path: Path, counts: Counter[str]) -> Iterator[Problem]:
    if not path.stat().st_size:
        what = "is empty: the command that was to write it was killed at once, or it was emptied since"
        yield Problem(file=str(path), what=what, remedy="restore it from a copy if there was more", damage=False)
    for row in db.execute("SELECT body, id, digest, failure FROM evidence ORDER BY seq"):
        counts["results"] += 1
        if not _is_evidence(*row):
            counts["damaged results"] += 1
    for body, digest in db.execute("SELECT body, digest FROM output ORDER BY seq"):
        counts["outputs"] += 1
        if not _is_output(body, digest):
            counts["damaged outputs"] += 1
    changed = [counted(counts[kind], kind[:-1]) for kind in ("damaged results", "damaged outputs") if counts[kind]]
    tables = unlike_its_sums(db)
    found = [said for (said,) in db.execute("PRAGMA integrity_check(3)") if said != "ok"]
    if tables or changed or found:
        words = [f"rows of {', '.join(tables)} are not those that were written"] if tables else []
        words += [f"it holds {' and '.join(changed)}"] if changed else []
        words += [f"SQLite says {found[0]}"] if found else []
        yield Problem(file=str(path), what="; ".join(words), remedy=_RESTORE)


def _is_evidence(body: str, act: str, digest: str, failure: str | None) -> bool:
    """Whether a row is what its id, digest and kind of failure say."""
    try:
        evidence = Evidence.model_validate_json(body)
    except (ValidationError, TypeError):
        return False
    kind = evidence.failure.kind if evidence.failure is not None else None
    # Digests are of the rows as they were written: the records of this version may have further fields.
    told = orjson.loads(body)["failure"]
    failed = " ".join(f"{name}={value!r}" for name, value in told.items()) if told is not None else None
    return (evidence.id, result_digest(evidence.reply, failed), kind) == (act, digest, failure)


def _is_output(body: str, digest: str) -> bool:
    try:
        Output.model_validate_json(body)
    except (ValidationError, TypeError):
        return False
    return content_key(orjson.loads(body)) == digest


def _pictures(run: Run, counts: Counter[str]) -> Iterator[Problem]:
    """Pictures whose content is not what they are called, and those that outputs name and are not there."""
    there = set()
    for folder in (run.blobs.root, run.path / "sent"):
        for path in sorted(folder.glob("*/*")):
            if path.name.startswith("."):
                continue
            counts["pictures"] += 1
            there.add(path)
            if what := _unlike_its_name(path):
                yield Problem(file=str(path), what=what, remedy=_RESTORE)
    try:
        named = {run.blobs.path(p.sha256, p.format): o.case for o in run.outputs() for p in o.pictures}
        ever = {p.sha256 for o in every_output(run.ledgers()) for p in o.pictures}
    except RefBenchError:  # the ledger's own problem
        return
    if spare := sum(path.stem not in ever for path in there if run.blobs.root in path.parents):
        what = f"{counted(spare, 'picture')} there that no output on record refers to"
        remedy = "a command was killed before it recorded them, or the newest records are lost: compare with a copy"
        yield Problem(file=str(run.blobs.root), what=what, remedy=remedy, damage=False)
    missing = sorted(path for path in named if path not in there)
    if missing:
        cases = ", ".join(named[path] for path in missing[:_NAMED])
        what = (
            f"{counted(len(missing), 'picture')} of outputs on record not there ({cases}{', ...' * (len(missing) > 3)})"
        )
        remedy = (
            "restore them from a copy of the run; scores stand, and a folder's pictures are taken again by refbench run"
        )
        yield Problem(file=str(run.blobs.root), what=what, remedy=remedy)


def _unlike_its_name(path: Path) -> str:
    try:
        fits = path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == path.stem
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "" if fits else "its content has another hash than its name"


def _others(run: Run) -> Iterator[Problem]:
    try:
        if unread := read_annotations(run.path).unread:
            what = f"{counted(unread, 'line')} cannot be read, and left out"
            yield Problem(file=str(run.path / FILE), what=what, remedy=_RESTORE)
    except RefBenchError as error:
        yield _said(run.path / FILE, error)
