"""People without any judge: outputs in folders, a run of nothing else, a study of it, and the run's table by people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.evidence import PEOPLE
from refbench.pictures import encode
from refbench.runs import Run
from refbench.studies.items import Item
from refbench.studies.shown import Shown
from refbench.studies.study import Study
from support.five_criteria import FIVE
from support.ideabench import Design, designs, write_checkout, write_outputs
from support.judge_server import JudgeServer
from support.study_raters import answer_all, marks_by

QUALITY = {"good": 1.0, "poor": 0.0}


def own_cases(root: Path, *, missing: int = 0) -> Path:
    """Cases of one's own, and outputs of two models in folders; the poor one lacks the first few."""
    rng = np.random.default_rng(3)
    rows = []
    for model in QUALITY:
        (root / model).mkdir(parents=True)
    for n in range(8):
        (root / f"{n}.png").write_bytes(encode(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)))
        references = [{"path": f"{n}.png", "role": "subject"}]
        rows.append({"id": f"case{n}", "instruction": f"Paint {n}", "references": references})
        for model in QUALITY:
            if model == "good" or n >= missing:
                picture = encode(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
                (root / model / f"case{n}.png").write_bytes(picture)
    (root / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return root / "cases.jsonl"


def folders(root: Path) -> list[str]:
    return [word for model in QUALITY for word in ("--model", f"{model}=folder:{root / model}")]


def test_outputs_in_folders_are_marked_by_people_alone_and_tabled(tmp_path: Path, run_cli: Any) -> None:
    cases, out = own_cases(tmp_path / "mine", missing=2), tmp_path / "run"
    code, said, _ = run_cli("generate", cases, *folders(tmp_path / "mine"), "--rubric", "five_criteria", "--out", out)
    assert code == 1 and "14 outputs" in said and "2 missing_output" in said  # a file that is not there is a state
    code, said, _ = run_cli("study", "new", tmp_path / "s", "--from", out, "--screen", "rate")
    assert code == 0 and "2 outputs failed and cannot be shown" in said
    study = Study.open(tmp_path / "s")
    for _ in range(2):
        answer_all(study, study.raters.add(), marks_by(lambda item: QUALITY[item.models[0]]))
    assert run_cli("study", "export", tmp_path / "s", "--into", out)[0] == 0
    assert sum(p.judge == PEOPLE for p, _ in Run.open(out).evidence()) == 2 * 14
    code, said, _ = run_cli("table", out, "--json")
    assert code == 0
    rows = {
        (row["model"], row["metric"]): row
        for row in json.loads(said)["rows"]
        if row["judge"] == PEOPLE and row["slice"] == {"level": "overall"}
    }
    for name in FIVE:
        assert rows["good", name]["value"] == 10 and rows["good", name]["n_scored"] == 8
        assert rows["poor", name]["value"] == 1 and rows["poor", name]["n_scored"] == 6
        assert rows["poor", name]["failures"] == {"missing_output": 2}
    assert run_cli("compare", out, "--judge", PEOPLE)[0] == 0
    assert run_cli("study", "export", tmp_path / "s", "--out", tmp_path / "people.csv")[0] == 0
    code, _, err = run_cli("agree", out, "--humans", tmp_path / "people.csv", "--scale", "1-10")
    assert code == 2 and "no marks but those of people" in err
    # A file that has come since is found by the same command.
    picture = encode(np.full((12, 16, 3), 9, np.uint8))
    for n in range(2):
        (tmp_path / f"mine/poor/case{n}.png").write_bytes(picture)
    assert run_cli("generate", cases, *folders(tmp_path / "mine"), "--out", out)[0] == 0
    assert sum(bool(output.pictures) for output in Run.open(out).outputs()) == 16


def test_marks_for_a_run_without_a_rubric_say_what_is_missing(tmp_path: Path, run_cli: Any) -> None:
    cases, out = own_cases(tmp_path / "mine"), tmp_path / "run"
    assert run_cli("generate", cases, *folders(tmp_path / "mine"), "--out", out)[0] == 0
    new = ("study", "new", tmp_path / "s", "--from", out, "--screen", "rate")
    code, _, err = run_cli(*new)
    assert code == 2 and "--rubric" in err
    assert run_cli(*new, "--rubric", "five_criteria")[0] == 0
    study = Study.open(tmp_path / "s")
    answer_all(study, study.raters.add(), marks_by(lambda item: QUALITY[item.models[0]]))
    assert run_cli("study", "export", tmp_path / "s", "--out", tmp_path / "people.csv")[0] == 0
    code, _, err = run_cli("study", "export", tmp_path / "s", "--into", out)
    assert code == 2 and "refbench generate with --rubric five_criteria" in err
    assert run_cli("generate", cases, *folders(tmp_path / "mine"), "--rubric", "five_criteria", "--out", out)[0] == 0
    assert run_cli("study", "export", tmp_path / "s", "--into", out)[0] == 0


def test_a_judge_may_come_after_the_people(tmp_path: Path, run_cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cases, out = own_cases(tmp_path / "mine"), tmp_path / "run"
    under = ("--rubric", "five_criteria", "--out", out)
    assert run_cli("generate", cases, *folders(tmp_path / "mine"), *under)[0] == 0
    assert run_cli("study", "new", tmp_path / "s", "--from", out, "--screen", "rate")[0] == 0
    study = Study.open(tmp_path / "s")
    answer_all(study, study.raters.add(), marks_by(lambda item: QUALITY[item.models[0]]))
    assert run_cli("study", "export", tmp_path / "s", "--into", out)[0] == 0
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    with JudgeServer(reply=lambda text: json.dumps({"reasoning": "seen", **dict.fromkeys(FIVE, 5)})) as server:
        judge = f"eye=openai:gpt-4o?base_url={server.url}/v1"
        assert run_cli("run", cases, *folders(tmp_path / "mine"), *under, "--judge", judge)[0] == 0
    code, said, _ = run_cli("table", out, "--json")
    found = {(row["model"], row["judge"]): row["value"] for row in json.loads(said)["rows"] if row["metric"] == "total"}
    assert code == 0
    assert found == {("good", "eye"): 5, ("poor", "eye"): 5, ("good", PEOPLE): 10, ("poor", PEOPLE): 1}


def test_ideabench_without_a_judge_is_asked_of_people_and_tabled_over_all_cases(tmp_path: Path, run_cli: Any) -> None:
    made = [
        Design(d.slug, d.uid, d.category, d.number, d.inputs, d.outputs, d.number == 1, d.count_question)
        for d in designs(2)
    ]  # the second case of each task has questions for people only
    write_checkout(tmp_path / "data", made)
    for model in QUALITY:
        write_outputs(tmp_path / model, made)
    out = tmp_path / "run"
    data = ("--data", tmp_path / "data", "--subset", "all", "--out", out)
    assert run_cli("generate", "ideabench", *folders(tmp_path), *data)[0] == 0
    assert run_cli("study", "new", tmp_path / "s", "--from", out, "--screen", "questions")[0] == 0
    study = Study.open(tmp_path / "s")
    assert sum(item.use == "item" for item in study.items.values()) == 2 * len(made)

    def answers(item: Item, shown: Shown) -> dict[str, int]:
        if item.use != "item" or item.models[0] == "poor":
            return {"Q1": 0, "Q2": 0}
        return {f"Q{n}": 1 for n in range(1, 7)}

    for _ in range(2):
        answer_all(study, study.raters.add(), answers)
    code, said, _ = run_cli("study", "table", tmp_path / "s", "--json")
    assert code == 0
    rows = json.loads(said)["rows"]
    found = {
        row["model"]: (row["value"], row["n_scored"])
        for row in rows
        if row["metric"] == "score" and row["slice"] == {"level": "overall"}
    }
    assert found == {"good": (100, len(made)), "poor": (0, len(made))}
    assert run_cli("study", "export", tmp_path / "s", "--into", out)[0] == 0
    code, said, _ = run_cli("table", out)
    assert code == 0 and "people" in said
