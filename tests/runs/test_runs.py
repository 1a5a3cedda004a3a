"""Runs: nothing is lost or recorded twice, readers never hold up writers, bad places get one clear sentence."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import refbench
from refbench import Evidence, Failure, Output, Purpose, RefBenchError
from refbench.machine import scratch_folder, scratch_of, scratch_prefix, unfinished
from refbench.output import StoredPicture
from refbench.report import to_json
from refbench.runs import Run, Shard, merge
from refbench.runs.disk import Blobs, write_whole
from refbench.runs.ledger import LedgerWriter
from refbench.runs.run import open_snapshot
from refbench.tables.scoring import score_run
from support.campaigns import slow
from support.checkout import plain_items, write_checkout, write_replies
from support.small_disk import small_disk


def act(number: int, reply: str | None = "yes", kind: str = "timeout") -> tuple[Evidence, Purpose]:
    failure = None if reply is not None else Failure(kind=kind)  # type: ignore[arg-type]
    evidence = Evidence(kind="chat", request={"n": number}, reply=reply, failure=failure)
    return evidence, Purpose(case=f"c{number}", model="m", judge="j", part="IF")


def a_run(path: Path, count: int = 30) -> Run:
    items = plain_items(count)
    root = path.parent / f"data-{path.name}"
    if not root.exists():
        write_checkout(root, items, pictures=False)
    return Run.create(path, "creval", refbench.load("creval", root).cases)


@pytest.fixture(params=["wal", "rollback"])
def journal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both journals: the second is what network file systems get."""
    monkeypatch.setenv("REFBENCH_JOURNAL", request.param)
    return str(request.param)


# --- the ledger's rules ----------------------------------------------------------------------------------------


def test_what_is_recorded_is_read_again(tmp_path: Path, journal: str) -> None:
    run = a_run(tmp_path / "run")
    with run.writer() as writer:
        assert writer.journal == journal
        assert writer.add(*act(1)) == "new"
        assert writer.add(*act(2, None)) == "new"
    assert [(p.case, e.reply, e.failure and e.failure.kind) for p, e in run.evidence()] == [
        ("c1", "yes", None),
        ("c2", None, "timeout"),
    ]


