"""What is kept of an unchanged run is what would be computed anew, whatever changes, and is never needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import refbench
from refbench.evidence import Evidence, Purpose
from refbench.runs import Run
from refbench.runs.derived import FOLDER
from refbench.tables.packed import PackedScores
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from support.brief_runs import evaluated

ROOT = Path(refbench.__file__).parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = evaluated(tmp_path_factory.mktemp("derived"), {"A": (0.8, 0.5, 0), "B": (0.3, 0.5, 2)}, cases=6)
    shutil.rmtree(run / FOLDER, ignore_errors=True)
    return run


@pytest.fixture
def run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of its own, of a user who has kept nothing before."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return shutil.copytree(whole, tmp_path / "run")


def tabled(run: Path, **how: str) -> Result:
    return score_run(run, draws=100, **how)  # type: ignore[arg-type]


def kept(result: Result) -> bool:
    """Whether it comes from what was kept."""
    return isinstance(result.scores, PackedScores)


def test_an_unchanged_run_is_not_read_again_and_gives_the_same(run: Path) -> None:
    first, again = tabled(run), tabled(run)
    assert not kept(first) and kept(again)
    assert (again.table, list(again.scores), again.notes) == (first.table, list(first.scores), first.notes)
    assert not kept(tabled(run, protocol="corrected")), "another question is another table"
    shutil.rmtree(run / FOLDER)
    assert not kept(tabled(run)) and kept(tabled(run)), "it is safe to delete"


def test_a_reply_more_is_in_the_next_table(run: Path) -> None:
    before = tabled(run)
    opened = Run.open(run)
    purpose, act = next((p, e) for p, e in opened.evidence() if p.model == "A" and e.reply)
    other = Purpose(**{**purpose.model_dump(), "judge": "second"})
    with opened.writer() as writer:
        writer.add(Evidence(kind="chat", request={**act.request, "model": "second"}, reply=act.reply), other)
    after = tabled(run)
    assert not kept(after) and {row.judge for row in after.table.rows} > {row.judge for row in before.table.rows}
    assert after.table.digest != before.table.digest


def test_what_is_kept_is_believed_from_this_user_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tabled(run)
    for file in (run / FOLDER).iterdir():
        file.write_bytes(file.read_bytes().replace(b"A", b"B"))
    assert not kept(tabled(run)), "somebody has edited it"
    assert kept(tabled(run))
    monkeypatch.setenv("XDG_DATA_HOME", str(run.parent / "another"))
    assert not kept(tabled(run)), "it came with a run from elsewhere"


def test_another_rubric_reads_a_kept_run_as_it_reads_a_new_one(run: Path, tmp_path: Path) -> None:
    before = tabled(run)
    rubric = tmp_path / "other.md"
    rubric.write_text((run / "benchmark/rubric.md").read_text().replace("weight = 3", "weight = 30"))
    assert tabled(run, reader=str(rubric)).table.fingerprint != before.table.fingerprint
    assert kept(tabled(run))


def test_where_nothing_can_be_kept_the_table_is_the_same(run: Path) -> None:
    before = tabled(run)
    shutil.rmtree(run / FOLDER)
    (run / FOLDER).write_text("in its place")
    again = tabled(run)
    assert not kept(again) and again.table == before.table
    (run / FOLDER).unlink()
    elsewhere = run.parent / "elsewhere"
    elsewhere.mkdir()
    (run / FOLDER).symlink_to(elsewhere)
    assert tabled(run).table == before.table and not list(elsewhere.iterdir()), "a link is not followed"


def test_an_edited_reader_or_data_file_of_refbench_is_another_version(tmp_path: Path) -> None:
    """Of a tree of links to this one, in which one file after the other is exchanged."""
    for folder, _, names in os.walk(ROOT):
        place = tmp_path / "refbench" / Path(folder).relative_to(ROOT)
        place.mkdir()
        for name in names:
            if not name.endswith(".pyc"):
                (place / name).symlink_to(Path(folder, name))

    def version() -> str:
        code = "from refbench.runs.derived import code_version as v; print(v())"
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout

    seen = {version()}
    for name in ("benchmarks/own/replies.py", "judges/rubrics/five_criteria.md"):
        file = tmp_path / "refbench" / name
        text = file.read_text()
        file.unlink()
        file.write_text(f"{text}\n")
        seen.add(version())
    assert len(seen) == 3 and "\n" not in seen
