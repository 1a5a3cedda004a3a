"""Readers of replies: every shape of the release, and what must never be read."""

from __future__ import annotations

import json

import pytest

from refbench import Failure
from refbench.benchmarks.creval.cases import Question
from refbench.benchmarks.creval.replies import NOT_FOUND, read_choice, read_corrected, read_paper
from support.checkout import reply_text


def asked(count: int) -> list[Question]:
    return [
        Question(id=f"Q{n}", text=f"Is thing {n} there?", choices=("Yes", "No"), reference="Yes", weight=1)
        for n in range(1, count + 1)
    ]


def corrected(reply: str, count: int = 2) -> list[str | None]:
    answers = read_corrected(reply, asked(count))
    assert not isinstance(answers, Failure), answers
    return [read_choice(answer or "") for answer in answers]


GOOD = reply_text([("Q1", "Yes"), ("Q2", "No")])


@pytest.mark.parametrize(
    ("shape", "reply"),
    [
        ("bare objects", GOOD),
        ("in a fence", f"```json\n{GOOD}\n```"),
        ("a list", f"[{GOOD.replace('}', '},', 1)}]"),
        ("capitalised keys", reply_text([("Q1", "Yes"), ("Q2", "No")], keys=("Question", "Explanation", "Answer"))),
        ("lower-case question", reply_text([("Q1", "Yes"), ("Q2", "No")], keys=("question", "explanation", "answer"))),
        ("the id as key", '{"Q1": "Is it?", "explanation": "e", "answer": "Yes"}\n{"Q2": "Is it?", "answer": "No"}'),
        ("numbered keys", '{"Question 1": "Is it?", "answer": "Yes"} {"Question 2": "Is it?", "answer": "No"}'),
        ("id to answer", '{"Q1": "Yes", "Q2": "No"}'),
        ("id to object", '{"Q1": {"explanation": "e", "answer": "Yes"}, "Q2": {"answer": "No"}}'),
        ("nested in a list", '{"explanation": "all", "answer": [' + GOOD.replace("}", "},", 1) + "]}"),
        ("braces in a string", GOOD.replace("Seen in the picture.", "The label '{{brand}}' is there.", 1)),
        ("unescaped quotes", GOOD.replace("Seen in the picture.", 'The sign says "open" in red.', 1)),
        ("a missing comma", GOOD.replace('picture.",', 'picture."', 1)),
        ("a wrong closing quote", GOOD.replace('picture.",', "picture.',", 1)),
        ("a semicolon for the comma", GOOD.replace('picture.",', 'picture.";', 1)),
        ("stray brackets", GOOD.replace('"Yes"', '"Yes"));', 1)),
        ("no comma after the id", '{"Question": "Q1:" "Is it?", "answer": "Yes"}\n{"Question": "Q2:" "Is it?", "answer": "No"}'),
        ("answers with full stops", reply_text([("Q1", "Yes."), ("Q2", "**No**")])),
        ("answers with reasons", reply_text([("Q1", "Yes, it is there"), ("Q2", "No (hidden)")])),
        ("the question's text without its id", '{"Question": "Is thing 1 there?", "answer": "Yes"}\n{"Question": "Is thing 2 there?", "answer": "No"}'),
        ("answer before question", '{"answer": "Yes", "Question": "Q1: a"}\n{"answer": "No", "Question": "Q2: b"}'),
        ("the same thing said twice", GOOD + GOOD),
        ("windows line ends", GOOD.replace("\n", "\r\n")),
    ],
)  # fmt: skip
def test_corrected_reads(shape: str, reply: str) -> None:
    assert corrected(reply) == ["yes", "no"], shape