def test_success_beats_failure_then_the_earliest_wins_and_conflicts_are_counted(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with run.writer() as writer:
        assert writer.add(*act(1, None)) == "new"
        assert writer.add(*act(1, "first")) == "new"
        assert writer.add(*act(1, "first")) == "known"
        assert writer.add(*act(1, "second")) == "conflict"
        assert writer.add(*act(1, None)) == "known"
    with run.writer() as writer:
        assert writer.succeeded(act(1)[0].id)
        assert writer.add(*act(1, "third")) == "conflict"
        assert writer.conflicts == 1
    assert [e.reply for _, e in run.evidence()] == ["first"]


def test_equal_requests_share_their_evidence(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    evidence, purpose = act(1)
    with run.writer() as writer:
        writer.add(evidence, purpose)
        assert writer.add(evidence, purpose.model_copy(update={"model": "other"})) == "known"
    assert {(p.model, e.reply) for p, e in run.evidence()} == {("m", "yes"), ("other", "yes")}
    with open_snapshot(run.path / "ledger.sqlite") as db:
        assert db.execute("SELECT count(*) FROM evidence").fetchone() == (1,)


def test_nothing_counts_before_it_is_committed_and_everything_after(tmp_path: Path, journal: str) -> None:
    run = a_run(tmp_path / "run")
    writer = run.writer()
    writer.add(*act(1))
    assert list(run.evidence()) == []
    writer.commit()
    assert len(list(run.evidence())) == 1
    writer.close()


def test_what_was_added_before_an_error_is_kept(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with pytest.raises(RuntimeError), run.writer() as writer:
        writer.add(*act(1))
        raise RuntimeError("the judge exploded")
    assert len(list(run.evidence())) == 1


def test_outputs_stand_by_the_same_rule(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    sha = run.blobs.put(b"\x89PNG\r\n\x1a\n...", "png")
    assert run.blobs.get(sha, "png").startswith(b"\x89PNG")
    picture = StoredPicture(sha256=sha, format="png", width=1, height=1)
    with run.writer() as writer:
        writer.add_output(Output(case="a", model="m", failure=Failure(kind="timeout")))
        writer.add_output(Output(case="a", model="m", pictures=(picture,)))
        writer.add_output(Output(case="a", model="m", failure=Failure(kind="timeout")))
    (output,) = run.outputs()
    assert output.pictures == (picture,)


def test_a_damaged_blob_is_an_error_and_not_a_picture(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    sha = run.blobs.put(b"GIF89a...", "gif")
    run.blobs.path(sha, "gif").write_bytes(b"GIF89a..!")
    with pytest.raises(RefBenchError, match="damaged"):
        run.blobs.get(sha, "gif")


# --- writers and readers at once -------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_holds_the_run(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with run.writer(), pytest.raises(RefBenchError, match=rf"process {os.getpid()} on .* --shard"):
        run.writer()
    run.writer().close()


def test_shards_write_side_by_side_and_are_read_as_one(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    with run.writer(Shard.parse("1/2")) as one, run.writer(Shard.parse("2/2")) as two:
        one.add(*act(1))
        two.add(*act(2))
        two.add(*act(1, None))
    assert sorted(p.case for p, e in run.evidence() if e.reply) == ["c1", "c2"]
    assert len(list(run.evidence())) == 2


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "-1/2", "1/0"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RefBenchError, match="--shard"):
        Shard.parse(text)


def test_reading_never_makes_a_writer_wait(tmp_path: Path, journal: str) -> None:
    """A reader sits on an open snapshot while the writer commits; with a lock the commit would wait a minute and fail."""
    run = a_run(tmp_path / "run")
    with run.writer() as writer:
        writer.add(*act(0))
        writer.commit()
        with open_snapshot(run.path / "ledger.sqlite") as db:
            assert db.execute("SELECT count(*) FROM evidence").fetchone() == (1,)
            done = threading.Event()

            def write() -> None:
                for number in range(1, 20):
                    writer.add(*act(number))
                    writer.commit()
                done.set()

            thread = threading.Thread(target=write)
            thread.start()
            thread.join()
            assert done.is_set(), "the writer waited for the reader, and gave up"
            assert db.execute("SELECT count(*) FROM evidence").fetchone() == (1,), "a snapshot is of one moment"
    assert len(list(run.evidence())) == 20


def test_every_snapshot_of_a_busy_run_is_whole(tmp_path: Path, journal: str) -> None:
    """Each transaction adds three rows; no reader may ever see one or two of them."""
    run = a_run(tmp_path / "run")
    stop = threading.Event()
    errors: list[str] = []
    begun = threading.Event()

    def write() -> None:
        with run.writer() as writer:
            number = 0
            while not stop.is_set() and number < 3000:
                for _ in range(3):
                    writer.add(*act(number, "x" * 2000))
                    number += 1
                writer.commit()
                begun.set()
                time.sleep(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = 0
        assert begun.wait(600)
        for _ in range(40):
            with open_snapshot(run.path / "ledger.sqlite") as db:
                (count,) = db.execute("SELECT count(*) FROM evidence").fetchone()
                if count % 3 or db.execute("PRAGMA quick_check").fetchone() != ("ok",):
                    errors.append(f"{count} rows")
                seen = max(seen, count)
    finally:
        stop.set()
        thread.join()
    assert not errors
    assert seen > 0


# --- kill -9 ---------------------------------------------------------------------------------------------------

IMPORT = """
import sys, refbench
if sys.argv[3:]:
    from refbench.runs.ledger import LedgerWriter
    commit = LedgerWriter.commit
    def told(writer):
        commit(writer)
        print("committed", flush=True)
        sys.stdin.readline()
    LedgerWriter.commit = told
print("go", flush=True)
refbench.rescore("creval", data=sys.argv[1], replies=sys.argv[1] + "/answer_gpt", out=sys.argv[2], protocol="paper", draws=0)
"""


@pytest.fixture(scope="module")
def many_replies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = plain_items(300)
    root = write_checkout(tmp_path_factory.mktemp("kill") / "data", items, pictures=False)
    for model in ("a", "b", "c"):
        write_replies(root / "answer_gpt", model, items)
    return root


@pytest.mark.parametrize(
    ("journal_mode", "imports", "kills"), [("wal", 1, 1), slow("wal", 5, 5), slow("rollback", 5, 5)]
)
def test_killed_imports_end_with_the_same_bytes_as_an_undisturbed_one(
    many_replies: Path, tmp_path: Path, journal_mode: str, imports: int, kills: int
) -> None:
    """Each import is killed at random moments and then finished."""
    environment = {**os.environ, "REFBENCH_JOURNAL": journal_mode}

    def start(out: Path, *waits: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", IMPORT, str(many_replies), str(out), *waits]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        return process

    def ended(process: subprocess.Popen[bytes]) -> int:
        process.communicate()
        return process.returncode

    def wait_for_a_record(process: subprocess.Popen[bytes], out: Path) -> None:
        """It stops after every transaction."""
        assert process.stdin is not None and process.stdout is not None
        while process.stdout.readline() and not recorded(out):
            process.stdin.write(b"\n")
            process.stdin.flush()

    def recorded(out: Path) -> bool:
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(f"file:{out}/ledger.sqlite?mode=ro", uri=True)) as db,
        ):
            return db.execute("SELECT count(*) FROM evidence").fetchone()[0] > 0
        return False

    before = time.monotonic()
    assert ended(start(tmp_path / "calm")) == 0
    duration = time.monotonic() - before
    expected = to_json(score_run(tmp_path / "calm", draws=50))
    rng = random.Random(3)
    killed = partial = 0
    for number in range(imports):
        out = tmp_path / f"killed-{number}"
        for attempt in range(kills):
            if attempt:
                process = start(out)
                time.sleep(rng.uniform(0.02, 0.8) * duration)
            else:  # the first one as soon as something is on record, however busy the machine is
                process = start(out, "stops")
                wait_for_a_record(process, out)
            process.kill()
            killed += ended(process) == -signal.SIGKILL
            if (out / "ledger.sqlite").exists():
                rows = len(list(Run.open(out).evidence()))
                partial += 0 < rows < 2700
        assert ended(start(out)) == 0
        assert to_json(score_run(out, draws=50)) == expected
        with sqlite3.connect(out / "ledger.sqlite") as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert db.execute("SELECT count(*), count(DISTINCT id) FROM evidence").fetchone() == (2700, 2700)
        db.close()
        shutil.rmtree(out)
    # How far the others get depends on what else the machine does.
    assert killed >= imports, "the first kill of each import must hit a living process"
    assert partial >= 1, "some kills must hit the middle of the import"


def test_importing_again_is_a_no_op_and_a_changed_reply_a_conflict(checkout: Path, tmp_path: Path) -> None:
    arguments = {"data": checkout, "replies": checkout / "answer_gpt", "out": tmp_path / "run", "draws": 50}
    first = refbench.rescore("creval", **arguments)
    again = refbench.rescore("creval", **arguments)
    assert to_json(first) == to_json(again)
    next((checkout / "answer_gpt/IF/alpha").glob("*.txt")).write_text("{}")
    changed = refbench.rescore("creval", **arguments)
    assert changed.table == first.table
    assert any("1 replies differ" in note for note in changed.notes)


def test_an_import_in_shards_gives_the_table_of_one_import(checkout: Path, tmp_path: Path) -> None:
    arguments = {"data": checkout, "replies": checkout / "answer_gpt", "draws": 50}
    whole = refbench.rescore("creval", **arguments, out=tmp_path / "whole")
    for index in range(1, 5):
        last = refbench.rescore("creval", **arguments, out=tmp_path / "parts", shard=Shard(index=index, count=4))
    assert last.table == whole.table
    assert score_run(tmp_path / "parts", draws=50).table == whole.table
    assert sorted(p.name for p in (tmp_path / "parts/shards").glob("*.sqlite")) == [
        f"{i}-of-4.sqlite" for i in range(1, 5)
    ]


def test_merged_runs_give_the_table_of_one_and_count_their_disagreements(checkout: Path, tmp_path: Path) -> None:
    arguments = {"data": checkout, "replies": checkout / "answer_gpt", "draws": 50}
    whole = refbench.rescore("creval", **arguments, out=tmp_path / "whole")
    for model in ("alpha", "beta"):
        refbench.rescore("creval", **arguments, models=[model], out=tmp_path / model)
    report = merge([tmp_path / "alpha", tmp_path / "beta"], tmp_path / "both")
    assert (report.new, report.conflicts) == (2 * 27 * 3, 0)
    assert score_run(tmp_path / "both", draws=50).table == whole.table
    path = next((checkout / "answer_gpt/IF/alpha").glob("*.txt"))
    path.write_text(path.read_text() + " ")
    refbench.rescore("creval", **arguments, models=["alpha"], out=tmp_path / "changed")
    assert merge([tmp_path / "alpha", tmp_path / "changed"], tmp_path / "third").conflicts == 1
    again = merge([tmp_path / "alpha", tmp_path / "beta"], tmp_path / "both")
    assert (again.new, again.known) == (0, 2 * 27 * 3)


# --- bad places ------------------------------------------------------------------------------------------------


def test_a_run_of_other_data_is_refused_and_says_what_differs(checkout: Path, tmp_path: Path) -> None:
    arguments = {"replies": checkout / "answer_gpt", "out": tmp_path / "run", "draws": 0}
    refbench.rescore("creval", data=checkout, **arguments)
    path = next((checkout / "bench/questions_all/IF").glob("*.json"))
    path.write_text(path.read_text().replace("as asked?", "as wanted?"))
    with pytest.raises(RefBenchError, match="1 case changed since"):
        refbench.rescore("creval", data=checkout, **arguments)


def test_a_directory_with_other_files_is_not_taken_for_a_run(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("chapter one")
    with pytest.raises(RefBenchError, match=r"thesis\.tex"):
        Run.create(tmp_path, "creval", [])
    (tmp_path / "file").write_text("")
    with pytest.raises(RefBenchError, match="choose another --out"):
        Run.create(tmp_path / "file", "creval", [])


@pytest.mark.parametrize(("version", "says"), [(0, "older"), (99, "upgrade refbench")])
def test_a_run_of_another_schema_is_refused(tmp_path: Path, version: int, says: str) -> None:
    run = a_run(tmp_path / "run")
    run.writer().close()
    info = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**info, "schema_version": version}))
    with pytest.raises(RefBenchError, match=says):
        Run.open(run.path)
    (run.path / "run.json").write_text(json.dumps(info))
    with sqlite3.connect(run.path / "ledger.sqlite") as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    with pytest.raises(RefBenchError, match=says):
        list(run.evidence())
    with pytest.raises(RefBenchError, match=says):
        run.writer()


def test_a_ledger_whose_writer_died_at_once_is_an_empty_one(tmp_path: Path, journal: str) -> None:
    run = a_run(tmp_path / "run")
    (run.path / "ledger.sqlite").touch()
    assert list(run.evidence()) == []
    with run.writer() as writer:
        writer.add(*act(1))
    assert len(list(run.evidence())) == 1


def test_a_damaged_ledger_is_named(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    (run.path / "ledger.sqlite").write_bytes(b"this is no database, " * 200)
    with pytest.raises(RefBenchError, match="damaged"):
        list(run.evidence())
    with pytest.raises(RefBenchError, match="damaged"):
        run.writer()


def test_a_wrong_journal_setting_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFBENCH_JOURNAL", "fast")
    with pytest.raises(RefBenchError, match="REFBENCH_JOURNAL"):
        a_run(tmp_path / "run").writer()


def test_a_full_disk_loses_nothing_and_the_same_command_goes_on(tmp_path: Path, journal: str) -> None:
    with small_disk(tmp_path / "disk", 2) as disk:
        run = a_run(disk / "run")
        done = 0
        with pytest.raises(RefBenchError, match="is full"), run.writer() as writer:
            while True:
                writer.add(*act(done, "x" * 20_000))
                writer.commit()
                done += 1
        assert done > 5
        assert len(list(run.evidence())) == done
        shutil.rmtree(disk / f"data-{run.path.name}")
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        with run.writer() as writer:
            assert writer.add(*act(0, "x" * 20_000)) == "known"
            writer.add(*act(done, "after"))
        assert len(list(run.evidence())) == done + 1


def test_a_file_size_limit_is_one_sentence_too(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(RefBenchError, match=r"cannot be written|is full"), run.writer() as writer:
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
            for number in range(100):
                writer.add(*act(number, "x" * 20_000))
                writer.commit()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert list(run.evidence())


def test_a_run_on_a_read_only_disk_can_be_read_but_not_written(tmp_path: Path, journal: str) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        run = a_run(disk / "run")
        with run.writer() as writer:
            writer.add(*act(1))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert len(list(run.evidence())) == 1
        with pytest.raises(RefBenchError, match="read-only"):
            run.writer()


def test_a_log_left_by_a_killed_writer_is_read_on_a_read_only_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        run = a_run(disk / "run")
        child = os.fork()
        if child == 0:  # a writer that commits and dies without closing leaves its log behind
            writer = LedgerWriter(run.path / "ledger.sqlite", journal="wal")
            writer.add(*act(1))
            writer.commit()
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert (run.path / "ledger.sqlite-wal").stat().st_size > 0
        (run.path / "ledger.sqlite-shm").unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert len(list(run.evidence())) == 1


def test_a_network_file_system_gets_the_rollback_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REFBENCH_JOURNAL", raising=False)
    monkeypatch.setattr("refbench.runs.ledger.filesystem_of", lambda path: "nfs4")
    with a_run(tmp_path / "run").writer() as writer:
        assert writer.journal == "rollback"
        writer.add(*act(1))
    with sqlite3.connect(tmp_path / "run/ledger.sqlite") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert db.execute("SELECT value FROM meta WHERE name = 'journal'").fetchone() == ("rollback",)
    db.close()


def test_the_file_system_of_a_path_is_found() -> None:
    from refbench.runs.disk import filesystem_of

    assert filesystem_of(Path("/proc")) == "proc"


def test_files_of_a_run_are_as_readable_as_the_umask_allows(tmp_path: Path) -> None:
    """Colleagues on a shared disk read runs and datasets."""
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "run.json", b"{}")
    finally:
        os.umask(before)
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


LEAVES_A_PART = """
import os, sys
from pathlib import Path
from refbench.machine import scratch_folder
from refbench.runs.disk import open_part
for folder in map(Path, sys.argv[1:]):
    open_part(folder)
held = scratch_folder()
held.__enter__()
print("left", flush=True)
sys.stdin.read()
os._exit(9)
"""


def test_what_a_killed_command_left_is_removed_and_what_a_living_one_writes_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, system = tmp_path / "run", tmp_path / "system"
    folders = [run, run / "blobs/ab", run / "sent/cd", run / "shards"]
    for folder in (*folders, system):
        folder.mkdir(parents=True)
    (run / ".part-another-host-4-0123456789abcdef").touch()
    (run / ".part-0123456789abcdef").touch()
    os.utime(run / ".part-0123456789abcdef", (0, 0))
    (run / "blobs/ab/picture.png").touch()

    def parts() -> int:
        return len([*run.rglob(".part-*"), *system.iterdir()])

    command = [sys.executable, "-c", LEAVES_A_PART, *map(str, folders)]
    environment = {**os.environ, "TMPDIR": str(system)}
    monkeypatch.setattr(tempfile, "tempdir", str(system))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as living:
        assert living.stdout is not None and living.stdout.readline() == b"left\n"
        assert parts() == 6, "the one that is old and of nobody is gone"
        scratch_prefix.cache_clear()
        with scratch_of(run), scratch_folder():
            assert parts() == 7, "one is new"
        living.kill()
    scratch_prefix.cache_clear()
    with scratch_of(run):
        scratch_prefix()
        assert [path.name for path in run.rglob(".part-*")] == [".part-another-host-4-0123456789abcdef"]
    assert not list(system.iterdir()) and (run / "blobs/ab/picture.png").exists()
    scratch_prefix.cache_clear()


def test_what_a_killed_command_left_unfinished_is_gone_after_the_next(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path / "blobs")
    blobs.root.mkdir()
    mine = unfinished("whole")
    names = [mine, mine.replace(f"-{os.getpid()}-", "-999999999-"), ".part-elsewhere-0-999999999-whole"]
    for name in names:
        (blobs.root / name).write_bytes(b"half")
    blobs.put(b"whole", "png")
    assert {path.name for path in blobs.root.glob(".part-*")} == {names[0], names[2]}, "others may still be writing"
