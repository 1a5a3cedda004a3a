"""A user's own cases: every layout gives the same cases, and a bad row is named with its line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.benchmarks import Dataset
from refbench.benchmarks.kit.definition import picture_anomalies
from refbench.benchmarks.own.cases import load_cases
from refbench.cli.cases import cases_command
from refbench.cli.check import check_command
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.tables.scoring import load
from support import checkout, icebench, ideabench, multiref

PNG = encode(np.zeros((8, 8, 3), dtype=np.uint8))
ROW: dict[str, Any] = {
    "id": "a",
    "instruction": "Put the hat on the dog; keep the rest",
    "source": "pictures/dog.png",
    "references": ["pictures/hat.png", "pictures/oil.png"],
    "tags": ["hard", "two"],
    "groups": {"task": "add"},
    "questions": ["Is there a hat?", "Is it the same dog?"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    for name in ("dog", "hat", "oil"):
        (tmp_path / f"pictures/{name}.png").write_bytes(PNG)
    return tmp_path


def write(folder: Path, *rows: object) -> Path:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_json_lines_csv_and_parquet_give_the_same_cases(folder: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    jsonl = load_cases(write(folder, ROW))
    (folder / "cases.csv").write_text(
        "id,instruction,source,references,tags,groups,questions\n"
        'a,Put the hat on the dog; keep the rest,pictures/dog.png,"pictures/hat.png; pictures/oil.png",hard;two,task=add,'
        "Is there a hat?;Is it the same dog?\n"
    )
    parquet.write_table(pa.Table.from_pylist([ROW]), folder / "cases.parquet")
    assert jsonl.cases == load_cases(folder / "cases.csv").cases == load_cases(folder / "cases.parquet").cases
    (case,) = jsonl.cases
    assert [(p.name, p.role) for p in case.request.pictures] == [
        ("pictures/dog.png", "source"),
        ("pictures/hat.png", "reference"),
        ("pictures/oil.png", "reference"),
    ]
    assert jsonl.picture_root == folder
    assert picture_anomalies(jsonl) == []


def test_references_have_roles_and_pictures_may_lie_elsewhere(folder: Path) -> None:
    (folder / "lists").mkdir()
    row = {
        **ROW,
        "source": "../pictures/dog.png",
        "references": [{"path": str(folder / "pictures/hat.png"), "role": "style"}],
    }
    dataset = load_cases(write(folder / "lists", row))
    assert dataset.picture_root == folder
    assert [(p.name, p.role) for p in dataset.cases[0].request.pictures][1] == ("pictures/hat.png", "style")
    assert all(dataset.path(picture).is_file() for picture in dataset.cases[0].request.pictures)


def test_edits_of_one_source_are_one_cluster_unless_told_otherwise(folder: Path) -> None:
    plain = {"id": 7, "instruction": "A dog"}
    rows = [ROW, {**ROW, "id": "b"}, {**ROW, "id": "c", "cluster": "mine"}, plain]
    assert [c.cluster for c in load_cases(write(folder, *rows)).cases] == ["pictures/dog.png"] * 2 + ["mine", "7"]


def test_what_the_judge_alone_may_see_is_not_in_the_request(folder: Path) -> None:
    row = {**ROW, "targets": ["pictures/oil.png"], "references": [], "source": "pictures/dog.png"}
    (case,) = load_cases(write(folder, row)).cases
    seen = case.request.model_dump_json()
    assert "oil" not in seen
    assert "same dog" not in seen
    assert [p.role for p in case.targets] == ["target"]


def test_a_missing_picture_is_an_anomaly_and_no_error(folder: Path) -> None:
    (folder / "pictures/oil.png").write_bytes(b"no picture")
    dataset = load_cases(write(folder, {**ROW, "source": "pictures/cat.png"}))
    assert [(a.kind, a.case) for a in picture_anomalies(dataset)] == [
        ("missing_picture", "a"),
        ("unreadable_picture", "a"),
    ]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([ROW, "{"], r"cases\.jsonl, line 2 is not valid JSON"),
        (["[]"], "line 1: a case is a JSON object"),
        ([ROW, "", ROW], r"line 3: the id 'a' is there already \(.*line 1\)"),
        ([{"id": "a"}], "line 1: 'instruction' is missing"),
        ([{"instruction": "x"}], "line 1: 'id' is missing"),
        ([{**ROW, "references": "hat.png"}], "'references' is a list"),
        ([{**ROW, "references": [7]}], "a picture is a path"),
        ([{**ROW, "references": [{"path": "a.png", "rolle": "x"}]}], "'rolle'"),
        ([{"id": "a", "instruction": "x", "refernces": []}], "did you mean 'references'"),
        ([{"id": "a", "instruction": "x", "images": ["pictures/dog.png"]}], "is 'images' meant as 'references'"),
        ([{**ROW, "groups": ["x"]}], "groups is a mapping"),
        ([{**ROW, "groups": {"tag": "x"}}], "rename it"),
        ([{**ROW, "questions": [""]}], "'questions' is a list of texts"),
        ([{**ROW, "pictures": ["pictures/dog.png"]}], "leave source and references out"),
        ([{**ROW, "n_pictures": 0}], "'n_pictures' is a whole number from 1 to .*, not 0"),
        ([{**ROW, "n_pictures": 2**62}], "'n_pictures' is a whole number from 1 to 1,000"),
        ([{**ROW, "size": ["9" * 5000, 4]}], "'size' is a whole number from 1 to 65,536"),
        ([{**ROW, "source": "~nobody.at.all/x.png"}], "line 1: nobody's home is ~nobody.at.all"),
        ([{**ROW, "size": [512]}], r"'size' is \[width, height\], not \[512\]"),
        ([{**ROW, "size": ["a", 4]}], "'size' is a whole number from 1 to .*, not a"),
        ([], "holds no cases"),
    ],
)
def test_a_bad_row_is_named(folder: Path, rows: list[object], says: str) -> None:
    with pytest.raises(RefBenchError, match=says) as caught:
        load_cases(write(folder, *rows))
    assert "\n" not in str(caught.value)


def test_files_that_are_none_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cases.csv").write_text("id,instruction\na,b,c\n")
    with pytest.raises(RefBenchError, match="line 2: it has another number of columns"):
        load_cases(folder / "cases.csv")
    (folder / "cases.yaml").write_text("")
    with pytest.raises(RefBenchError, match=r"cases come as \.jsonl"):
        load_cases(folder / "cases.yaml")
    with pytest.raises(RefBenchError, match="is not there"):
        load_cases(folder / "other.jsonl")
    (folder / "cases.parquet").write_bytes(b"no")
    with pytest.raises(RefBenchError, match="cannot be read as Parquet"):
        load_cases(folder / "cases.parquet")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RefBenchError, match="pip install datasets"):
        load_cases(folder)


def test_pictures_inside_a_parquet_file_come_out_once(folder: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    embedded = {"bytes": PNG, "path": None}
    rows = [{"id": name, "instruction": "x", "source": embedded, "references": [embedded]} for name in "ab"]
    parquet.write_table(pa.Table.from_pylist(rows), folder / "cases.parquet")
    dataset = load_cases(folder / "cases.parquet")
    assert picture_anomalies(dataset) == []
    assert len(list((folder / "cases.parquet.pictures").iterdir())) == 1
    assert dataset.cases == load_cases(folder / "cases.parquet").cases


def seen(dataset: Dataset) -> list[dict[str, Any]]:
    """All of a case that the format has, with pictures where they lie."""
    return [
        {
            **case.model_dump(include={"id", "groups", "tags", "cluster"}),
            **case.request.model_dump(exclude={"pictures"}),
            "pictures": [(dataset.path(p).absolute(), p.role) for p in case.request.pictures],
            "targets": [(dataset.path(p).absolute(), p.role) for p in case.targets],
        }
        for case in dataset.cases
    ]


WRITERS: dict[str, Callable[[Path], object]] = {
    "creval": lambda root: checkout.write_checkout(root, checkout.plain_items(3)),
    "icebench": lambda root: icebench.write_dataset(root, icebench.every_task(1)),
    "ideabench": lambda root: ideabench.write_checkout(root, ideabench.designs(1)),
    "multiref": lambda root: multiref.write_checkout(root, multiref.blends(), multiref.requests(2)),
}


@pytest.mark.parametrize("extension", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("name", list(WRITERS))
def test_the_cases_of_a_benchmark_can_be_run_as_ones_own_with_nothing_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, extension: str
) -> None:
    WRITERS[name](tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    before = seen(load(name, Path("data")))
    out = tmp_path / "else where" / f"cases.{extension}"
    cases_command(name, data=Path("data"), out=out, scorers=True)
    monkeypatch.chdir("/")
    assert seen(load_cases(out)) == before


@pytest.mark.parametrize("extension", ["jsonl", "csv", "parquet"])
def test_ones_own_cases_survive_being_written_and_read(folder: Path, extension: str) -> None:
    mask = {"path": "pictures/oil.png", "role": "mask"}
    row = ROW | {"references": ["pictures/hat.png", mask], "targets": ["pictures/dog.png"], "size": [512, 768]}
    path = write(folder, row | {"n_pictures": 2, "cluster": None})
    out = folder / f"again.{extension}"
    cases_command(str(path), out=out, scorers=True)
    assert load_cases(out).cases == load_cases(path).cases
    (case,) = load_cases(out).cases
    assert (case.request.size, case.request.n_pictures) == ((512, 768), 2)
    cases_command(str(path), out=out)
    (told,) = load_cases(out).cases
    assert (told.targets, told.details.questions) == ((), ()), "secrets of the scorers are written only when asked for"


def test_csv_has_a_size_and_a_number_of_pictures_too(folder: Path) -> None:
    (folder / "cases.csv").write_text("id,instruction,size,n_pictures\na,Paint,512x768,4\n")
    (case,) = load_cases(folder / "cases.csv").cases
    assert (case.request.size, case.request.n_pictures) == ((512, 768), 4)


def test_a_saved_dataset_of_the_hub_is_a_file_of_cases(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    datasets = pytest.importorskip("datasets")
    picture = {"path": None, "bytes": encode(np.full((8, 8, 3), 90, dtype=np.uint8))}
    rows = [{"id": f"h{n}", "instruction": f"Paint {n}", "source": picture, "references": [picture]} for n in range(3)]
    kinds = {"id": datasets.Value("string"), "instruction": datasets.Value("string")}
    kinds |= {"source": datasets.Image(), "references": datasets.List(datasets.Image())}
    made = datasets.Dataset.from_list(rows, features=datasets.Features(kinds))
    one, several = folder / "one", folder / "several"
    datasets.DatasetDict({"train": made}).save_to_disk(str(one))
    datasets.DatasetDict({"train": made, "test": made}).save_to_disk(str(several))
    found = load(one)
    assert [case.id for case in found.cases] == ["h0", "h1", "h2"]
    source, reference = found.cases[0].request.pictures
    assert found.path(source).read_bytes() == found.path(reference).read_bytes() == picture["bytes"]
    assert check_command(str(one)) == 0 and "3 cases, 6 pictures" in capsys.readouterr().out
    with pytest.raises(RefBenchError, match="has the splits train, test"):
        load(several)
