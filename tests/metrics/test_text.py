"""Wanted text against read lines: the arithmetic, and a rendered picture through the real reader."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from refbench.failure import Failure
from refbench.metrics import find_metric
from refbench.metrics.measure import measure
from refbench.metrics.text import plain, text_likeness, text_match
from refbench.networks import why_not


def distance(a: str, b: str) -> int:
    """Levenshtein's recurrence as it stands in textbooks."""
    table = [[i + j if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
    return table[-1][-1]


def feature(*lines: tuple[str, float]) -> dict[str, np.ndarray]:
    return {
        "lines": np.array([text for text, _ in lines], dtype=np.str_),
        "scores": np.array([score for _, score in lines], dtype=np.float32),
        "boxes": np.zeros((len(lines), 4, 2), np.float32),
    }


@settings(max_examples=150, deadline=None)
@given(st.text("abcde", max_size=12), st.text("abcde", min_size=1, max_size=12))
def test_one_line_has_the_likeness_of_its_edit_distance(line: str, wanted: str) -> None:
    expected = 1 - distance(line, wanted) / max(len(line), len(wanted)) if line else 0.0
    assert text_likeness([line], wanted) == pytest.approx(expected)


def test_lines_count_in_any_order() -> None:
    parts = ["HAPPY", "BIRTHDAY", "DEAR", "ANNA"]
    for order in permutations(parts):
        assert text_likeness(order, "Happy birthday dear Anna") == 1


def test_other_text_of_the_scene_costs_nothing() -> None:
    assert text_likeness(["EXIT", "open", "Bakery 24h", "daily"], "Open daily") == 1


def test_a_wrong_letter_costs_its_share() -> None:
    assert text_likeness(["OPFN", "DAILY"], "open daily") == pytest.approx(8 / 9)


def test_a_missing_line_costs_its_letters() -> None:
    assert text_likeness(["open"], "open daily") == pytest.approx(4 / 9)


def test_letters_beyond_the_wanted_text_in_its_own_line_cost() -> None:
    assert text_likeness(["opening"], "open") == pytest.approx(4 / 7)


def test_spaces_case_width_and_quotation_marks_do_not_count() -> None:
    assert plain("Ｏｐｅｎ  “Daily”\n") == 'open"daily"'
    assert text_likeness(["GUARANTEEDfor"], "guaranteed for") == 1
    assert text_likeness(["Straße"], "STRASSE") == 1


def test_case_counts_when_asked_to() -> None:
    assert text_likeness(["OPEN"], "open", ignore_case=False) == 0
    assert text_likeness(["Open"], "Open", ignore_case=False) == 1


def test_chinese_and_japanese_are_compared_letter_by_letter() -> None:
    assert text_likeness(["花都开了", "春天来了，"], "春天来了，花都开了") == 1
    assert text_likeness(["桜の花か"], "桜の花が") == pytest.approx(3 / 4)


def test_many_lines_are_searched_in_bounded_time() -> None:
    words = [f"word{n:02d}" for n in range(60)]
    assert text_likeness(words[::-1], " ".join(words[20:24])) == 1


def test_nothing_read_is_a_measured_zero() -> None:
    assert text_match(feature(), "open") == 0
    assert text_match(feature(("open", 0.6)), "open") == 0  # letter-like scribbles have such scores
    assert text_match(feature(("open", 0.9)), "open") == 1


def test_an_empty_wanted_text_is_undefined() -> None:
    for caption in ("", " \n"):
        value = text_match(feature(("open", 0.9)), caption)
        assert isinstance(value, Failure)
        assert value.kind == "undefined"


def test_the_metric_names_its_network() -> None:
    assert find_metric("text_match").id == "text_match@ppocr"


def test_a_rendered_sign_is_measured_from_its_file(tmp_path: Path) -> None:
    reason = why_not("ppocr")
    if reason is not None:
        pytest.skip(reason)
    sign = Image.new("RGB", (480, 240), "white")
    ImageDraw.Draw(sign).text((30, 60), "Open daily", font=ImageFont.load_default(size=48), fill="black")
    sign.save(tmp_path / "sign.png")
    assert measure("text_match", output=tmp_path / "sign.png", caption="OPEN DAILY").value == 1
