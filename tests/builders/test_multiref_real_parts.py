"""What the real-world MultiRef builder refuses to ship, part by part, without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refbench.benchmarks.multiref.cases import CATEGORIES, read_entry
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.pictures import SourcePicture
from refbench.builders.kit.review import Decision
from refbench.builders.multiref_real import MultiRefRealSettings
from refbench.builders.multiref_real.asking import (
    Verdict,
    best,
    category_of,
    instruction_fault,
    read_category,
    read_choice,
    read_rewrite,
    read_verdict,
    rewrite_parts,
)
from refbench.builders.multiref_real.build import read_edit
from refbench.builders.multiref_real.dataset import entry
from refbench.builders.multiref_real.item import EditRequest, Item
from refbench.builders.multiref_real.sources import read_requests
from refbench.failure import Failure
from refbench.record import RefBenchError


def plain(name: str) -> SourcePicture:
    return SourcePicture(name, name, Path(name), ".png", (80, 72), name, 0)


REQUEST = EditRequest(7, "swap them {tokens} pls", (plain("a"), plain("b")), (plain("y"), plain("z")))
GOOD = "Edit image <image1> by putting the hat of <image2> on the dog."

# --- instructions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "unusable reply"),
        ("I'm sorry, I cannot edit people like that.", "refused"),
        ("Edit image <image1> by <image2>.", "length"),
        ("Edit image <image1> by putting a hat on the dog.", "missing token"),
        ("Edit image <image1> by putting the hat of <image2> and <image3> on the dog.", "unknown token"),
        ("Edit image <image1> by putting the <b>hat</b> of <image2> on the dog.", "unknown token"),
        ("Edit image <image1> by putting the hat of <image 2> on the dog.", "unknown token"),
        ("Edit <image1> by putting the hat of <image2> on the dog.", "form"),
        ("Put the hat of <image2> on the dog of <image1>, please.", "form"),
        ("Edit image <image1> by putting the hat of <image2> on the dog of image 1.", "form"),
        ("Edit image <image1> by putting the hat of <image2> on as in the output image.", "unseen picture"),
        ("Edit image <image1> by putting\x00 the hat of <image2> on the dog.", "unprintable"),
    ],
)
def test_an_instruction_that_an_editor_cannot_use_is_named(text: str, kind: str) -> None:
    fault = instruction_fault(text, 2)
    assert fault is not None
    assert fault[0] == kind


def test_a_good_instruction_passes_and_a_bad_one_is_kept_for_a_person() -> None:
    drafts: list[tuple[str, str, str]] = []
    assert read_rewrite(json.dumps({"instruction": GOOD}), 2, drafts) == GOOD
    assert drafts == []
    bad = read_rewrite(json.dumps({"instruction": GOOD.replace("<image2>", "it")}), 2, drafts)
    assert isinstance(bad, Failure)
    assert drafts[0][1:] == ("missing token", "the instruction does not mention <image2>")
    assert isinstance(read_rewrite('{"instruction": 7}', 2, drafts), Failure)
    assert isinstance(read_rewrite(f'{{"instruction": "{GOOD}', 2, drafts), Failure), "cut off"


def test_braces_in_a_request_stay_what_they_are() -> None:
    text = str(rewrite_parts(Item(REQUEST, REQUEST.outputs[0], ""))[-1])
    assert "swap them {tokens} pls" in text
    assert "<image1>, <image2>" in text


# --- outputs -------------------------------------------------------------------------------------------------


def marks(*rows: tuple[Any, Any, Any]) -> str:
    names = ("clarity", "fidelity", "quality")
    return json.dumps(
        {"results": [{"result": n, **dict(zip(names, row, strict=True))} for n, row in enumerate(rows, 1)]}
    )


def test_the_best_output_has_the_highest_sum_then_the_highest_fidelity_then_comes_first() -> None:
    assert best([(3, 3, 3), (5, 4, 3), (4, 4, 3)]) == 1
    assert best([(5, 2, 3), (3, 4, 3)]) == 1
    assert best([(3, 3, 3), (3, 3, 3)]) == 0
    assert read_choice(marks((1, 2, 3), (5, 5, 5)), 2) == ((1, 2, 3), (5, 5, 5))


@pytest.mark.parametrize("reply", [marks((1, 2, 3)), marks((1, 2, 6), (1, 1, 1)), marks((1, 2, True), (1, 1, 1)), "{}"])
def test_marks_that_are_not_all_there_are_no_choice(reply: str) -> None:
    assert isinstance(read_choice(reply, 2), Failure)


# --- acceptance ----------------------------------------------------------------------------------------------


def verdict(inputs: int = 2, **more: Any) -> str:
    each = [{"picture": f"<image{n}>", "necessary": "Yes", "appropriate": "Yes"} for n in range(1, inputs + 1)]
    return json.dumps(
        {"pictures": each, "coherent": "Yes", "relevant": "Yes", "follows": "Yes", "reason": "Hm.", **more}
    )


def test_every_answer_counts_and_none_is_guessed() -> None:
    assert read_verdict(verdict(), 2) == Verdict((), "Hm.")
    assert read_verdict(verdict(follows="No"), 2) == Verdict(("output does not follow",), "Hm.")
    no = verdict().replace('"necessary": "Yes"', '"necessary": "No"', 1)
    assert read_verdict(no, 2) == Verdict(("input not necessary",), "Hm.")
    for wrong in (verdict(1), verdict(3), verdict(follows="perhaps"), verdict(follows=None), "{}", "Yes."):
        assert isinstance(read_verdict(wrong, 2), Failure)


def test_only_a_complaint_about_the_words_is_worth_another_instruction() -> None:
    found = [read_verdict(verdict(coherent="No", **more), 2) for more in ({}, {"relevant": "No"}, {"follows": "No"})]
    assert [one.wording for one in found if isinstance(one, Verdict)] == [True, True, False]


# --- the taxonomy --------------------------------------------------------------------------------------------


def test_the_category_is_a_number_from_1_to_5() -> None:
    for name, (number, _, _) in CATEGORIES.items():
        assert read_category(json.dumps({"category": number})) == category_of(str(number)) == name
    for wrong in (
        '{"category": 6}',
        '{"category": 0}',
        '{"category": true}',
        '{"category": 2.0}',
        '{"category": "2nd"}',
    ):
        assert isinstance(read_category(wrong), Failure), wrong
    twice = read_category('{"category": 1}\n{"category": 2}')
    assert isinstance(twice, Failure), "two answers are none"


# --- the files -----------------------------------------------------------------------------------------------


def test_the_loader_reads_an_entry_as_it_was_meant() -> None:
    row = entry(Item(REQUEST, plain("y"), GOOD, "spatial_environment"))
    read = read_entry(json.loads(json.dumps(row)), 0)
    assert not isinstance(read, str)
    assert (read.split, read.id, read.prompt, read.category) == ("real-world", "7", GOOD, "spatial_environment")
    assert list(read.mapping) == ["image1", "image2"]
    assert read.target == "compressed_images/0007_output.png"


# --- sources -------------------------------------------------------------------------------------------------


def test_rows_that_cannot_become_an_entry_are_named(tmp_path: Path) -> None:
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 255, (80, 80, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    (tmp_path / "copy.png").write_bytes((tmp_path / "0.png").read_bytes())
    (tmp_path / "broken.png").write_bytes(b"no picture")
    rows: list[dict[str, Any]] = [
        {
            "id": 10,
            "request": "swap the hats",
            "inputs": ["0.png", "1.png"],
            "outputs": ["2.png", "broken.png", "0.png"],
        },
        {"id": 11, "request": "swap the hats!", "inputs": ["0.png", "1.png"], "outputs": ["3.png"]},
        {"id": 12, "request": "???", "inputs": ["0.png", "1.png"], "outputs": ["2.png"]},
        {"id": 13, "request": "one", "inputs": ["0.png"], "outputs": ["2.png"]},
        {"id": 14, "request": "same", "inputs": ["0.png", "copy.png"], "outputs": ["2.png"]},
        {"id": 15, "request": "gone", "inputs": ["0.png", "gone.png"], "outputs": ["2.png"]},
        {"id": 16, "request": "nothing", "inputs": ["0.png", "1.png"], "outputs": []},
        {"id": 17, "request": "away", "inputs": ["0.png", "/etc/x.png"], "outputs": ["2.png"]},
        {"id": 18, "request": "fine", "inputs": ["0.png", "3.png"], "outputs": "2.png"},
    ]
    table = tmp_path / "requests.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    dropped = DroppedItems()
    found, root = read_requests(MultiRefRealSettings(table, out=tmp_path / "out", writer="none"), dropped)
    assert root == tmp_path
    assert [(one.id, len(one.outputs)) for one in found] == [(10, 1), (18, 1)]
    assert {one.id: one.reason for one in dropped if one.what == "request"} == {
        "11": "duplicate",
        "12": "no request",
        "13": "number of inputs",
        "14": "same input twice",
        "15": "unusable picture",
        "16": "no output",
        "17": "unusable picture",
    }
    assert {one.reason for one in dropped if one.what == "output"} == {"unusable picture", "no edit"}


# --- review --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"colour": "red"}, "colour cannot be edited"),
        ({"instruction": "Edit image <image1> by putting a hat on it."}, "does not mention <image2>"),
        ({"category": "6"}, "number from 1 to 5"),
        ({"output": "x"}, "one of y, z"),
    ],
)
def test_a_mistake_in_a_review_is_said(edit: dict[str, Any], said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        read_edit(Decision(id="7", decision="edit", edit=edit), REQUEST)


def test_a_decision_becomes_usable() -> None:
    assert read_edit(Decision(id="7", decision="accept"), REQUEST).settled
    edit = read_edit(
        Decision(id="7", decision="edit", edit={"instruction": GOOD, "category": "2", "output": "z"}), REQUEST
    )
    assert (edit.instruction, edit.category, edit.output) == (GOOD, "element_addition", REQUEST.outputs[1])
