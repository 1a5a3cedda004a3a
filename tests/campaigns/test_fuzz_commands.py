"""Hostile words on the command line: no command ends in a fault of ours, whatever options and names it is given."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from refbench.cli.app import app, main
from refbench.engine.options import flags
from refbench.pictures import encode
from support.campaigns import size

COMMANDS = (
    *("list", "check", "describe", "cases", "plan", "run", "generate", "steps", "measure", "extract", "rescore"),
    *(
        "table",
        "compare",
        "grid",
        "export",
        "merge",
        "why",
        "precision",
        "agree",
        "new",
        "failures",
        "figure",
        "publish",
    ),
    *("log", "verify", "subset", "sample", "correct", "track", "profile", "items", "claim"),
)
"""All but those that serve, fetch, build or call: demo, view, fetch, doctor, blend, build."""
WORDS = (
    *(
        "run",
        "run:a",
        "run:b",
        "cases.jsonl",
        "p.png",
        "gone",
        "gone.jsonl",
        ".",
        "n" * 300,
        "n" * 300 + ".csv",
        "é.toml",
    ),
    *("creval", "own", "ssim", "colorfulness", "canny", "overall", "paper", "a", "b", "a=baseline:copy", "a=folder:."),
    *(
        "0",
        "-1",
        "1",
        "2",
        "0.5",
        "1e9",
        "9" * 30,
        "9" * 5000,
        "nan",
        "inf",
        "-inf",
        "",
        " ",
        "x,y",
        "1-5",
        "3/8",
        "1/2",
    ),
    *(
        "\x1b[31m",
        "[/]",
        "\u202e",
        "=1+1",
        "~nouser.x/y",
        "{id}",
        "{0}",
        "%s",
        "a=b=c",
        "k=v",
        "5usd",
        "x" * 10_000,
        "\udcff",
    ),
    *(
        "openai:m?base_url=http://127.0.0.1:9/v1",
        "python:x:y",
        "folder:~nouser.x",
        "truncate(",
        "out.csv",
        "out.json",
        "out.png",
        "published",
        "marks.csv",
        "colorfulness",
        "tensorboard:logged",
    ),
)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two cases, a picture, a run of two models on them, what was published of it, and people's marks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFBENCH_DATA", str(tmp_path / "data"))
    (tmp_path / "p.png").write_bytes(encode(np.full((16, 16, 3), 90, np.uint8)))
    rows = [{"id": name, "instruction": "x", "source": "p.png", "groups": {"g": name}} for name in ("a", "b")]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "é.toml").write_bytes("a = 'é'".encode("latin-1"))
    ended = called(monkeypatch, "run", "cases.jsonl", "--metrics", "colorfulness", "--model", "a=baseline:copy",
                   "--model", "b=baseline:copy", "--out", "run")  # fmt: skip
    assert ended == 0
    assert called(monkeypatch, "publish", "run", "--to", "published", "--allow", "unknown") == 0
    (tmp_path / "marks.csv").write_text("case,model,score,probability\na,a,3,0.5\nb,b,4,0.5\na,b,2,0.5\n")
    return tmp_path


def called(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["refbench", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def options_of(command: str) -> list[str]:
    if command in ("run", "generate", "plan"):
        return [f"--{name.replace('_', '-')}" for name, _ in flags()]
    return [name for one in app[command].assemble_argument_collection() for name in one.names if name.startswith("--")]


def test_hostile_words_are_no_fault_of_ours(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(0)
    faults: Counter[str] = Counter()
    for _ in range(size(400, 5_000)):
        command = rng.choice(COMMANDS)
        known = options_of(command)
        words = [rng.choice(WORDS) for _ in range(rng.choice((0, 1, 1, 2)))]
        for _ in range(rng.randint(0, 3) if known else 0):
            words += [rng.choice(known), rng.choice(WORDS)]
        code = called(monkeypatch, command, *words)
        said = capsys.readouterr()
        if code not in (0, 1, 2, 3, 4) or "Traceback" in said.err or set(said.out + said.err) & set("\x1b\u202e"):
            faults[f"{command} {[word[:30] for word in words]}: {code} {said.err[-300:]}"] += 1
    assert not faults, "\n".join(faults)
