"""Lists of outputs: what is wrong with one is said, whatever bytes it is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from refbench.case import Case, Request
from refbench.failure import Failure
from refbench.models.folder import FolderModel
from refbench.record import RefBenchError
from refbench.specs import Spec

CASE = Case(id="a", request=Request(instruction="x"), cluster="a", details=None)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("list.csv", "id,path\na,é.png".encode("latin-1"), "list.csv, line 2 is not UTF-8"),
        ("list.jsonl", b"[" * 20_000, "list.jsonl, line 1 is not valid JSON"),
        ("list.jsonl", b"[1]", "is no list of outputs"),
        ("list.json", b"[" * 150 + b"]" * 150, "list.json is nested more than 100 deep"),
        ("list.csv", b"id,path\na," + b"n" * 300 + b".png", "no output found for any case"),
        ("list.csv", b"id,path\na,b\0.png", "no output found for any case"),
        ("list.json", b'{"a": "results/m/1.png"}', "list.json names results/m/1.png for a, and there is no "),
        ("list.json", b'{"b": "1.png"}', "list.json lists b and the like, the cases are a and the like"),
        ("list.json", b"{}", "list.json lists nothing"),
        ("list.csv", b"id,path,n\na,a.png," + b"9" * 5000, "is no list of outputs"),
    ],
)
def test_a_list_that_cannot_be_used_is_named(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(RefBenchError) as caught:
        FolderModel(Spec.read(f"m=folder:{path}"), [CASE], lambda case: [case.id])
    assert says in str(caught.value)


def test_a_guarded_name_and_a_long_field_are_read(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    (tmp_path / "+a.png").touch()
    path.write_text(f"id,path,note\na,'+a.png,{'x' * 140_000}\n")
    model = FolderModel(Spec.read(f"m=folder:{path}"), [CASE], lambda case: [case.id])
    assert model.find(CASE) == (tmp_path / "+a.png",)


@pytest.mark.parametrize("stands", [".", "results", "results/m"])
def test_a_list_that_counts_from_a_checkout_is_read_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands: str
) -> None:
    """And a picture of another folder that lies above the list by chance is nobody's."""
    folder = tmp_path / "results/m"
    (folder / "images").mkdir(parents=True)
    (folder / "images/1.png").touch()
    (folder / "gen_info.json").write_text('{"a": "results/m/images/1.png"}')
    monkeypatch.chdir(tmp_path / stands)
    given = (folder / "gen_info.json").relative_to(tmp_path / stands)
    model = FolderModel(Spec.read(f"m=folder:{given}"), [CASE], lambda case: [case.id])
    assert model.find(CASE) == (tmp_path / "results/m/images/1.png",)
    (tmp_path / "b.png").touch()
    (folder / "gen_info.json").write_text('{"a": "b.png"}')
    monkeypatch.chdir(folder)
    with pytest.raises(RefBenchError, match=r"names b\.png for a"):
        FolderModel(Spec.read("m=folder:gen_info.json"), [CASE], lambda case: [case.id])


def test_a_folder_of_pictures_with_a_list_beside_them_points_to_the_list(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/1.png").touch()
    (tmp_path / "gen_info.json").write_text('{"a": "images/1.png"}')
    with pytest.raises(RefBenchError, match=r"or give the list in it, folder:.*gen_info\.json"):
        FolderModel(Spec.read(f"m=folder:{tmp_path}"), [CASE], lambda case: [case.id])


def test_a_picture_that_a_list_names_and_that_is_gone_is_named_in_the_failure(tmp_path: Path) -> None:
    (tmp_path / "1.png").touch()
    (tmp_path / "list.json").write_text('{"a": "1.png", "b": "2.png"}')
    model = FolderModel(Spec.read(f"m=folder:{tmp_path / 'list.json'}"), [CASE], lambda case: [case.id])
    lost = model.find(CASE.model_copy(update={"id": "b"}))
    assert isinstance(lost, Failure)
    assert (lost.kind, lost.detail) == ("missing_output", "m has no picture for b: 2.png is not there")


def test_a_name_that_is_nearly_that_of_a_missing_picture_is_asked_about_unless_it_is_of_another_case(
    tmp_path: Path,
) -> None:
    cases = [CASE.model_copy(update={"id": id_}) for id_ in ("001", "002", "003", "003_b")]
    for name in ("001.png", "x/002_gen.png", "003_b.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    model = FolderModel(Spec.read(f"m=folder:{tmp_path}"), cases, lambda case: [f"x/{case.id}", case.id])
    said = [getattr(model.find(case), "detail", "there") for case in cases]
    assert said == ["there", "m has no picture for 002; is it 002_gen.png?", "m has no picture for 003", "there"]
