"""Names of strangers in every command: shown as text, written so that no spreadsheet computes them, verbatim in JSON."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from refbench.cli.app import main
from refbench.pictures import encode
from support.checkout import plain_items, write_checkout, write_replies
from support.raw_server import RawServer, http

Outcome = tuple[int, str, str]
Refbench = Callable[..., Outcome]

NAMES = ("=HYPERLINK(1)\x1b[31m\x1b]0;x\x07", "[red]\u202egnp\x9b2J|<b>\u200b")
FORBIDDEN = "\x1b\x07\x9b\u202e\u200b\r"


def shown(outcome: Outcome) -> str:
    code, out, err = outcome
    assert code in (0, 1, 2), (code, err)
    assert "a fault in RefBench" not in err
    assert not set(out + err) & set(FORBIDDEN)
    return out + err


def test_hostile_model_names_are_text_in_every_table(run_cli: Refbench, tmp_path: Path) -> None:
    items = plain_items(3)
    data = write_checkout(tmp_path / "creval", items)
    for number, name in enumerate(NAMES):
        write_replies(data / "answer_gpt", name, items, seed=number)
    run = tmp_path / "run"
    words = ("rescore", "creval", "--data", data, "--replies", data / "answer_gpt", "--out", run)
    assert r"\u001b[31m" in shown(run_cli(*words))
    for form in ("--markdown", "--latex"):
        shown(run_cli("table", run, form))
    assert {row["model"] for row in json.loads(run_cli("table", run, "--json")[1])["rows"]} == set(NAMES)
    cells = [row["model"] for row in csv.DictReader(io.StringIO(shown(run_cli("table", run, "--csv"))))]
    assert cells
    assert not any(cell.startswith("=") for cell in cells)
    for command in (
        ("compare", run),
        ("precision", run),
        ("why", f"{run}:{NAMES[0]}", f"{run}:{NAMES[1]}"),
        ("table", f"{run}x{NAMES[0]}\nrefbench: done"),
    ):
        assert "\nrefbench: done" not in shown(run_cli(*command))
    for suffix in ("csv", "jsonl"):
        assert run_cli("export", run, "--out", tmp_path / f"scores.{suffix}")[0] == 0
    with (tmp_path / "scores.csv").open(newline="", encoding="utf-8") as file:
        assert {row["model"] for row in csv.DictReader(file)} == {f"'{NAMES[0]}", NAMES[1]}
    assert {json.loads(line)["model"] for line in (tmp_path / "scores.jsonl").read_text().split("\n")[:-1]} == set(
        NAMES
    )


def test_neither_a_server_nor_a_dataset_begins_a_line_of_its_own(
    run_cli: Refbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie = "x\n\nrefbench: complete"
    picture(tmp_path / "p.png")
    groups = {"g\nrefbench: complete": lie}
    row = {"id": "a", "instruction": "Paint.", "references": [{"path": "p.png", "role": lie}], "groups": groups}
    (tmp_path / "cases.jsonl").write_text(json.dumps(row))
    monkeypatch.chdir(tmp_path)
    printed = shown(run_cli("describe", "cases.jsonl"))
    with RawServer(lambda asked: [http({"error": {"message": lie}}, 400)]) as server:
        judge = f"j=openai:x?base_url={server.url}/v1"
        words = ("--rubric", "five_criteria", "--model", "m=baseline:copy", "--judge", judge, "--out", "run")
        printed += shown(run_cli("run", "cases.jsonl", *words))
        printed += shown(run_cli("generate", "cases.jsonl", "--model", f"m={server.url}/", "--out", "made"))
    assert printed.count(", one of them") == 2
    assert "\nrefbench: complete" not in printed


def test_hostile_cases_are_tabled_and_come_back_from_csv_as_they_were(run_cli: Refbench, tmp_path: Path) -> None:
    """A group called `[/]` ended the printer with a fault."""
    picture(tmp_path / "p.png")
    same = {"instruction": "- make it blue", "source": "p.png"}
    rows = [
        {**same, "id": "-a\x1b[2J", "groups": {"[/]": "\x1b[31m[/bold]"}, "tags": ["@\u202ex"]},
        {**same, "id": "'@b", "groups": {"[/]": "=x"}, "instruction": "=1+1"},
    ]
    cases, run = tmp_path / "cases.jsonl", tmp_path / "run"
    cases.write_text("\n".join(map(json.dumps, rows)))
    shown(run_cli("check", cases))
    models = ("--model", "a=baseline:copy", "--model", "b=suffix(baseline:copy; text=x)")
    assert "2/2" in shown(run_cli("run", cases, "--metrics", "colorfulness", *models, "--out", run))
    assert "[/bold]" in shown(run_cli("table", run, "--by", "[/]"))
    assert "[/]" in shown(run_cli("compare", run, "--by", "[/]"))
    assert run_cli("cases", cases, "--out", tmp_path / "cases.csv")[0] == 0
    with (tmp_path / "cases.csv").open(newline="", encoding="utf-8") as file:
        assert [one["instruction"] for one in csv.DictReader(file)] == ["'- make it blue", "'=1+1"]
    before, after = (run_cli("cases", path)[1] for path in (cases, tmp_path / "cases.csv"))
    assert list(map(json.loads, before.splitlines())) == list(map(json.loads, after.splitlines()))


def picture(path: Path) -> None:
    path.write_bytes(encode(np.full((16, 16, 3), 90, np.uint8)))


@pytest.mark.parametrize(
    ("words", "file", "says"),
    [
        ("check {tmp}/c.jsonl", b'{"id": "a", "instruction": "x", "source": "//r.png"}', ""),
        ("check {tmp}/c.jsonl", b'{"id": "a", "instruction": "x", "source": "~nouser.x/r.png"}', "c.jsonl, line 1: nobody's home is"),
        ("check {tmp}/c.jsonl", b'{"id": "a", "instruction": "x", "source": "' + b"n" * 300 + b'.png"}', ""),
        ("check {tmp}/c.csv", "id,instruction\na,é".encode("latin-1"), "c.csv, line 2 is not UTF-8"),
        ("check {tmp}/c.csv", b"id,instruction\na," + b"x" * 140_000, ""),
        ("check {tmp}/c.jsonl", b'{"id": "a", "instruction": "x", "groups": ' + b"[" * 20_000, "line 1 is not valid JSON"),
        ("run {tmp}/c.toml", b"a = " + b"[" * 20_000, "c.toml is nested more than"),
        ("run {tmp}/c.toml", b".".join([b"a"] * 20_000) + b" = 1", "c.toml has more than"),
        ("agree {tmp}/c.csv", "case,score\na,é\n".encode("latin-1"), "c.csv, line 2 is not UTF-8"),
        ("export {tmp}/x --out /proc/nowhere/x.csv", b"", "is not there"),
    ],
)  # fmt: skip
def test_bad_files_are_one_sentence_and_no_fault_of_ours(
    run_cli: Refbench, tmp_path: Path, words: str, file: bytes, says: str
) -> None:
    (tmp_path / f"c.{words.partition('c.')[2].partition(' ')[0] or 'txt'}").write_bytes(file)
    code, _, err = run_cli(*words.format(tmp=tmp_path).split())
    assert code == (2 if says else 0), err
    assert says in err
    assert err.count("\n") <= 1


def test_what_the_system_refuses_is_no_fault_of_ours(
    run_cli: Refbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "abc")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "1")
    cases = tmp_path / "c.jsonl"
    cases.write_text('{"id": "a", "instruction": "x"}')
    code, _, err = run_cli("run", cases, "--model", "baseline:copy", "--out", tmp_path / "run")
    assert (code, "SLURM_ARRAY_TASK_COUNT" in err) == (2, True)
    for words in (("run", "x", "--seeds", "\x1b[31m"), ("list", "\u202e\udcff")):
        assert r"\u" in shown(run_cli(*words))
    code, _, err = run_cli("table", tmp_path / ("n" * 300))
    assert (code, "File name too long" in err) == (2, True)


def test_main_leaves_the_streams_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    before = sys.stdout, sys.stderr
    monkeypatch.setattr(sys, "argv", ["refbench", "--version"])
    with pytest.raises(SystemExit):
        main()
    assert (sys.stdout, sys.stderr) == before
    assert os.environ.get("REFBENCH_DEBUG") is None


def test_pictures_outside_the_folder_of_ones_own_cases_are_counted(
    run_cli: Refbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for place in (here / "in.png", tmp_path / "private.png", tmp_path / "linked.png"):
        picture(place)
    (here / "link.png").symlink_to(tmp_path / "linked.png")
    names = ["in.png", "../private.png", str(tmp_path / "private.png"), "link.png"]
    rows = [{"id": str(n), "instruction": "Paint.", "source": name} for n, name in enumerate(names)]
    (here / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (here / "mine.jsonl").write_text(json.dumps(rows[0]))
    monkeypatch.chdir(here)
    says = f"2 pictures lie outside {here}; with a file from someone else, look at them before they are sent"
    words = (
        "--rubric",
        "five_criteria",
        "--model",
        "m=baseline:copy",
        "--judge",
        "j=openai:x?base_url=http://127.0.0.1:9",
    )
    for command, more in (("check", ()), ("plan", words)):
        assert says in " ".join(shown(run_cli(command, "cases.jsonl", *more)).split()), command
        assert "lie outside" not in shown(run_cli(command, "mine.jsonl", *more))
