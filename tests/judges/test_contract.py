"""The judge contract: what is asked and what is read are one thing, and a reply never gives more than it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, Text, YesNo, combine
from refbench.judges.dialects import DIALECTS
from refbench.judges.values import LONGEST_REPLY
from refbench.record import RefBenchError

MARKS = (Criterion("visual_quality", Scale(1, 10)), Criterion("physical_realism", Scale(1, 10)))
QUESTIONS = (Criterion("Q1", YesNo(), "Is the hat red?"), Criterion("Q2", YesNo(), "Is the {sign} gone?"))
ONE = (Criterion("present", YesNo(), "Is it there?"),)


def said(dialect: str, reply: str, criteria: tuple[Criterion, ...] = MARKS) -> dict[str, Any]:
    """Values as they are, failures as their kind."""
    read = Contract(dialect, criteria).read(reply)
    return {name: value.kind if isinstance(value, Failure) else value for name, value in read.items()}


@pytest.mark.parametrize(
    "reply",
    [
        '{"visual_quality": 7, "physical_realism": 8.5}',
        'Here you are:\n```json\n{"Visual-Quality": "7/10", "physicalRealism": {"score": 8.5, "reason": "3 hands"}}\n```',
        '{"scores": {"Visual quality": "**7**", "PHYSICAL REALISM": "8.5 out of 10"}}',
        '{"reasoning": "the sign says "no" {", "visual_quality": 7, "physical_realism": 8.5}',
        '{"visual_quality": 7, "physical_realism": 8.5',
        '{"visual_quality": 7 "physical_realism": 8.5}\n{"visual_quality": 7, "physical_realism": 8.5}',
        "**Visual quality:** 7/10\n**Physical realism:** 8.5 - shadows are right",
        "<think>{\"visual_quality\": 2}</think>Visual quality: 7, Physical realism: 8.5.",
        "| Visual quality | 7 |\n| Physical realism | 8.5 |",
    ],
)  # fmt: skip
@pytest.mark.parametrize("dialect", ["json_object", "labelled_lines"])
def test_marks_are_read_however_they_are_dressed_up(dialect: str, reply: str) -> None:
    assert said(dialect, reply) == {"visual_quality": 7.0, "physical_realism": 8.5}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"visual_quality": 11, "physical_realism": 5}', ("out_of_range", 5.0)),
        ('{"visual_quality": -1, "physical_realism": 1e999}', ("out_of_range", "out_of_range")),
        ('{"visual_quality": NaN, "physical_realism": true}', ("out_of_range", "unparsable")),
        ('{"visual_quality": "6-7", "physical_realism": "3/5"}', ("unparsable", "unparsable")),
        ('{"visual_quality": "7 or 8", "physical_realism": "2 of 3 subjects"}', ("unparsable", "unparsable")),
        ('{"visual_quality": 7, "visual_quality": 8, "physical_realism": 5}', ("unparsable", 5.0)),
        ('{"visual_quality": 7}', (7.0, "unparsable")),
        ("Visual quality: 7\nVisual quality: 9\nPhysical realism: 5", ("unparsable", 5.0)),
        ("The visual quality is high, a solid 8 of 10.", ("unparsable", "unparsable")),
        ("I'm sorry, but I can't rate pictures of people.", ("refused", "refused")),
        ("", ("empty_reply", "empty_reply")),
        (" \n", ("empty_reply", "empty_reply")),
        ("x" * (LONGEST_REPLY + 1), ("unparsable", "unparsable")),
        ('{"visual_quality": ' + "9" * 5000 + ', "physical_realism": 5}', ("out_of_range", 5.0)),
        ('{"a": ' * 5000, ("unparsable", "unparsable")),
    ],
)
def test_what_is_no_mark_is_a_failure_with_a_kind(reply: str, expected: tuple[Any, Any]) -> None:
    assert tuple(said("json_object", reply).values()) == expected


def test_whole_numbers_where_they_were_asked_for() -> None:
    whole = (Criterion("mark", Scale(1, 5, whole=True)),)
    assert said("json_object", '{"mark": 4.0}', whole) == {"mark": 4.0}
    assert said("json_object", '{"mark": 4.5}', whole) == {"mark": "out_of_range"}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("[7, 8]", (7.0, 8.0)),
        ('{"reasoning": "fine", "score": [7, 8.0]}', (7.0, 8.0)),
        ("Scores: **[7/10, 8/10]**", (7.0, 8.0)),
        ('["7", "8"]', (7.0, 8.0)),
        ("7, 8", (7.0, 8.0)),
        ("[7, 80]", (7.0, "out_of_range")),
        ("[7]", ("unparsable", "unparsable")),
        ("[7, 8, 9]", ("unparsable", "unparsable")),
        ("[7, eight]", ("unparsable", "unparsable")),
        ("[1, 2], no: [2, 2]", ("unparsable", 2.0)),
    ],
)
def test_number_lists(reply: str, expected: tuple[Any, Any]) -> None:
    assert tuple(said("number_list", reply).values()) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Yes", True), ("no.", False), ("1", True), ("0\n", False), ("**Yes**, it is.", True), ("```\nNo\n```", False),
        ("The hat is there.\n\nAnswer: Yes", True), ('{"answer": "no"}', False), ("The answer is no.", False),
        ("No visible change", "unparsable"), ("Yes\nNo", "unparsable"), ("1.5", "unparsable"), ("yes/no", "unparsable"),
        ("1. The hat is red", "unparsable"), ("10", "unparsable"), ("Maybe", "unparsable"), ("I cannot help.", "refused"),
    ],
)  # fmt: skip
def test_single_answers(reply: str, expected: Any) -> None:
    assert said("binary", reply, ONE) == {"present": expected}


@pytest.mark.parametrize(
    "reply",
    [
        '{"answers": [{"question": "Q1", "explanation": "e", "answer": "Yes"}, {"question": "Q2", "explanation": "", "answer": "No"}]}',
        '[{"Question": "Q1: Is the hat red?", "Answer": "yes."}, {"question_id": 2, "answer": false}]',
        '{"question": "Is the hat red?", "answer": "Yes"} {"question": "Is the {sign} gone?", "answer": "No"}',
        '{"Q1": "Yes", "Q2": {"explanation": "it is there", "answer": "No"}}',
        '{"question": "Q1: the "hat"", "answer": "Yes",}\n{"question": "Q2", "answer": "No",}',
        "Q1: Yes\nQ2: No, it is still there",
    ],
)
def test_answers_to_questions(reply: str) -> None:
    assert said("json_per_question", reply, QUESTIONS) == {"Q1": True, "Q2": False}


def test_an_answer_belongs_to_the_question_it_names() -> None:
    ten = tuple(Criterion(f"Q{n}", YesNo(), f"Is part {n} there?") for n in range(1, 11))
    reply = '[{"question": "Q10", "answer": "Yes"}, {"question": "Q2 and Q3", "answer": "No"}, {"answer": "Yes"}]'
    read = said("json_per_question", reply, ten)
    assert (read["Q1"], read["Q10"], read["Q3"]) == ("unparsable", True, "unparsable")


def test_optional_criteria_may_be_left_out() -> None:
    criteria = (*MARKS, Criterion("remark", Text(), optional=True))
    assert (
        said("json_object", '{"visual_quality": 1, "physical_realism": 2, "remark": null}', criteria)["remark"] is None
    )
    assert said("labelled_lines", "Remark: too dark\nVisual quality: 1", criteria)["remark"] == "too dark"


@pytest.mark.parametrize(
    ("dialect", "criteria"),
    [("json_object", MARKS), ("labelled_lines", MARKS), ("number_list", MARKS), ("binary", ONE), ("json_per_question", QUESTIONS)],
)  # fmt: skip
def test_the_format_asked_for_is_no_answer_when_it_is_echoed(dialect: str, criteria: tuple[Criterion, ...]) -> None:
    contract = Contract(dialect, criteria)
    text = contract.format_text()
    assert "{fields}" not in text
    assert all(isinstance(value, Failure) for value in contract.read(text).values())


def test_a_schema_is_closed_and_requires_every_key() -> None:
    contract = Contract("json_object", (*MARKS, Criterion("remark", Text(), optional=True)))
    schema = contract.json_schema()
    assert schema is not None
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"]) == ["visual_quality", "physical_realism", "remark"]
    assert schema["properties"]["visual_quality"] == {"type": "number", "minimum": 1, "maximum": 10}
    assert schema["properties"]["remark"] == {"type": ["string", "null"]}
    json.dumps(schema)
    item = Contract("json_per_question", QUESTIONS).json_schema()["properties"]["answers"]["items"]  # type: ignore[index]
    assert item["required"] == ["question", "explanation", "answer"]
    for dialect, criteria in (("labelled_lines", MARKS), ("number_list", MARKS), ("binary", ONE)):
        assert Contract(dialect, criteria).json_schema() is None
    assert len(DIALECTS) == 5


@pytest.mark.parametrize(
    ("dialect", "criteria", "says"),
    [
        ("yaml", MARKS, "no dialect"),
        ("binary", MARKS, "exactly one"),
        ("number_list", ONE, "only marks"),
        ("json_object", (), "at least one"),
        ("json_object", (MARKS[0], Criterion("VisualQuality", Scale(1, 2))), "two criteria"),
    ],
)
def test_a_contract_that_cannot_be_is_refused(dialect: str, criteria: tuple[Criterion, ...], says: str) -> None:
    with pytest.raises(RefBenchError, match=says):
        Contract(dialect, criteria)


SCORE = (Criterion("score", Scale(1, 5)),)


@pytest.mark.parametrize(
    ("dialect", "reply", "which", "expected"),
    [
        ("labelled_lines", "The hat is red.\nFinal Score: 3", "all", 3.0),
        ("labelled_lines", "**My final score:** 3/5", "all", 3.0),
        ("labelled_lines", "Score: 2\nOn reflection the hat is there.\nFinal Score: 3", "all", "unparsable"),
        ("labelled_lines", "Score: 2\nOn reflection the hat is there.\nFinal Score: 3", "last", 3.0),
        ("labelled_lines", "Score: 2\nOn reflection:\nScore: 3", "last", 3.0),
        ("labelled_lines", "Score: 2\nOn reflection:\nScore: 9", "last", "out_of_range"),
        ("labelled_lines", "I would say 2, finally 3.", "last", "unparsable"),
        ("number_list", "A first list is [2]. After a second look: [4]", "last", 4.0),
        ("json_object", 'First {"score": 2}, then {"score": 4}', "all", "unparsable"),
        ("json_object", 'First {"score": 2}, then {"score": 4}', "last", 4.0),
        ("json_object", 'First {"score": 2 "why": broken}, then {"score": 4}', "last", 4.0),
        ("json_object", 'First {"score": 2}, then {"score": 4, "why": broken}', "last", 4.0),
        ("json_object", 'First {"score": 2}, then {"score": about 4, "why": broken}', "last", "unparsable"),
        ("labelled_lines", "Score: 2\nFinal score: three or so", "last", "unparsable"),
        ("labelled_lines", "Score: 2\nScore for the hat", "last", 2.0),
        ("json_object", '{"draft": {"score": 2}, "steps": [{"score": 3}], "score": 4}', "last", 4.0),
        ("json_object", '{"score": 2}\n{"score": "cannot tell"}', "last", "unparsable"),
    ],
)
def test_a_reply_may_weigh_a_mark_before_it_gives_it(dialect: str, reply: str, which: Any, expected: Any) -> None:
    read = Contract(dialect, SCORE, which).read(reply)["score"]
    assert (read.kind if isinstance(read, Failure) else read) == expected


def test_only_dialects_with_an_order_have_a_last_statement() -> None:
    with pytest.raises(RefBenchError, match="binary cannot tell which statement is the last"):
        Contract("binary", ONE, "last")
    with pytest.raises(RefBenchError, match="which='first': choose all or last"):
        Contract("json_object", SCORE, "first")  # type: ignore[arg-type]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_made_up_reply_of_every_dialect_reads_back_whole(dialect: str) -> None:
    scale, answer, words = (
        Criterion("mark", Scale(0.2, 0.8)),
        Criterion("Q1", YesNo(), "Is it so?"),
        Criterion("why", Text()),
    )
    asked = {
        "number_list": (Criterion("one", Scale(1, 10, whole=True)), scale), "binary": (answer,),
        "json_per_question": (answer, scale),
    }.get(dialect, (words, scale, answer))  # fmt: skip
    contract = Contract(dialect, asked)
    readings = contract.read(contract.example())
    assert not [one for one in readings.values() if isinstance(one, Failure) or one is None], contract.example()


@given(st.floats(0, 100), st.integers(2, 5))
def test_a_geometric_mean_lies_between_its_marks(mark: float, count: int) -> None:
    """Of 10 and 10 the rounded roots give a little more than 10, which no scale of 10 has."""
    assert combine("geometric_mean", [mark] * count) == mark
