"""Sources: every picture is used or skipped with a reason, and what a source says of it is read or told to be wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from refbench.builders.refblend.layouts import SourceLayout, layouts, load_layout
from refbench.builders.refblend.presets import load_rules
from refbench.builders.refblend.sources import Sources, gather
from refbench.builders.refblend.tables import coco_labels
from refbench.pictures import encode
from refbench.record import RefBenchError
from support.blend import drawing, write_drawings

PERSON = [[float(n), float(n + 1), 2.0] for n in range(17)]


def found(given: Path, work: Path, layout: str = "folder", **more: Any) -> Sources:
    return gather(given, load_layout(layout), work, **more)


def by_name(sources: Sources) -> dict[str, Any]:
    return {picture.name: picture for picture in sources.pictures}


def test_a_folder_with_odd_names_loops_and_rubbish_is_gone_through(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write_drawings(folder / "貓 ü 'q'", 2)
    (folder / "loop").symlink_to(folder)
    (folder / "copy.png").write_bytes(encode(drawing(0)))
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no more")
    (folder / "tiny.png").write_bytes(encode(drawing(7, 32)))
    sources = found(folder, tmp_path / "work")
    assert [p.name for p in sources.pictures] == ["copy.png", "貓 ü 'q'/drawing 001.png"]
    assert {s.name: s.kind for s in sources.skipped} == {
        "broken.jpg": "unreadable",
        "tiny.png": "tiny",
        "貓 ü 'q'/drawing 000.png": "duplicate",
    }
    assert by_name(sources)["貓 ü 'q'/drawing 001.png"].caption == "Discs and lines, drawing number 1"


def test_what_has_been_looked_at_is_not_opened_again_unless_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_drawings(tmp_path / "in", 3)
    first = found(folder, tmp_path / "work")
    looked: list[str] = []
    from refbench.builders.refblend import sources as module

    real = module.look
    monkeypatch.setattr(module, "look", lambda root, name: looked.append(name) or real(root, name))
    assert found(folder, tmp_path / "work") == first
    assert looked == []
    (folder / "drawing 001.png").write_bytes(encode(drawing(50)))
    os.utime(folder / "drawing 001.png", ns=(1, 1))
    assert found(folder, tmp_path / "work") != first
    assert looked == ["drawing 001.png"]


def test_a_folder_for_each_subject_or_style_makes_groups(tmp_path: Path) -> None:
    for name in ("cat", "dog/old"):
        write_drawings(tmp_path / "in" / name, 2, start=len(name))
    write_drawings(tmp_path / "in", 1, start=90)
    subjects = found(tmp_path / "in", tmp_path / "a", "subjects")
    assert sorted({p.subject for p in subjects.pictures}) == ["cat", "dog/old"]
    assert len(subjects.pictures) == 4, "a picture outside of the folders belongs to no subject"
    assert {p.style for p in found(tmp_path / "in", tmp_path / "b", "styles").pictures} == {"cat", "dog/old"}


def row(number: int) -> dict[str, Any]:
    return {
        "file_name": f"pics/drawing {number:03d}.png",
        "text": f"Number {number}",
        "keypoints": PERSON,
        "boxes": [[1, 2, 30, 40]],
        "subject": "s",
        "style": 7,
        "license": "CC0-1.0",
    }


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    import csv

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows([{k: json.dumps(v) if isinstance(v, list) else v for k, v in one.items()} for one in rows])


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


WRITERS = {
    "rows.csv": write_csv,
    "rows.jsonl": lambda path, rows: path.write_text("\n".join(map(json.dumps, rows))),
    "rows.json": lambda path, rows: path.write_text(json.dumps({"version": 1, "rows": rows})),
    "rows.parquet": write_parquet,
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_table_says_the_same_in_every_format(tmp_path: Path, name: str) -> None:
    write_drawings(tmp_path / "pics", 3, captions=False)
    WRITERS[name](tmp_path / name, [row(2), row(0), {**row(5)}])
    sources = found(tmp_path / name, tmp_path / "work")
    assert [p.name for p in sources.pictures] == ["pics/drawing 002.png", "pics/drawing 000.png"]
    assert [(s.name, s.kind) for s in sources.skipped] == [("pics/drawing 005.png", "unreadable")]
    first = sources.pictures[0]
    assert (first.caption, first.subject, first.style, first.licence) == ("Number 2", "s", "7", "CC0-1.0")
    assert first.boxes == ((1.0, 2.0, 30.0, 40.0),)
    assert first.people == (tuple((float(x), float(y), 2.0) for x, y, _ in PERSON),)
    assert sources.wrong == ()


def test_labels_that_cannot_be_read_are_told_and_cost_nothing_else(tmp_path: Path) -> None:
    write_drawings(tmp_path, 4, captions=False)
    rows: list[Any] = [
        {"image": "drawing 000.png", "keypoints": [1, 2, 3], "caption": "Here"},
        {"image": "drawing 001.png", "boxes": [[10, 10, 5, 20], [1, 1, 9, 9]]},
        {"image": "drawing 002.png", "boxes": "not a list", "keypoints": [["x"]]},
        {"caption": "no picture"},
        ["no object"],
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    sources = found(tmp_path / "t.jsonl", tmp_path / "work")
    assert len(sources.pictures) == 3
    assert sources.pictures[0].caption == "Here"
    assert sources.pictures[1].boxes == ((1.0, 1.0, 9.0, 9.0),)
    assert [where for where, _ in sources.wrong] == [f"t.jsonl, line {n}" for n in (1, 2, 3, 3)]
    assert [(s.name, s.kind, s.reason) for s in sources.skipped] == [
        ("t.jsonl, line 4", "unreadable", "it names no picture"),
        ("t.jsonl, line 5", "unreadable", "it is no JSON object"),
    ]


def test_a_damaged_line_costs_itself_alone_and_lines_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    write_drawings(tmp_path, 2, captions=False)
    lines = ['{"image": "drawing 000.png"}', "", '{"image": "drawing', '{"image": "drawing 001.png"}']
    lines.append('{"image": "drawing 000.png", "caption": "Another word on it"}')
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    sources = found(tmp_path / "t.jsonl", tmp_path / "work")
    assert [p.name for p in sources.pictures] == ["drawing 000.png", "drawing 001.png"]
    assert [(s.name, s.kind) for s in sources.skipped] == [
        ("t.jsonl, line 3", "unreadable"),
        ("t.jsonl, line 5", "duplicate"),
    ]
    (tmp_path / "t.csv").write_text('image,caption\n"drawing 000.png","two\nlines"\n\n,nothing\n')
    assert [s.name for s in found(tmp_path / "t.csv", tmp_path / "work").skipped] == ["t.csv, line 5"]


def test_the_rows_of_several_tables_are_each_about_the_pictures_beside_them(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        write_drawings(tmp_path / "in" / name, 1, captions=False)
        (tmp_path / "in" / name / "drawing 000.png").write_bytes(encode(drawing(number)))
        (tmp_path / "in" / name / "meta.jsonl").write_text(json.dumps({"image": "drawing 000.png", "caption": name}))
    sources = gather(tmp_path / "in", SourceLayout(table="*/meta.jsonl"), tmp_path / "work")
    assert [(p.name, p.caption) for p in sources.pictures] == [
        ("a/drawing 000.png", "a"),
        ("b/drawing 000.png", "b"),
    ]
    assert sources.skipped == ()


@pytest.mark.parametrize(
    "text, said",
    [("{", None), ('"a"', None), ("\xff", "cannot be read as a table")],
)
def test_a_table_that_is_none_is_refused_or_has_no_pictures(tmp_path: Path, text: str, said: str | None) -> None:
    (tmp_path / "t.jsonl").write_bytes(text.encode("latin-1"))
    if said is None:
        assert found(tmp_path / "t.jsonl", tmp_path / "work").pictures == ()
    else:
        with pytest.raises(RefBenchError, match=said):
            found(tmp_path / "t.jsonl", tmp_path / "work")


def test_pictures_inside_a_hugging_face_dataset_are_taken_out(tmp_path: Path) -> None:
    import pyarrow

    rows = [{"image": {"bytes": encode(drawing(n)), "path": None}, "caption": f"Number {n}"} for n in range(3)]
    write_parquet(_made(tmp_path / "hub/data") / "train-00000-of-00001.parquet", rows)
    table = pyarrow.Table.from_pylist(rows)
    saved = _made(tmp_path / "saved")
    (saved / "dataset_info.json").write_text("{}")
    arrow = str(saved / "data-00000-of-00001.arrow")
    with pyarrow.OSFile(arrow, "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    for name in ("hub", "saved"):
        sources = found(tmp_path / name, tmp_path / f"work-{name}")
        assert [p.caption for p in sources.pictures] == ["Number 0", "Number 1", "Number 2"]
        assert all(Path(p.path).read_bytes() == encode(drawing(n)) for n, p in enumerate(sources.pictures))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def test_coco_annotations_join_the_pictures_of_the_folder(tmp_path: Path) -> None:
    write_drawings(tmp_path / "HumanArt/images/real_human/dance", 1, captions=False)
    said = {
        "images": [{"id": 5, "file_name": "HumanArt/images/real_human/dance/drawing 000.png"}],
        "annotations": [
            {"image_id": 5, "keypoints": [value for joint in PERSON for value in joint], "bbox": [5, 6, 10, 20]}
        ],
    }
    _made(tmp_path / "annotations").joinpath("training_humanart.json").write_text(json.dumps(said))
    (picture,) = found(tmp_path, tmp_path / "work", "human-art").pictures
    assert picture.style == "dance"
    assert picture.boxes == ((5.0, 6.0, 15.0, 26.0),)
    assert len(picture.people) == 1


def test_the_limit_takes_the_first_and_the_dataset_is_not_among_its_own_sources(tmp_path: Path) -> None:
    write_drawings(tmp_path / "in", 5)
    write_drawings(tmp_path / "in/out/images", 2, start=20)
    sources = found(tmp_path / "in", tmp_path / "in/out/work", avoid=tmp_path / "in/out")
    assert len(sources.pictures) == 5
    assert [p.name for p in found(tmp_path / "in", tmp_path / "work", limit=2).pictures] == [
        "drawing 000.png",
        "drawing 001.png",
    ]


def test_the_papers_seven_sources_are_described_and_marked_untested() -> None:
    shipped = layouts()
    papers = {name for name, layout in shipped.items() if layout.untested}
    seven = {"dreambooth", "customconcept101", "subjects200k", "wikiart", "human-art", "stylebooth", "x2i"}
    assert papers == seven | {"multiref-dataset"}
    assert shipped["dreambooth"].read_path("dataset/dog6/02.jpg") == {"subject": "dog6"}
    assert shipped["subjects200k"].read_path("a/collection2_0017_left.jpg") == {"subject": "collection2_0017"}
    assert shipped["stylebooth"].read_path("train/Watercolor/12.png") == {"style": "Watercolor"}
    assert all(layout.about for layout in shipped.values())


@pytest.mark.parametrize(
    "text, said",
    [
        ("path = '('", "path: no regular expression"),
        ("path = '(?P<colour>.)'", "a path cannot say colour"),
        ('[columns]\nshade = "x"', "columns: shade is not among"),
        ("tabel = 'x'", "tabel"),
        ("= 3", "not valid TOML"),
    ],
)
def test_a_wrong_layout_is_told_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(RefBenchError, match=said):
        load_layout(str(tmp_path / "mine.toml"))


def test_a_layout_that_is_misspelt_or_does_not_fit_is_told(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="did you mean subjects"):
        load_layout("subject")
    with pytest.raises(RefBenchError, match=r"holds no data\.json"):
        found(write_drawings(tmp_path / "in", 1), tmp_path / "work", "wikiart")
    with pytest.raises(RefBenchError, match="neither a folder of pictures nor a table"):
        gather(tmp_path / "nowhere", SourceLayout(), tmp_path / "work")


@pytest.mark.parametrize(
    "said",
    [
        {"annotations": 5},
        {"annotations": [{"image_id": [1], "bbox": [1, 2, 3, 4]}]},
        {"annotations": [], "images": [{"id": {}, "file_name": "a.png"}]},
    ],
)
def test_odd_annotations_are_passed_over(tmp_path: Path, said: dict[str, Any]) -> None:
    path = tmp_path / "coco.json"
    path.write_text(json.dumps({"images": [{"id": 1, "file_name": "a.png"}], **said}))
    assert [label.picture for label in coco_labels(path)] == ["a.png"]


def test_a_name_that_no_file_can_have_is_no_layout_and_no_base_of_rules(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(f'extends = "{"n" * 300}"\n')
    for read in (lambda: load_layout("n" * 300), lambda: load_rules(rules), lambda: load_rules("n" * 300)):
        with pytest.raises(RefBenchError, match="nnn"):
            read()