@pytest.mark.parametrize(
    ("shape", "reply", "expected"),
    [
        ("an object without a question", '{"explanation": "e", "answer": "Yes"}\n' + reply_text([("Q2", "No")]), [None, "no"]),
        ("no answer key", '{"Question": "Q1: a", "explanation": "e"}\n' + reply_text([("Q2", "No")]), [None, "no"]),
        ("an empty answer", reply_text([("Q1", ""), ("Q2", "No")]), [None, "no"]),
        ("a number for an answer", '{"Question": "Q1: a", "answer": 1}' + reply_text([("Q2", "No")]), [None, "no"]),
        ("contradicting objects", reply_text([("Q1", "Yes"), ("Q1", "No"), ("Q2", "No")]), [None, "no"]),
        ("contradicting keys", '{"Question": "Q1: a", "answer": "Yes", "answer": "No"}' + reply_text([("Q2", "No")]), [None, "no"]),
        ("two questions in one object", '{"Question": "Q1: a", "question_id": "Q2", "answer": "Yes"}' + reply_text([("Q2", "No")]), [None, "no"]),
        ("Q10 is not Q1", reply_text([("Q10", "Yes"), ("Q2", "No")]), [None, "no"]),
        ("cut off in the answer", GOOD[: GOOD.rindex("No") + 1], ["yes", None]),
        ("cut off before the answer", GOOD[: GOOD.rindex('"answer"')], ["yes", None]),
        ("the words yes and no in an explanation", '{"Question": "Q1: a", "explanation": "answer: Yes"}' + reply_text([("Q2", "No")]), [None, "no"]),
        ("an escaped answer in an explanation", json.dumps({"Question": "Q1: a", "explanation": 'he wrote "answer": "Yes"'}) + reply_text([("Q2", "No")]), [None, "no"]),
        ("an answer of the next object", '{"Question": "Q1: a "quoted" text"}\n{"answer": "Yes", "explanation": "x"}\n' + reply_text([("Q2", "No")]), [None, "no"]),
        ("no visible change is not no", reply_text([("Q1", "No visible change"), ("Q2", "No")]), [None, "no"]),
        ("yes or no is neither", reply_text([("Q1", "Yes or No"), ("Q2", "No")]), [None, "no"]),
        ("not applicable", reply_text([("Q1", "N/A"), ("Q2", "No")]), [None, "no"]),
    ],
)  # fmt: skip
def test_corrected_does_not_read(shape: str, reply: str, expected: list[str | None]) -> None:
    assert corrected(reply) == expected, shape


def test_an_answer_that_is_neither_keeps_its_words() -> None:
    answers = read_corrected(reply_text([("Q1", "Not applicable due to blur.")]), asked(1))
    assert answers == ("Not applicable due to blur.",)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("", "empty_reply"),
        (" \n\t", "empty_reply"),
        ("I'm sorry, but I can't help with that.", "refused"),
        ("I cannot assist with this request.", "refused"),
        ("The picture is lovely.", "unparsable"),
        ("{" * 50, "unparsable"),
        ("x" * 300_000, "unparsable"),
    ],
)
def test_a_reply_without_any_answer_is_a_failure_of_its_kind(reply: str, kind: str) -> None:
    found = read_corrected(reply, asked(2))
    assert isinstance(found, Failure)
    assert found.kind == kind


def test_the_paper_reader_keeps_the_quirks_of_the_released_script() -> None:
    prefix = read_paper(reply_text([("Q10", "Yes"), ("Q2", "No")]), asked(2))
    assert prefix == ("Yes", "No"), "Q1 takes the answer of Q10 when its own is missing"
    assert read_paper(reply_text([("Q1", "Yes")]), asked(2)) == ("Yes", NOT_FOUND)
    assert read_paper(reply_text([("Q1", "Yes")], keys=("Question", "Explanation", "Answer")), asked(1)) == ("",)
    assert read_paper(reply_text([("Q1", "Yes"), ("Q1", "No")]), asked(1)) == ("Yes",)
    assert isinstance(read_paper("no JSON at all", asked(1)), Failure)
    braces = GOOD.replace("Seen in the picture.", "The label '{{brand}}' is there.", 1)
    assert read_paper(braces, asked(2)) == (NOT_FOUND, "No")


@pytest.mark.parametrize(
    ("words", "choice"),
    [
        ("Yes", "yes"), ("no", "no"), ("** Yes", "yes"), ("Yes\n```", "yes"), ("No  \n```", "no"), ("'No'.", "no"),
        ("No (unless stated otherwise)", "no"), ("Yes, clearly", "yes"), ("", None), ("Yesterday", None),
        ("None", None), ("Not applicable", None), ("No one is there", None), ("yes no", None), ("nope", None),
    ],
)  # fmt: skip
def test_choices(words: str, choice: str | None) -> None:
    assert read_choice(words) == choice
