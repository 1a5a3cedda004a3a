"""What a build leaves out is on record, and what people decide is honoured to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import orjson
import pytest

from refbench.builders.kit.card import Card, Sample, write_card
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.review import Decision, Review, write_review
from refbench.pictures import encode
from refbench.record import RefBenchError


def test_dropped_items_are_the_same_whoever_finished_first(tmp_path: Path) -> None:
    one, other = DroppedItems(), DroppedItems()
    rows = [("screen", "picture", name, "unsafe") for name in "cab"]
    for row in rows:
        one.add(*row)
    for row in reversed(rows):
        other.add(*row)
    one.write(tmp_path / "a.jsonl")
    other.write(tmp_path / "b.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert one.counts() == {"screen": {"unsafe": 3}}


def test_a_review_is_read_from_json_lines_and_from_csv(tmp_path: Path) -> None:
    lines = tmp_path / "review.jsonl"
    lines.write_text(
        '{"id": "a", "decision": "reject", "instruction": "as shown"}\n{"id": "b", "decision": ""}\n{"id": "c", "decision": "edit", "edit": {"instruction": "better"}}\n'
    )
    review = Review.read(lines)
    decided = review.of("a"), review.of("c")
    assert decided[0] is not None
    assert decided[1] is not None
    assert (decided[0].decision, decided[1].edit) == ("reject", {"instruction": "better"})
    assert review.of("b") is None
    table = tmp_path / "review.csv"
    table.write_text("id,decision,instruction\nc,edit,better\nx,accept,\n")
    from_table = Review.read(table)
    edited = from_table.of("c")
    assert edited is not None
    assert edited.edit == {"instruction": "better"}
    assert from_table.strangers() == ["x"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": "a", "decision": "maybe"}', "line 1: decision"),
        ('{"id": "a", "decision": "edit"}', "nothing says how"),
        ("[1]", "no JSON object"),
        ("{", "not valid JSON"),
        ('{"id": "a", "decision": "accept"}\n{"id": "a", "decision": "reject"}', "decided twice"),
    ],
)
def test_a_review_that_cannot_be_followed_is_refused(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "review.jsonl"
    path.write_text(line)
    with pytest.raises(RefBenchError, match=said):
        Review.read(path)


def test_decisions_of_people_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "review.jsonl"
    write_review(path, [{"id": "a", "instruction": "x"}])
    assert orjson.loads(path.read_bytes()) == {"id": "a", "instruction": "x", "decision": ""}
    path.write_text('{"id": "a", "decision": "reject"}\n')
    write_review(path, [{"id": "a", "instruction": "y"}])
    assert "reject" in path.read_text()


def test_the_card_shows_what_was_dropped_and_keeps_markup_text(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode(np.full((400, 200, 3), 90, np.uint8)))
    dropped = DroppedItems()
    dropped.add("screen", "picture", "a.png", "unsafe", "<script>alert(1)</script>", picture="a.png")
    dropped.add("screen", "picture", "b.png", "unsafe", "broken", picture="b.png")
    card = Card(
        title="Mine | yours",
        about="A set.",
        counts={"cases": 1200},
        settings={"seed": "7"},
        missing={"hair": "nobody has any"},
    )
    write_card(card, dropped, tmp_path / "out", tmp_path)
    text = (tmp_path / "out/README.md").read_text()
    assert "<script>" not in text
    assert "| cases | 1,200 |" in text
    assert "nobody has any" in text
    assert len(list((tmp_path / "out/card").iterdir())) == 1
    before = text
    write_card(card, dropped, tmp_path / "out", tmp_path)
    assert (tmp_path / "out/README.md").read_text() == before


def test_stages_are_told_in_the_order_of_the_build() -> None:
    dropped = DroppedItems(("pictures", "check"))
    for stage in ("audit", "check", "pictures"):
        dropped.add(stage, "item", "a", "broken")
    assert list(dropped.counts()) == ["pictures", "check", "audit"]


def test_the_card_shows_items_and_the_commands_that_read_them(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(encode(np.full((400, 200, 3), 90, np.uint8)))
    stale = tmp_path / "out/card/0123456789abcdef.png"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"of an earlier build")
    card = Card(
        title="Mine",
        about="A set.",
        counts={},
        settings={},
        notes=["the note of *somebody*."],
        samples=[Sample("one", "Turn <it> round.", [tmp_path / "a.png", tmp_path / "gone.png"])],
        using=["refbench check creval --data ."],
    )
    write_card(card, DroppedItems(), tmp_path / "out", tmp_path)
    text = (tmp_path / "out/README.md").read_text()
    assert "\n    refbench check creval --data .\n" in text
    assert "**one**: Turn \\<it\\> round." in text
    shown = re.findall(r"!\[one\]\((card/\w+\.png)\)", text)
    assert [path.name for path in (tmp_path / "out/card").iterdir()] == [Path(name).name for name in shown]
    assert "- The note of \\*somebody\\*." in text


def test_a_decision_about_another_text_does_not_stand() -> None:
    seen = Decision(id="a", decision="accept", seen={"instruction": "old", "class_id": 3})
    bare = Decision(id="b", decision="accept")
    review = Review([seen, bare])
    assert review.stands(seen, instruction="old")
    assert review.outdated() == []
    assert not review.stands(seen, instruction="new")
    assert review.stands(bare, instruction="new"), "a file with ids alone speaks of whatever is there"
    assert review.outdated() == ["a"]
