"""`refbench table --latex`: where the table goes, and what the options exclude."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from refbench.cli.app import main


@pytest.fixture
def run(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    words = ["rescore", "creval", "--data", checkout, "--replies", checkout / "answer_gpt", "--out", tmp_path / "run"]
    refbench(monkeypatch, capsys, *words)
    return tmp_path / "run"


def refbench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["refbench", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_a_table_is_printed_or_written_the_same(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = refbench(monkeypatch, capsys, "table", run, "--latex", "--open", "alpha", "--closed", "beta")[1]
    assert printed.index("Closed models") < printed.index("beta &")
    assert printed.index("Open weights") < printed.index("alpha &")
    target = tmp_path / "new/table.tex"
    said = refbench(
        monkeypatch, capsys, "table", run, "--latex", "--open", "alpha", "--closed", "beta", "--out", target
    )
    assert said == (0, f"written: {target}\n", "")
    assert target.read_text() == printed
    target = tmp_path / "table.json"
    refbench(monkeypatch, capsys, "table", run, "--json", "--out", target)
    assert json.loads(target.read_text())["benchmark"] == "creval"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--latex", "--json"], "exclude each other"),
        (["--open", "alpha"], "are about --latex"),
        (["--wide"], "are about --latex"),
        (["--out", "x.tex"], "say in which format"),
        (["--latex", "--closed", "gamma"], "--closed gamma: the table has alpha, beta"),
        (["--latex", "--by", "colour"], "--by colour: this table has the levels"),
    ],
)
def test_mistakes_are_said_in_a_sentence(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code, _, err = refbench(monkeypatch, capsys, "table", run, *words)
    assert code == 2
    assert said in err


def test_released_item_scores_are_a_table_without_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = refbench(monkeypatch, capsys, "table", "creval", "--csv")
    assert code == 0
    assert out.count(",avg,") > 8
    assert "were released" in refbench(monkeypatch, capsys, "table", "multibanana")[2]
    assert "of paper only" in refbench(monkeypatch, capsys, "table", "creval", "--protocol", "corrected")[2]
