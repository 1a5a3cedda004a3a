"""A run published as a folder, read by others, and held against its own evidence by them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from refbench.machine import scratch_prefix
from refbench.record import RefBenchError
from refbench.report.publish.publish import Publishing, publish_folder
from refbench.report.publish.verify import Verified, verify
from refbench.runs.published import NOTES, Private, manifest_of
from refbench.tables.scoring import score_run
from support.brief_runs import evaluated

Cli = Callable[..., tuple[int, str, str]]
SECRET = "zq81-very-private-token"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated(tmp_path_factory.mktemp("published"), {"A": (0.8, 0.5, 0), "B": (0.3, 0.5, 2)}, cases=6)


@pytest.fixture(scope="module")
def licences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("licences") / "licences.csv"
    path.write_text(
        "picture,licence,author\npics/0.png,CC BY 4.0,someone\npics/1.png,All rights reserved,\npics/2.*,cc0-1.0,\n"
    )
    return path


@pytest.fixture(scope="module")
def whole(run: Path, licences: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "dataset"
    publish_folder(run, folder, Publishing(licences=licences, outputs_licence="CC-BY-4.0", draws=200))
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy to be tampered with."""
    return Path(shutil.copytree(whole, tmp_path / "dataset"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def tampered(folder: Path, name: str, change: Callable[[str], str]) -> None:
    """Change a file and the hash of it, as whoever wants to deceive would."""
    file, manifest = folder / name, json.loads((folder / "refbench.json").read_text())
    before = file.read_text()
    file.write_text(change(before))
    assert file.read_text() != before
    manifest["files"][name] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "refbench.json").write_text(json.dumps(manifest))


def with_manifest(folder: Path, **changed: Any) -> None:
    manifest = json.loads((folder / "refbench.json").read_text())
    (folder / "refbench.json").write_text(json.dumps({**manifest, **changed}))


def where(found: Verified) -> str:
    return "\n".join(one.where for one in found.differences)


def test_what_is_published_gives_the_same_table(run: Path, whole: Path) -> None:
    ours, theirs = score_run(run, draws=200), score_run(whole, draws=200)
    assert theirs.table.rows == ours.table.rows and theirs.table.digest == ours.table.digest
    assert theirs.table.fingerprint == ours.table.fingerprint
    found = verify(whole)
    assert (found.exit_code, found.differences, found.why) == (0, (), "")
    assert found.cells == len(ours.table.rows) and found.scores == len(ours.scores)


def test_a_published_folder_is_compared_like_a_run(run: Path, whole: Path, run_cli: Cli) -> None:
    words = ("--draws", "100", "--json")
    code, theirs, _ = run_cli("compare", f"{whole}:A", f"{run}:B", *words)
    _, ours, _ = run_cli("compare", f"{run}:A", f"{run}:B", *words)
    gap = [json.loads(said)["pairs"][0] for said in (theirs, ours)]
    assert code == 0 and gap[0]["gap"] == gap[1]["gap"] and gap[0]["ci95"] == gap[1]["ci95"]
    assert not json.loads(theirs)["differences"]
    assert run_cli("table", whole)[0] == 0


def test_what_a_killed_command_left_beside_the_folder_is_removed(run: Path, tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = tmp_path / scratch_prefix().replace(f"-{os.getpid()}-", f"-{dead.pid}-left")
    (left / "published").mkdir(parents=True)
    publish_folder(run, tmp_path / "published", Publishing(draws=100))
    assert [path.name for path in tmp_path.iterdir()] == ["published"]


def test_nothing_of_this_machine_is_published(
    run: Path, licences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = "You rate pictures that an image model made"  # as if a reply had quoted a key
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    monkeypatch.setenv("MY_TOKEN", word)
    folder = tmp_path / "again"
    publish_folder(run, folder, Publishing(licences=licences, draws=200))
    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for private in (str(run.parent), "127.0.0.1", SECRET, word):
        assert private.encode() not in everything, private
    assert b"openai server-1" in everything and b"[redacted]" in everything
    assert verify(folder).exit_code == 0
    monkeypatch.setenv("MY_TOKEN", "instruction_alignment")
    with pytest.raises(RefBenchError, match="unset the variable if it is no secret"):
        publish_folder(run, tmp_path / "not", Publishing(draws=200))
    assert not (tmp_path / "not").exists()


def test_two_servers_stay_two_and_those_that_everyone_knows_are_named() -> None:
    private = Private()
    first, second = private.name("openai http://10.0.0.3:8000/v1"), private.name("openai http://10.0.0.4:8000/v1")
    assert (first, second) == ("openai server-1", "openai server-2")
    assert private.name("openai http://10.0.0.3:8000/v1") == first
    assert private.name("openai https://api.openai.com/v1") == "openai https://api.openai.com/v1"
    assert private.name("openai https://api.openai.com.evil.example/v1") == "openai server-3"
    assert private.name("no file at /home/someone/out/A/c1.png") == "no file at c1.png"
    assert private.name("Qwen/Qwen3-VL-8B") == "Qwen/Qwen3-VL-8B"


def test_pictures_are_published_by_their_licence(whole: Path) -> None:
    told = {line["name"]: line for line in lines(whole / "pictures.jsonl")}
    assert told["pics/0.png"]["left_out"] == "" and told["pics/0.png"]["author"] == "someone"
    assert "All rights reserved" in told["pics/1.png"]["left_out"]
    assert told["pics/2.png"]["left_out"] == "" and told["pics/3.png"]["left_out"] == "its licence is not known"
    assert told["A/case00"]["left_out"] == "" and told["A/case00"]["licence"] == "CC-BY-4.0"
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(whole / "pictures/00001.parquet").to_pylist()
    assert {row["name"] for row in rows} == {name for name, line in told.items() if not line["left_out"]}
    assert all(hashlib.sha256(row["image"]["bytes"]).hexdigest() == row["sha256"] for row in rows)
    assert "4 input pictures left out" not in (whole / "README.md").read_text()
    assert "3 input pictures left out: its licence is not known" in (whole / "README.md").read_text()


def test_without_a_stated_licence_no_picture_leaves_and_only_a_word_for_it_lets_it(run: Path, tmp_path: Path) -> None:
    none = publish_folder(run, tmp_path / "a", Publishing(draws=200))
    assert none.pictures == 0 and none.left_out == {"its licence is not known": 16}
    assert not (tmp_path / "a/pictures").exists()
    allowed = publish_folder(run, tmp_path / "b", Publishing(draws=200, allow=("unknown",)))
    assert allowed.pictures == 16 and {line["licence"] for line in lines(tmp_path / "b/pictures.jsonl")} == {"unknown"}


def test_a_picture_that_changed_since_is_not_published(run: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run.parent / "pics", tmp_path / "data/pics").parent
    (other / "pics/0.png").write_bytes((other / "pics/1.png").read_bytes())
    made = publish_folder(run, tmp_path / "out", Publishing(draws=200, allow=("unknown",), data=other))
    assert made.left_out == {"it is not the picture that was used": 1}


def test_a_dry_run_leaves_nothing_and_a_folder_that_is_there_is_not_written_over(
    run: Path, tmp_path: Path, run_cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said, _ = run_cli("publish", run, "--to", "hub:someone/dataset", "--dry-run")
    assert code == 0 and "would be published in hub:someone/dataset; nothing was written or sent" in said
    assert "16 pictures left out: its licence is not known" in said and not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    code, _, error = run_cli("publish", run, "--to", "mine")
    assert code == 2 and "something is there already" in error
    code, _, error = run_cli("publish", run, "--to", "hub:../../etc", "--dry-run")
    assert code == 2 and "hub:USER/NAME" in error
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", "notes.txt"]


def test_the_results_among_the_metadata_are_numbers_alone(whole: Path) -> None:
    card = (whole / "README.md").read_text()
    head = card.split("---\n")[1]
    index = json.loads(next(line for line in head.splitlines() if line.startswith("model-index: ")).partition(": ")[2])
    assert [entry["name"] for entry in index] == ["A", "B"]
    metrics = index[1]["results"][0]["metrics"]
    total = next(metric for metric in metrics if metric["type"] == "total")
    assert total["args"]["n_scored"] == 4 and total["args"]["failures"] == {"missing_output": 2}
    assert all(isinstance(metric["value"], float) for metric in metrics)


# Whoever publishes may lie, and whoever verifies runs nothing of theirs.


def test_a_number_that_the_evidence_does_not_give_is_found(folder: Path, run_cli: Cli) -> None:
    def better(text: str) -> str:
        rows = [json.loads(line) for line in text.splitlines()]
        rows[0]["value"] += 0.01
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    tampered(folder, "table.jsonl", better)
    (one,) = verify(folder).differences
    assert one.where.endswith(": value") and one.where.startswith("A, eye, corrected, ")
    code, said, _ = run_cli("verify", folder)
    assert code == 1 and "1 difference" in said and one.recomputed in said


def test_a_reply_that_was_bettered_moves_every_number_of_it(folder: Path) -> None:
    def better(text: str) -> str:
        first, *others = text.splitlines()
        act = json.loads(first)
        act["evidence"]["reply"] = re.sub(r'("instruction_alignment": )\d+', r"\g<1>1", act["evidence"]["reply"])
        return "\n".join([json.dumps(act), *others]) + "\n"

    tampered(folder, "evidence/00001.jsonl", better)
    found = where(verify(folder))
    assert "digest" in found and "score of case" in found and "corrected, total" in found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text + text.splitlines()[0] + "\n", ("there twice",)),
        (lambda text: "\n".join(text.splitlines()[1:]) + "\n", ("no such cell",)),
    ],
)
def test_cells_that_are_there_twice_or_left_out_are_found(
    folder: Path, change: Callable[[str], str], words: tuple[str, ...]
) -> None:
    tampered(folder, "table.jsonl", change)
    assert [one.published for one in verify(folder).differences] == list(words)


def test_a_card_that_boasts_is_found(folder: Path) -> None:
    tampered(folder, "README.md", lambda text: text.replace('"value": ', '"value": 9', 1))
    assert where(verify(folder)) == "README.md"


def test_a_card_with_another_table_is_found(folder: Path) -> None:
    tampered(folder, "README.md", lambda text: text.replace("| A |", "| B |", 1))
    assert where(verify(folder)) == "README.md"


def test_damage_is_named_before_anything_is_read(folder: Path) -> None:
    with (folder / "outputs.jsonl").open("a") as file:
        file.write("{}\n")
    (folder / "scores.jsonl").unlink()
    assert where(verify(folder)).splitlines() == [
        "outputs.jsonl is not the file that was published",
        "scores.jsonl is not there",
    ]


def test_code_of_the_folder_is_never_run(folder: Path, run_cli: Cli, tmp_path: Path) -> None:
    flag = tmp_path / "executed"
    evil = f"open({str(flag)!r}, 'w').write('x')\n"
    for name in ("benchmark.py", "evil.py", "sitecustomize.py", "conftest.py"):
        (folder / name).write_text(evil)
    with_manifest(folder, notes={"measures ./evil.py:metric": "", f"measures {folder}/evil.py:metric": ""})
    assert run_cli("verify", folder)[0] == 2
    with_manifest(folder, benchmark="evil", code="0123")
    code, said, _ = run_cli("verify", folder)
    assert code == 4 and "not verifiable: own code" in said
    with_manifest(folder, benchmark=str(folder / "benchmark.py"))
    assert run_cli("verify", folder)[0] == 4
    assert run_cli("table", folder)[0] == 2
    assert not flag.exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"files": {"../../../etc/passwd": "0" * 64}}, "no file of a published run"),
        ({"files": {"/etc/passwd": "0" * 64}}, "no file of a published run"),
        ({"files": {"evidence/../../x.jsonl": "0" * 64}}, "no file of a published run"),
        ({"draws": 10**9}, "not as RefBench writes it"),
        ({"seed": -1}, "not as RefBench writes it"),
        ({"schema_version": 99}, "newer RefBench"),
        ({"schema_version": -(10**30)}, "not as RefBench writes it"),
        ({"unheard": 1}, "not as RefBench writes it"),
        ({"refusals": "whatever"}, "--refusals"),
    ],
)
def test_a_manifest_of_strangers_names_nothing_else(
    folder: Path, changed: Mapping[str, Any], words: str, run_cli: Cli
) -> None:
    with_manifest(folder, **changed)
    code, _, said = run_cli("verify", folder)
    assert code == 2 and words in said


