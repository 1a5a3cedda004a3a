"""Annotations: appended, the last one stands, broken lines cost nothing but themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from refbench.cli.export import export_command
from refbench.runs import Run, merge
from refbench.runs.annotations import FILE, Annotation, annotate, read_annotations
from refbench.tables.scoring import load, rescore


@pytest.fixture
def run(checkout: Path, tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", "creval", load("creval", checkout).cases)


def test_the_last_annotation_of_a_case_stands(run: Run) -> None:
    annotate(run, Annotation(case="a", star=True, comment="first"))
    annotate(run, Annotation(case="b", tags=("odd", "dark")))
    annotate(run, Annotation(case="a", comment="second thoughts"))
    standing = read_annotations(run.path).standing
    assert list(standing) == ["a", "b"]
    assert (standing["a"].star, standing["a"].comment) == (False, "second thoughts")
    assert standing["b"].tags == ("odd", "dark")
    assert len((run.path / FILE).read_text().splitlines()) == 3, "nothing is ever rewritten"


def test_an_empty_annotation_takes_back_what_was_there(run: Run) -> None:
    annotate(run, Annotation(case="a", star=True))
    annotate(run, Annotation(case="a"))
    assert read_annotations(run.path).standing == {}


def test_a_run_without_annotations_has_none(run: Run) -> None:
    found = read_annotations(run.path)
    assert (found.standing, found.unread) == ({}, 0)


def test_broken_lines_are_counted_and_the_others_read(run: Run) -> None:
    annotate(run, Annotation(case="a", star=True))
    with (run.path / FILE).open("ab") as file:
        file.write(b'{"case": 7}\nnot json\n\xff\xfe\n\n')
        file.write(b'{"case": "cut off", "st')  # a writer was killed here
    annotate(run, Annotation(case="b", star=True))
    found = read_annotations(run.path)
    assert list(found.standing) == ["a", "b"]
    assert found.unread == 4


def test_of_several_runs_what_was_noted_last_stands(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    lines = [Annotation(case="a", comment="old", time=1.0), Annotation(case="a", comment="new", time=5.0)]
    (other / FILE).write_text("".join(line.model_dump_json() + "\n" for line in lines))
    annotate(run, Annotation(case="a", comment="between", time=3.0))
    assert read_annotations(run.path, other).standing["a"].comment == "new"
    assert read_annotations(other, run.path).standing["a"].comment == "new"
    annotate(run, Annotation(case="a", time=9.0))
    assert read_annotations(run.path, other).standing == {}, "taken back later than it was made"


@pytest.mark.parametrize(
    "wrong",
    [
        {"case": ""},
        {"case": "a", "tags": ["x" * 201]},
        {"case": "a", "comment": "x" * 20_001},
        {"case": "a", "who": "me"},
    ],
)
def test_what_is_no_annotation_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Annotation.model_validate(wrong)


def test_a_run_with_annotations_is_still_a_run_that_can_be_resumed(checkout: Path, tmp_path: Path) -> None:
    def again() -> object:
        return rescore("creval", data=checkout, replies=checkout / "answer_gpt", out=tmp_path / "run", draws=0)

    again()
    annotate(Run.open(tmp_path / "run"), Annotation(case="item_000.0", star=True))
    (tmp_path / "run/run.json").unlink()  # only a directory whose files are all ours may become a run
    again()
    assert read_annotations(tmp_path / "run").standing["item_000.0"].star


def test_a_merge_keeps_what_was_noted_last_and_says_it_once(checkout: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        rescore("creval", data=checkout, replies=checkout / "answer_gpt", out=tmp_path / name, draws=0)
    annotate(Run.open(tmp_path / "one"), Annotation(case="a", comment="earlier", time=1.0))
    annotate(Run.open(tmp_path / "two"), Annotation(case="a", comment="later", time=2.0))
    annotate(Run.open(tmp_path / "two"), Annotation(case="b", star=True, time=2.0))
    for _ in range(2):
        merge([tmp_path / "one", tmp_path / "two"], tmp_path / "both")
    assert {case: said.comment for case, said in read_annotations(tmp_path / "both").standing.items()} == {
        "a": "later",
        "b": "",
    }
    assert len((tmp_path / "both" / FILE).read_text().splitlines()) == 2


def test_annotations_are_exported(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    annotate(run, Annotation(case="a", star=True, tags=("odd",), comment="Zeile\nzwei", time=2.5))
    with (run.path / FILE).open("a") as file:
        file.write("broken\n")
    assert export_command(run.path, out=tmp_path / "notes.jsonl", what="annotations") == 0
    row = {"case": "a", "star": True, "tags": ["odd"], "comment": "Zeile\nzwei", "time": 2.5}
    assert json.loads((tmp_path / "notes.jsonl").read_text()) == row
    assert "1 lines of annotations.jsonl could not be read" in capsys.readouterr().err
