"""A run that is not as it was written is refused with a sentence, and `refbench check RUN` names what is wrong. All
kinds of damage: tests/campaigns/test_damaged_runs.py."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import refbench
from conftest import Refbench
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.pictures import encode
from refbench.record import RefBenchError, content_key
from refbench.runs import Run, Shard
from refbench.runs.annotations import Annotation, annotate
from refbench.runs.journal import JournalFile
from support.checkout import plain_items, write_checkout, write_replies
from support.small_disk import small_disk


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = plain_items(9)
    root = tmp_path_factory.mktemp("damage")
    data = write_checkout(root / "data", items, pictures=False)
    write_replies(data / "answer_gpt", "a", items)
    refbench.rescore("creval", data=data, replies=data / "answer_gpt", out=root / "run", draws=0)
    return root / "run"


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def sql(statement: str) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        db = sqlite3.connect(run / "ledger.sqlite")
        assert db.execute(statement).rowcount > 0
        db.commit()
        db.close()

    return edit


def text(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda run: (run / name).write_bytes(change((run / name).read_bytes())) and None


def as_pipe(run: Path) -> None:
    (run / "cases.jsonl").unlink()
    os.mkfifo(run / "cases.jsonl")


DAMAGES = {
    "fewer cases": (text("cases.jsonl", lambda data: b"".join(data.splitlines(True)[:-1])), "cases.jsonl"),
    "half a line": (text("cases.jsonl", lambda data: data[:-40]), "cases.jsonl"),
    "another instruction": (text("cases.jsonl", lambda data: data.replace(b"c", b"d", 1)), "cases.jsonl"),
    "no cases": (lambda run: (run / "cases.jsonl").unlink(), "cases.jsonl"),
    "a pipe": (as_pipe, "cases.jsonl"),
    "half of run.json": (text("run.json", lambda data: data[: len(data) // 2]), "run.json"),
    "another subset": (text("run.json", lambda data: data.replace(b"null", b'"x"', 1)), "run.json"),
    "a key less": (text("run.json", lambda d: json.dumps({**json.loads(d), "n_cases": None}).encode()), "run.json"),
    "a list": (text("run.json", lambda data: b"[]"), "run.json"),
    "an edited reply": (sql("UPDATE evidence SET body = replace(body, 'Yes', 'No') WHERE seq = 3"), "ledger.sqlite"),
    "a lost reply": (sql("DELETE FROM evidence WHERE seq = (SELECT max(seq) FROM evidence)"), "ledger.sqlite"),
    "a reply of another": (sql("UPDATE purpose SET model = 'b' WHERE seq % 2"), "ledger.sqlite"),
    "fewer cases wanted": (sql("INSERT INTO meta VALUES ('wanted', '2')"), "ledger.sqlite"),
    "no notes": (sql("DELETE FROM meta"), "ledger.sqlite"),
    "half a ledger": (text("ledger.sqlite", lambda data: data[: len(data) // 2]), "ledger.sqlite"),
    "a ledger of zeros": (text("ledger.sqlite", lambda data: bytes(len(data))), "ledger.sqlite"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_a_sentence_for_every_reader_and_named_by_check(run: Path, run_cli: Refbench, name: str) -> None:
    damage, file = DAMAGES[name]
    damage(run)
    code, out, err = run_cli("table", run, "--json")
    assert (code, out) == (2, ""), err
    assert f"{run / file}" in err
    assert err.count("\n") == 1
    code, out, _ = run_cli("check", run, "--json")
    told = json.loads(out)
    assert (code, told["damaged"]) == (2, True)
    assert {problem["file"] for problem in told["problems"]} == {str(run / file)}
    assert all(problem["what"] and problem["remedy"] for problem in told["problems"])
    assert str(run / file) in run_cli("check", run)[1]


def test_a_run_as_it_was_written_is_found_to_be_so(run: Path, run_cli: Refbench) -> None:
    code, out, _ = run_cli("check", run)
    assert code == 0
    assert out.splitlines()[-1] == "Everything is as it was written."
    assert json.loads(run_cli("check", run, "--json")[1])["counts"] == {"cases": 9, "ledgers": 1, "results": 27}
    assert run_cli("check", run, "--data", run)[0] == 2


@pytest.fixture
def painted(tmp_path: Path) -> Path:
    """A run with pictures."""
    (tmp_path / "cases.jsonl").write_text(
        "\n".join(json.dumps({"id": str(n), "instruction": "Do.", "source": f"{n}.png"}) for n in range(3))
    )
    for n in range(3):
        (tmp_path / f"{n}.png").write_bytes(encode(np.full((8, 8, 3), 50 * n, np.uint8)))
    refbench.evaluate(tmp_path / "cases.jsonl", metrics="l1", models="A=baseline:copy", out=tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("way", ["changed", "gone", "cut"])
def test_pictures_are_held_against_their_hashes(painted: Path, run_cli: Refbench, way: str) -> None:
    blob = min((painted / "blobs").glob("*/*"))
    if way == "gone":
        blob.unlink()
    else:
        blob.write_bytes(encode(np.zeros((8, 8, 3), np.uint8)) if way == "changed" else blob.read_bytes()[:50])
    code, out, _ = run_cli("check", painted)
    assert code == 2
    assert (str(blob) in out) == (way != "gone")
    assert run_cli("table", painted)[0] == 0, "no score is read from a picture"


def test_a_picture_that_was_changed_in_the_run_is_not_measured(painted: Path, tmp_path: Path) -> None:
    """It would be recorded as being about a picture that the model has not made, and count for nothing."""
    blob = min((painted / "blobs").glob("*/*"))
    blob.write_bytes(encode(np.full((8, 8, 3), 77, np.uint8)))
    with pytest.raises(RefBenchError, match="is damaged: its content has another hash"):
        refbench.evaluate(tmp_path / "cases.jsonl", metrics=["l1", "ssim"], models="A=baseline:copy", out=painted)


def test_outputs_of_a_run_name_no_files_outside_of_it(painted: Path) -> None:
    """A picture is found by its hash; what is none would be a path."""
    with pytest.raises(RefBenchError, match="can hold no picture"):
        Run.open(painted).blobs.path("../../../../../../etc/x", "png")


def test_shards_that_are_missing_are_told(run: Path, run_cli: Refbench) -> None:
    (run / "shards").mkdir()
    shutil.rmtree(run / "ledgers")
    (run / "ledger.sqlite").rename(run / "shards/1-of-2.sqlite")
    code, out, _ = run_cli("check", run)
    assert code == 0
    assert "2-of-2.sqlite: is not there" in out


def test_what_was_written_before_a_record_got_a_field_is_whole(painted: Path, run_cli: Refbench) -> None:
    """Hashes are of what stands in rows and in run.json, not of what a later version would write."""
    with Run.open(painted).writer() as writer:
        failed = Evidence(kind="chat", request={"n": 1}, failure=Failure(kind="refused", detail="no"))
        writer.add(failed, Purpose(case="0", model="A", judge="j", part="p"))
    with contextlib.closing(sqlite3.connect(painted / "ledger.sqlite")) as db:
        for seq, body in db.execute("SELECT seq, body FROM output").fetchall():
            old = {name: value for name, value in json.loads(body).items() if name not in ("worst_usd", "provenance")}
            row = (json.dumps(old), content_key(old), seq)
            db.execute("UPDATE output SET body = ?, digest = ? WHERE seq = ?", row)
        old = json.loads(failed.model_dump_json(exclude={"failure": {"by_model"}}))
        digest = hashlib.sha256(b"\0kind='refused' detail='no'").hexdigest()
        changed = db.execute(
            "UPDATE evidence SET body = ?, digest = ? WHERE id = ?", (json.dumps(old), digest, failed.id)
        )
        assert changed.rowcount == 1
        db.execute("DELETE FROM meta WHERE name LIKE 'sum of %'")
        db.execute("PRAGMA user_version = 2")
        db.commit()
    told = json.loads((painted / "run.json").read_text())
    del told["digest"], told["code"]
    (painted / "run.json").write_text(json.dumps({**told, "digest": content_key(told)}))
    code, out, _ = run_cli("check", painted)
    assert (code, out.splitlines()[-1]) == (0, "Everything is as it was written."), out
    assert len(Run.open(painted).outputs()) == 3


def _sharded(root: Path, out: str) -> Path:
    for index in (1, 2):
        shard = Shard(index=index, count=2)
        refbench.evaluate(root / "cases.jsonl", metrics="l1", models="A=baseline:copy", out=root / out, shard=shard)
    return root / out


def _another(run: Path) -> None:
    other = run.with_name("other")
    refbench.evaluate(run.parent / "cases.jsonl", metrics="l1", models="A=baseline:copy", out=other, limit=1)
    shutil.copy(other / "ledger.sqlite", run / "ledger.sqlite")


def _emptied(run: Path) -> None:
    with contextlib.closing(sqlite3.connect(run / "ledger.sqlite")) as db:
        assert db.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    (run / "ledger.sqlite").write_bytes(b"")


LOST: dict[str, tuple[bool, Callable[[Path], object], str]] = {
    "no shards": (True, lambda run: shutil.rmtree(run / "shards"), "shards/1-of-2.sqlite"),
    "one shard twice": (
        True,
        lambda run: shutil.copy(run / "shards/1-of-2.sqlite", run / "shards/2-of-2.sqlite"),
        "shards/2-of-2.sqlite",
    ),
    "of another run": (False, _another, "ledger.sqlite"),
    "emptied": (False, _emptied, "ledger.sqlite"),
    "gone": (False, lambda run: (run / "ledger.sqlite").unlink(), "ledger.sqlite"),
}


@pytest.mark.parametrize("name", LOST)
def test_a_ledger_that_is_not_the_one_on_record_is_refused(painted: Path, run_cli: Refbench, name: str) -> None:
    sharded, lose, file = LOST[name]
    run = _sharded(painted.parent, "sharded") if sharded else painted
    assert run_cli("check", run)[0] == 0
    lose(run)
    for command in (["table", run], ["merge", run, "--out", painted.parent / "merged"]):
        code, _, err = run_cli(*command)
        assert (code, err.count("\n"), f"{run / file} is not" in err) == (2, 1, True), err
    with pytest.raises(RefBenchError, match="is not"):
        refbench.evaluate(painted.parent / "cases.jsonl", metrics="l1", models="A=baseline:copy", out=run)
    code, out, _ = run_cli("check", run)
    assert (code, str(run / file) in out) == (2, True)


def test_a_run_without_a_register_is_read_as_it_is(painted: Path, run_cli: Refbench) -> None:
    shutil.rmtree(painted / "ledgers")
    assert run_cli("table", painted)[0] == 0
    refbench.evaluate(painted.parent / "cases.jsonl", metrics="l1", models="A=baseline:copy", out=painted)
    assert (painted / "ledgers/ledger").is_file()


@pytest.mark.parametrize(("journal", "first"), [("wal", False), ("wal", True), ("rollback", False)])
def test_a_log_that_a_killed_writer_left_is_missed(
    painted: Path, run_cli: Refbench, monkeypatch: pytest.MonkeyPatch, journal: str, *, first: bool
) -> None:
    """A copy at this moment is what a kill leaves; of a rollback journal nothing has to be there."""
    monkeypatch.setenv("REFBENCH_JOURNAL", journal)
    if first:  # all of it is in the log
        shutil.rmtree(painted / "ledgers")
        (painted / "ledger.sqlite").unlink()
    killed = painted.with_name("killed")
    with Run.open(painted).writer() as writer:
        writer.note("x", "y")
        assert run_cli("check", painted)[0] == 0
        shutil.copytree(painted, killed)
    assert not (painted / "ledger.sqlite-wal").exists()
    assert run_cli("check", painted)[0] == 0
    assert run_cli("check", killed)[0] == 0
    for end in ("-wal", "-shm"):
        (killed / f"ledger.sqlite{end}").unlink(missing_ok=True)
    code, _, err = run_cli("table", killed)
    assert (code, "its log ledger.sqlite-wal" in err) == ((2, True) if journal == "wal" else (0, False)), err
    assert run_cli("check", killed)[0] == code


def test_a_writer_that_is_dropped_without_being_closed_leaves_a_whole_run(painted: Path, run_cli: Refbench) -> None:
    """An interrupt may come between the opening of a ledger and the `with` that would close it."""
    writer = Run.open(painted).writer()
    writer.note("x", "y")
    del writer
    assert not (painted / "ledger.sqlite-wal").exists()
    assert run_cli("check", painted)[0] == 0
    assert Run.open(painted).notes("x") == {"": "y"}


@pytest.mark.parametrize("usd", [-900.0, float("nan")])
def test_no_budget_lasts_longer_by_what_a_record_says_it_cost(painted: Path, usd: float) -> None:
    purpose = Purpose(case="0", model="A", judge="j", part="p")
    with Run.open(painted).writer() as writer:
        for n, cost in enumerate((usd, 4.0)):
            writer.add(Evidence(kind="chat", request={"n": n}, reply="x", cost_usd=cost), purpose)
    assert Run.open(painted).spent_usd() == 4.0


def test_a_run_that_was_closed_on_a_full_disk_is_whole(painted: Path, tmp_path: Path, run_cli: Refbench) -> None:
    """There is no space to register that the ledger is closed until its log is gone."""
    with small_disk(tmp_path / "disk", 2) as disk:
        run = disk / "run"
        shutil.copytree(painted, run)
        filler = disk / "filler"
        with Run.open(run).writer() as writer:
            writer.note("x", "y")
            with contextlib.closing(sqlite3.connect(run / "ledger.sqlite")) as db:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        assert not (run / "ledger.sqlite-wal").exists()
        filler.unlink()
        assert run_cli("check", run)[0] == 0
        assert Run.open(run).notes("x") == {"": "y"}


def test_pictures_that_nothing_refers_to_are_told(painted: Path, run_cli: Refbench) -> None:
    Run.open(painted).blobs.put(encode(np.full((9, 9, 3), 7, np.uint8)), "png")
    code, out, _ = run_cli("check", painted)
    assert (code, "1 picture there that no output on record refers to" in " ".join(out.split())) == (0, True), out


@pytest.mark.parametrize("name", ["ledger.lock", "ledger.sqlite", "annotations.jsonl", "batches.jsonl"])
def test_no_file_outside_is_written_through_a_link_in_a_run(painted: Path, tmp_path: Path, name: str) -> None:
    shutil.rmtree(painted / "ledgers")
    mine = tmp_path / "mine"
    mine.write_bytes((painted / name).read_bytes() if name == "ledger.sqlite" else b"{}\n")
    before = mine.read_bytes()
    (painted / name).unlink(missing_ok=True)
    (painted / name).symlink_to(mine)
    with pytest.raises(RefBenchError, match=f"{name} is a link"):
        if name == "annotations.jsonl":
            annotate(Run.open(painted), Annotation(case="0", star=True))
        elif name == "batches.jsonl":
            JournalFile(painted / name).append({"a": 1})
        else:
            Run.open(painted).writer().close()
    assert mine.read_bytes() == before


@pytest.mark.parametrize("name", ["ledgers", "shards"])
def test_nothing_is_written_into_a_folder_that_a_run_links_to(painted: Path, tmp_path: Path, name: str) -> None:
    shutil.rmtree(painted / name, ignore_errors=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    (painted / name).symlink_to(mine)
    with pytest.raises(RefBenchError, match=rf"{name} is a link"):
        Run.open(painted).writer(Shard(index=1, count=2) if name == "shards" else None)
    assert not list(mine.iterdir())


@pytest.mark.parametrize("name", ["../../mine", "..", "sub/mine", "", "/etc/hostname"])
def test_a_merge_writes_no_file_outside_of_the_run(painted: Path, run_cli: Refbench, tmp_path: Path, name: str) -> None:
    """A run that names a file beside it as its benchmark's would have it written beside the other run."""
    (tmp_path / "mine").write_text("theirs")
    (painted / "benchmark").mkdir()
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine").write_text("precious")
    told = json.loads((painted / "run.json").read_text())
    told["kept"] = {name: hashlib.sha256(b"theirs").hexdigest()}
    told["digest"] = content_key({key: value for key, value in told.items() if key != "digest"})
    (painted / "run.json").write_text(json.dumps(told))
    code, _, err = run_cli("merge", painted, "--out", home / "merged")
    assert (code, "run.json cannot be read" in err) == (2, True), err
    assert (home / "mine").read_text() == "precious"