def test_links_are_not_followed(folder: Path, tmp_path: Path, run_cli: Cli) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("something private\n")
    (folder / "cases.jsonl").unlink()
    (folder / "cases.jsonl").symlink_to(secret)
    code, out, said = run_cli("verify", folder)
    assert code == 2 and "no link is followed" in said and "something private" not in out + said
    code, _, said = run_cli("compare", f"{folder}:A", f"{folder}:B")
    assert code == 2 and "no link is followed" in said


def test_lines_that_are_no_records_are_named_and_not_quoted(folder: Path, run_cli: Cli) -> None:
    tampered(folder, "evidence/00001.jsonl", lambda text: "[" * 5000 + "\n" + text)
    code, _, said = run_cli("verify", folder)
    assert code == 2 and "00001.jsonl" in said and len(said) < 400


def test_notes_that_do_not_shape_a_table_are_not_taken_over(folder: Path) -> None:
    before = manifest_of(folder)
    with_manifest(folder, notes={**before.notes, "pictures": "/etc", "data": "/etc"})
    from refbench.runs.published import open_run

    run = open_run(folder)
    assert not run.notes("pictures") and not run.notes("data")


def test_every_note_that_shapes_a_table_is_published() -> None:
    from refbench.runs.ledger import ANSWERED, SEEDS, SERVED
    from refbench.tables import scoring

    shaping = (SEEDS, SERVED, ANSWERED, scoring.DESIGN, scoring.CHOSEN, scoring.STOPPING, scoring.STOPPED)
    assert all(name.startswith(NOTES) for name in (*shaping, scoring._GIVEN, scoring._SOURCE, scoring._MEASURES))


def test_what_is_no_published_folder_is_said(run: Path, tmp_path: Path, run_cli: Cli) -> None:
    for place, words in ((run, "was not published by RefBench"), (tmp_path / "none", "is not there")):
        code, _, said = run_cli("verify", place)
        assert code == 2 and words in said
