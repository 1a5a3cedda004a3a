"""Replies are read as the released script does, quirks included, and by the contract, 0 and 1 only."""

from __future__ import annotations

import pytest

from refbench.benchmarks.ideabench.replies import read_corrected, read_paper
from refbench.failure import Failure

QUIRKS = [
    # What the released function gave when it was run.
    ('{"score": 1, "reason": "good"}', 1.0),
    ("{'score': 1, 'reason': 'good'}", 1.0),
    ('```json\n{"score": 0, "reason": "no"}\n```', 0.0),
    ('{"score": "1", "reason": "good"}', None),
    ("{score: 1}", None),
    ('{"Score": 1}', None),
    ('{"score": 10}', 1.0),
    ('{"score": 5}', 5.0),
    ('{"score": 0.9}', 0.0),
    ("The score is 1.", None),
    ('{"score": 0} no, wait {"score": 1}', 0.0),
]


@pytest.mark.parametrize(("reply", "value"), QUIRKS)
def test_paper_reads_one_digit_behind_the_quoted_key(reply: str, value: float | None) -> None:
    said = read_paper(reply)
    assert said == value if value is not None else isinstance(said, Failure) and said.kind == "unparsable"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"reason": "good", "score": 1}', 1.0),
        ("{'score': 0, 'reason': 'bad'}", 0.0),
        ('```json\n{"score": 1}\n```', 1.0),
        ('{"score": "1"}', 1.0),
        ('{"Score": 0}', 0.0),
        ('{"score": 10}', "out_of_range"),
        ('{"score": 5}', "out_of_range"),
        ('{"score": 0.5}', "out_of_range"),
        ('{"score": 0} no, wait {"score": 1}', "unparsable"),
        ("The picture is nice.", "unparsable"),
        ("I'm sorry, I can't help with that.", "refused"),
        ("  \n", "empty_reply"),
    ],
)
def test_corrected_takes_0_and_1_and_nothing_else(reply: str, expected: float | str) -> None:
    said = read_corrected(reply)
    assert (said.kind if isinstance(said, Failure) else said) == expected


@pytest.mark.parametrize(("reply", "kind"), [("", "empty_reply"), ("I cannot judge people.", "refused")])
def test_paper_tells_refusals_and_silence_from_replies_that_cannot_be_read(reply: str, kind: str) -> None:
    said = read_paper(reply)
    assert isinstance(said, Failure)
    assert said.kind == kind


@pytest.mark.parametrize("reply", ["{" * 50_000, '"score"' * 30_000, '"score": ' * 30_000, "\x00'score':\t\n٣"])
def test_no_reply_makes_a_reader_raise(reply: str) -> None:
    for read in (read_paper, read_corrected):
        assert isinstance(read(reply), float | Failure)
