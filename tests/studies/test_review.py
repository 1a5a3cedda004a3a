"""Reviews and references: what a screen takes is what a builder reads from a file that somebody filled in by hand."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.builders.filter_judge.marks import read_marks
from refbench.builders.kit.review import Review, offer_review
from refbench.cli.app import app
from refbench.pictures import encode
from refbench.studies.items import Item
from refbench.studies.review import BUILDERS, lines_of
from refbench.studies.shown import Acknowledgement, Refusal, Shown
from refbench.studies.study import Study
from support.blend import built, tree, write_drawings
from support.studies import mark
from support.study_raters import answer_all

QUESTIONS = [{"question": f"Is part {n} of the hat drawn as it was asked for?", "weight": 1} for n in range(1, 6)]
GRADED = [
    {
        "question": f"Is point {n} of the brief met by what was delivered?",
        "zero": "It is not met at all, or only in a small part of it.",
        "one": "It is met in every part of it that can be seen.",
        "references": [],
        "results": [1],
        "capability": "",
    }
    for n in range(1, 7)
]
ROWS: dict[str, dict[str, Any]] = {
    "creval": {
        "id": "item_1",
        "picture": "a.png",
        "class_id": 2,
        "instruction": "Turn the hat of the man into a red one.",
        **dict.fromkeys(("IF", "VC", "VQ"), QUESTIONS),
        "flagged": [],
    },
    "ideabench": {
        "id": "logo_0001",
        "task": "logo",
        "category": "T2I",
        "pictures": [],
        "outputs": 1,
        "instruction": "Design a logo for a small bakery that sells bread by the river.",
        "questions": GRADED,
        "problem": "",
    },
    "multiref_real": {
        "id": "17",
        "request": "put her on the beach",
        "inputs": ["a.png", "b.png"],
        "outputs": ["a.png", "b.png"],
        "output": "a.png",
        "instruction": "Edit image <image1> by adding the woman of <image2> to the beach.",
        "category": 1,
        "problem": "missing token",
    },
    "refblend": {
        "id": "ab12",
        "picture": "a.png",
        "types": ["canny", "caption"],
        "instruction": "Paint it by <canny_image>.",
        "enhanced": "",
        "caption": "a hat",
        "marks": {},
        "dropped": "",
        "needs_review": False,
    },
    "multibanana": {
        "id": "set_1",
        "references": ["a.png", "b.png"],
        "instruction": "Put the hat of Image 1 on the man of Image 2.",
        "tags": ["scale"],
        "modified": "",
        "giver": "",
        "thinking": "",
        "check": "decided by a person",
    },
}
EDITS: dict[str, dict[str, Any]] = {
    "creval": {"instruction": "Turn the hat of the man into a blue one."},
    "ideabench": {"instruction": "Design a logo for a large bakery that sells bread by the river."},
    "multiref_real": {"output": "b.png", "category": 2},
    "refblend": {"instruction": "Draw it by <canny_image>, please."},
    "multibanana": {"tags": ["scale", "font"]},
}
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "creval": ({"IF": QUESTIONS[:2]}, "give 5 to 9 questions"),
    "ideabench": ({"questions": GRADED[:2]}, "give a list of 6 questions"),
    "multiref_real": ({"output": "../../etc/passwd"}, "the output is one of a.png, b.png"),
    "refblend": ({"instruction": "Draw it."}, "lacks <canny_image>"),
    "multibanana": ({"tags": ["huge"]}, "tags are a list of"),
}


def cli(*words: object) -> int:
    code = app([str(word) for word in words], result_action="return_value")
    assert isinstance(code, int)
    return code


def pictures(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for n, name in enumerate(("a.png", "b.png")):
        pixels = np.random.default_rng(n).integers(0, 255, (20, 30, 3), dtype=np.uint8)
        (folder / name).write_bytes(encode(pixels))
    return folder


def reviewed(tmp_path: Path, rows: list[dict[str, Any]]) -> Study:
    offer_review(tmp_path / "build" / "review.jsonl", rows)
    new = ("study", "new", tmp_path / "s", "--from", tmp_path / "build", "--screen", "review")
    assert cli(*new, "--data", pictures(tmp_path / "pictures")) == 0
    return Study.open(tmp_path / "s")


@pytest.mark.parametrize("builder", ROWS)
def test_a_review_writes_the_file_that_somebody_writes_by_hand(tmp_path: Path, builder: str) -> None:
    rows = [{**ROWS[builder], "id": f"{ROWS[builder]['id']}{n}"} for n in range(4)]
    study = reviewed(tmp_path, rows)
    decided: list[dict[str, Any]] = [
        {"decision": "accept"},
        {"decision": "edit", "edit": EDITS[builder]},
        {"decision": "reject"},
    ]
    rater = study.raters.add()
    study.consent(rater)
    for shown in study.next_items(rater, 4):
        place = [row["id"] for row in rows].index(shown.row["id"])
        if place < 3:
            sent = {**mark(shown.item, place, **decided[place]), "comment": "seen" if place == 2 else ""}
            assert isinstance(study.take(rater, sent), Acknowledgement)
    assert cli("study", "export", tmp_path / "s", "--out", tmp_path / "decided.jsonl") == 0
    lines = [json.loads(line) for line in (tmp_path / "build" / "review.jsonl").read_text().splitlines()]
    for line, said in zip(lines, [*decided, {}], strict=True):
        line.update(said)
    lines[2]["comment"] = "seen"
    (tmp_path / "by_hand.jsonl").write_text("\n".join(map(json.dumps, lines)))
    names = [row["id"] for row in rows]
    by_hand, ours = (Review.read(tmp_path / name) for name in ("by_hand.jsonl", "decided.jsonl"))
    assert [ours.of(name) for name in names] == [by_hand.of(name) for name in names]
    assert ours.of(names[3]) is None and ours.of(names[1]) is not None


@pytest.mark.parametrize("builder", WRONG)
def test_a_change_that_its_builder_would_refuse_is_refused_at_once(tmp_path: Path, builder: str) -> None:
    study = reviewed(tmp_path, [ROWS[builder]])
    rater = study.raters.add()
    study.consent(rater)
    item = study.next_items(rater)[0].item
    edit, said = WRONG[builder]
    refused = study.take(rater, mark(item, 1, decision="edit", edit=edit))
    assert isinstance(refused, Refusal) and said in refused.sentence, refused
    refused = study.take(rater, mark(item, 2, decision="edit", edit={"id": "other"}))
    assert isinstance(refused, Refusal) and "id cannot be changed, only" in refused.sentence
    refused = study.take(rater, mark(item, 3, decision="edit"))
    assert isinstance(refused, Refusal) and "what is changed" in refused.sentence


def test_every_builders_lines_are_known_by_what_they_have() -> None:
    for builder, row in ROWS.items():
        assert lines_of(row) is BUILDERS[builder]  # type: ignore[index]
    look = {"id": "p1", "shows": "a hat", "rendering": "photo", "categories": []}
    assert lines_of(look) is BUILDERS["pictures"]
    assert lines_of({"id": "x", "text": "?"}) is None


def test_two_who_decide_otherwise_must_be_settled_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = reviewed(tmp_path, [ROWS["creval"]])
    text = (tmp_path / "s" / "study.toml").read_text()
    (tmp_path / "s" / "study.toml").write_text(text.replace("overlap = 1", "overlap = 2"))
    study = Study.open(tmp_path / "s")
    for word in ("accept", "reject"):
        answer_all(study, study.raters.add(), lambda item, shown, word=word: {"decision": word})
    with pytest.raises(Exception, match="was decided twice, and differently"):
        cli("study", "export", tmp_path / "s", "--out", tmp_path / "decided.jsonl")
    cli("study", "adjudicate", tmp_path / "s")
    answer_all(study, Study.open(tmp_path / "s").raters.all["adjudicated"], lambda item, shown: {"decision": "reject"})
    assert cli("study", "export", tmp_path / "s", "--out", tmp_path / "decided.jsonl") == 0
    decision = Review.read(tmp_path / "decided.jsonl").of("item_1")
    assert decision is not None and decision.rejected


def test_references_are_marked_by_type_and_exported_for_a_filter(tmp_path: Path) -> None:
    data = pictures(tmp_path / "data" / "images").parent
    sample = {
        "original_image_path": "images/a.png",
        "conditions": {"canny_path": "images/b.png", "caption": "a hat on a table"},
        "instructions": {"conditions": ["canny", "caption"]},
    }
    other = {
        **sample,
        "original_image_path": "images/b.png",
        "conditions": {**sample["conditions"], "canny_path": "images/a.png"},
    }  # type: ignore[dict-item]
    (data / "benchmark.json").write_text(json.dumps([sample, other, sample]))
    assert cli("study", "new", tmp_path / "s", "--from", data, "--screen", "reference") == 0
    study = Study.open(tmp_path / "s")
    assert sum(item.use == "item" for item in study.items.values()) == 4  # each reference once

    def answer(item: Item, shown: Shown) -> dict[str, int]:
        names = [entry.name for entry in shown.entries]
        assert names == (["alignment"] if item.stratum == "caption" else ["alignment", "quality"])
        return dict.fromkeys(names, 2 if item.allowed else 4)

    for _ in range(2):
        answer_all(study, study.raters.add(), answer)
    assert cli("study", "export", tmp_path / "s", "--out", tmp_path / "marks.csv") == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "marks.csv").read_text())))
    assert len(rows) == 2 * (2 * 2 + 2)
    assert {row["type"] for row in rows} == {"canny", "caption"}
    assert all(Path(row["original"]).is_file() for row in rows)
    assert {row["caption"] for row in rows if row["type"] == "caption"} == {"a hat on a table"}
    assert (
        cli(
            "agree",
            tmp_path / "marks.csv",
            "--level",
            "item",
            "--by",
            "type",
            "--scale",
            "same",
            "--human-raters",
            "r01,r02",
        )
        == 0
    )
    filtered = read_marks(tmp_path / "marks.csv", data)
    assert [len(sample.marks["alignment"]) for sample in filtered.samples] == [2, 2, 2, 2]
    assert filtered.left_out == {}


def test_a_blend_built_by_a_review_is_the_same_to_the_byte_as_by_a_file_written_by_hand(tmp_path: Path) -> None:
    drawings = write_drawings(tmp_path / "drawings", 6)
    built(drawings, tmp_path / "first")
    lines = [json.loads(line) for line in (tmp_path / "first" / "review.jsonl").read_text().splitlines()]
    edit = {"instruction": "Keep it calm. " + lines[1]["instruction"]}
    said = {lines[0]["id"]: {"decision": "reject"}, lines[1]["id"]: {"decision": "edit", "edit": edit}}
    new = ("study", "new", tmp_path / "s", "--from", tmp_path / "first", "--screen", "review", "--data", drawings)
    assert cli(*new) == 0
    study = Study.open(tmp_path / "s")
    assert all(item.inputs for item in study.items.values())  # each line names its picture
    answer_all(study, study.raters.add(), lambda item, shown: said.get(item.id, {"decision": "accept"}))
    assert cli("study", "export", tmp_path / "s", "--out", tmp_path / "decided.jsonl") == 0
    by_hand = "".join(json.dumps({**line, **said.get(line["id"], {"decision": "accept"})}) + "\n" for line in lines)
    (tmp_path / "by_hand.jsonl").write_text(by_hand)
    built(drawings, tmp_path / "a", review=tmp_path / "decided.jsonl")
    built(drawings, tmp_path / "b", review=tmp_path / "by_hand.jsonl")
    assert tree(tmp_path / "a") == tree(tmp_path / "b") != tree(tmp_path / "first")