def test_a_merge_takes_no_file_from_outside_through_a_link(painted: Path, run_cli: Refbench, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("precious")
    (painted / "benchmark").mkdir()
    (painted / "benchmark/rubric.md").symlink_to(tmp_path / "secret")
    code, _, err = run_cli("merge", painted, "--out", tmp_path / "merged")
    assert (code, "rubric.md is a link" in err) == (2, True), err


@pytest.mark.parametrize("end", ["csv", "jsonl"])
def test_an_export_follows_no_link_that_waits_for_it(
    painted: Path, run_cli: Refbench, tmp_path: Path, end: str
) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (tmp_path / f".part-x.{end}").symlink_to(mine)
    assert run_cli("export", painted, "--out", tmp_path / f"x.{end}")[0] == 0
    assert mine.read_text() == "precious"
    assert (tmp_path / f"x.{end}").read_text().count("\n") == 3 + (end == "csv")


def test_a_damaged_picture_is_not_taken_over_by_a_merge(painted: Path, run_cli: Refbench, tmp_path: Path) -> None:
    blob = min((painted / "blobs").glob("*/*"))
    blob.write_bytes(blob.read_bytes()[:50])
    code, _, err = run_cli("merge", painted, "--out", tmp_path / "merged")
    assert (code, f"{blob} is damaged" in err) == (2, True), err
    assert not list((tmp_path / "merged/blobs").glob(f"*/{blob.name}"))


def test_a_picture_that_cannot_be_read_does_not_end_the_check(painted: Path, run_cli: Refbench) -> None:
    first, second, _ = sorted((painted / "blobs").glob("*/*"))
    first.unlink()
    first.symlink_to("/proc/self/mem")  # a regular file, and its first byte is an error
    second.write_bytes(b"x")
    code, out, _ = run_cli("check", painted, "--json")
    told = json.loads(out)
    assert (code, told["counts"]["pictures"]) == (2, 3)
    assert [problem["file"] for problem in told["problems"]] == [str(first), str(second)]
    assert told["problems"][0]["what"].startswith("cannot be read")


def test_a_pipe_is_no_benchmark(tmp_path: Path, run_cli: Refbench) -> None:
    os.mkfifo(tmp_path / "pipe")
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDWR)):  # whoever reads it is not kept waiting for a writer
        code, _, err = run_cli("check", tmp_path / "pipe")
    assert (code, "is a pipe or a device: save what it gives under a name that ends in .jsonl" in err) == (2, True), err
