"""What is changed in words: the numbers of pictures in an instruction, and a judge's text."""

from __future__ import annotations

import pytest

from refbench.builders.audit.wording import names_sides, renumbered, reworded, turned_lists
from refbench.chat.vlm import ChatPicture, ChatRequest, ChatText

SWAPPED = {1: 2, 2: 1}


@pytest.mark.parametrize(
    ("instruction", "moved"),
    [
        ("Put image 1 on Image 2.", "Put image 2 on Image 1."),
        ("The first image and the second reference image.", "The second image and the first reference image."),
        ("First, the cat of picture 2.", "First, the cat of picture 1."),
        ("Take <image_1> and [image 2], 图1.", "Take <image_2> and [image 1], 图2."),
        ("A cat beside a dog, 2 of them.", "A cat beside a dog, 2 of them."),
        ("Use image 12.", None),
        ("Use the last image.", None),
        ("Use images 1 and 2.", None),
    ],
)
def test_numbers_follow_their_pictures_or_nothing_is_claimed(instruction: str, moved: str | None) -> None:
    assert renumbered(instruction, SWAPPED) == moved


def test_left_and_right_are_sides() -> None:
    assert names_sides("the cat on the LEFT")
    assert names_sides("右边")
    assert not names_sides("bright copyright")


def test_lists_are_turned_and_numbered_ones_stay() -> None:
    text = "Marks:\n- one: a\n- two: b\n\n1. first\n2. second\nend"
    assert turned_lists(text) == "Marks:\n- two: b\n- one: a\n\n1. first\n2. second\nend"
    assert turned_lists("no list\n") == "no list\n"


def test_the_name_of_a_maker_stands_behind_the_output() -> None:
    shown = ChatPicture(sha256="a"), ChatText(text="Output:"), ChatPicture(sha256="b"), ChatText(text="Mark it.")
    asked = reworded(ChatRequest(parts=shown), "made_by:X", ["b"])
    assert [part.text if isinstance(part, ChatText) else part.sha256 for part in asked.parts] == [
        "a",
        "Output:",
        "b",
        "(The picture to be judged was made by X.)",
        "Mark it.",
    ]
