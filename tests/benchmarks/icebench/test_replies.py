"""Readers of the judge's answer, and of the released result file's lines."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbench import Failure
from refbench.benchmarks.icebench.replies import read_corrected, read_paper, read_result_line


def told(value: float | Failure) -> float | str:
    return value.kind if isinstance(value, Failure) else value


@pytest.mark.parametrize(
    ("reply", "paper", "corrected"),
    [
        ("1", 1, 1),
        ("0", 0, 0),
        (" 1 \n", 1, 1),
        ("1.0", 1, 1),
        ("0.0", 0, 0),
        ("10", 10, "out_of_range"),
        ("1 0", 10, "unparsable"),
        ("0 1", 1, "unparsable"),
        ("0\n1", 1, "unparsable"),
        ("0.5", 0.5, "out_of_range"),
        ("-1", -1, "out_of_range"),
        ("Yes", "unparsable", 1),
        ("No.", "unparsable", 0),
        ("**1**", "unparsable", 1),
        ("Answer: 0", "unparsable", 0),
        ('{"answer": 1}', "unparsable", 1),
        ("1\n0", 10, "unparsable"),
        ("The edit is there.", "unparsable", "unparsable"),
        ("1. The hat is red", "unparsable", "unparsable"),
        ("I'm sorry, I can't help with that.", "unparsable", "refused"),
        ("<think>0 or 1?</think>1", "unparsable", 1),
        ("", "empty_reply", "empty_reply"),
        (" \n", "empty_reply", "empty_reply"),
        ("nan", "out_of_range", "unparsable"),
        ("inf", "out_of_range", "unparsable"),
        ("1" * 5000, "unparsable", "unparsable"),
    ],
)
def test_each_shape_of_a_reply(reply: str, paper: float | str, corrected: float | str) -> None:
    assert told(read_paper(reply)) == paper
    assert told(read_corrected(reply)) == corrected


@given(st.text(max_size=300))
def test_no_reply_makes_a_reader_raise_or_give_what_is_no_answer(reply: str) -> None:
    paper, corrected = read_paper(reply), read_corrected(reply)
    assert isinstance(paper, Failure) or math.isfinite(paper)
    assert isinstance(corrected, Failure) or corrected in (0.0, 1.0)


def test_a_line_of_the_result_file_is_read_under_our_names() -> None:
    line = 'a1#;#Color Editing#;#{"aes_v2.5": 5.5, "musiq_koniq": 61, "clip_cap": 0.28, "vllmqa": 1.0, "l1_raw": NaN}\n'
    said = read_result_line(line)
    assert not isinstance(said, Failure)
    item, task, values = said
    assert (item, task) == ("a1", "Color Editing")
    assert math.isnan(values.pop("l1_raw"))
    assert values == {"aes": 5.5, "img": 61.0, "clip_cap": 0.28, "qa": 1.0}


@pytest.mark.parametrize("line", ["", "a1", "a1#;#x", "a1#;#x#;#{", "a1#;#x#;#[]", 'a1#;#x#;#{"aes_v2.5": "high"}'])
def test_a_line_that_is_no_result_is_a_failure(line: str) -> None:
    assert isinstance(read_result_line(line), Failure)
