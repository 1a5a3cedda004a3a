"""Rubrics: text files that say what they ask for, and one sentence for everything that is wrong with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, combine, load_rubric, parse_rubric, repair_request
from refbench.judges.rubric import shipped_rubrics
from refbench.record import RefBenchError

GOOD = """+++
name = "mine"
dialect = "json_object"
range = [1, 5]

[[criteria]]
name = "beauty"
description = "How beautiful?"
+++
Judge this: {instruction}

{criteria}

{format}
"""


def test_the_shipped_rubrics_load_and_fill() -> None:
    assert shipped_rubrics() == ("checklist", "five_criteria", "viescore_pair")
    for name in shipped_rubrics():
        rubric = load_rubric(name)
        for part in rubric.parts:
            prompt = rubric.prompt(part, "Paint the {format} red", ["Is it red?"])
            assert rubric.contract(part, ["Is it red?"]).format_text() in prompt
            assert "{criteria}" not in prompt
            assert "{questions}" not in prompt


def test_five_criteria_are_weighted_as_declared() -> None:
    (part,) = load_rubric("five_criteria").parts
    assert list(part.headline().values()) == [3, 3, 1, 1, 1]
    assert set(part.measures().values()) == {(1, 10)}


def test_the_second_call_of_the_pair_sees_only_the_output_and_not_the_instruction() -> None:
    rubric = load_rubric("viescore_pair")
    semantic, perceptual = rubric.parts
    assert semantic.shows == ("source", "references", "output")
    assert perceptual.shows == ("output",)
    assert "Paint it" in rubric.prompt(semantic, "Paint it")
    assert "Paint it" not in rubric.prompt(perceptual, "Paint it")
    assert rubric.total == "geometric_mean"
    assert list(semantic.headline()) == ["semantic_consistency"]


def test_braces_in_an_instruction_stay_what_they_are() -> None:
    rubric = parse_rubric(GOOD, "mine.md")
    prompt = rubric.prompt(rubric.parts[0], "Write {criteria} and {format} on it")
    assert "Judge this: Write {criteria} and {format} on it" in prompt


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('dialect = "json_object"\n', "", r"mine\.md: the rubric declares no dialect: add dialect"),
        ('"json_object"', '"yaml"', "no dialect is called 'yaml'"),
        ("+++\n", "", "begins with a line"),
        ('name = "mine"', "name = mine", "not valid TOML"),
        ('name = "mine"', 'name = "mine"\ncolour = 1', "a rubric has no colour: there are name, title"),
        ("range = [1, 5]\n", "rnage = [1, 5]\n", r"a rubric has no (criteria\.0\.)?rnage: did you mean range"),
        ('name = "mine"', 'name = "mine"\ntotal = "sum"', "total of the rubric is not as it should be"),
        ("range = [1, 5]\n", "", "beauty has no range"),
        ("range = [1, 5]\n", "range = [5, 1]\n", "lower end first"),
        ('name = "beauty"', 'name = "beau ty"', "cannot be the name of a criterion"),
        ('name = "beauty"', 'name = "beauty"\nkind = "text"', "no mark"),
        ('name = "beauty"', 'name = "beauty"\nkind = "questions"', r"put \{questions\}"),
        ('name = "beauty"', 'name = "total"', "two measures would be called total"),
        ("{format}", "", r"put \{format\}"),
        ("{instruction}", "{instructions}", r"\{instructions\} is not a placeholder"),
    ],
)
def test_a_rubric_that_is_wrong_says_so_in_one_sentence(old: str, new: str, says: str) -> None:
    with pytest.raises(RefBenchError, match=says) as caught:
        parse_rubric(GOOD.replace(old, new, 1), "mine.md")
    assert str(caught.value).startswith("mine.md")
    assert "\n" not in str(caught.value)


def test_a_rubric_is_found_by_file_or_by_name(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text(GOOD)
    assert load_rubric(tmp_path / "mine.md").name == "mine"
    with pytest.raises(RefBenchError, match="did you mean five_criteria"):
        load_rubric("five_criterias")


def test_totals_pass_failures_on() -> None:
    refused = Failure(kind="refused")
    assert combine("minimum", [3.0, 2.0]) == 2.0
    assert combine("geometric_mean", [4.0, 9.0]) == pytest.approx(6.0)
    assert combine("geometric_mean", [0.0, 9.0]) == 0.0
    assert combine("weighted_mean", [1.0, 5.0], [3, 1]) == 2.0
    assert combine("mean", [1.0, refused]) == refused
    assert isinstance(combine("mean", []), Failure)


def test_the_repair_attempt_is_the_same_question_with_the_reply_quoted() -> None:
    contract = Contract("json_object", (Criterion("beauty", Scale(1, 5)),))
    asked = ChatRequest(
        parts=(ChatPicture(sha256="a" * 64), ChatText(text="Judge.")),
        max_tokens=99,
        json_schema=contract.json_schema(),
    )
    again = repair_request(asked, "{format} it is nice " + "x" * 5000, contract.format_text())
    assert again.parts[:2] == asked.parts
    assert (again.max_tokens, again.json_schema) == (asked.max_tokens, asked.json_schema)
    (added,) = again.parts[2:]
    assert isinstance(added, ChatText)
    assert "{format} it is nice" in added.text
    assert contract.format_text() in added.text
    assert added.text.count("x" * 1980) == 1
    assert "x" * 2000 not in added.text
    assert again == repair_request(asked, "{format} it is nice " + "x" * 5000, contract.format_text())


def test_a_rubric_may_say_that_the_last_mark_counts() -> None:
    rubric = parse_rubric(GOOD.replace('"json_object"', '"labelled_lines"\nwhich = "last"'), "mine.md")
    (part,) = rubric.parts
    assert rubric.contract(part).read("Beauty: 2\nThe light is better than I thought.\nFinal beauty: 4") == {
        "beauty": 4.0
    }
    with pytest.raises(RefBenchError, match=r"mine\.md: which of the rubric is not as it should be"):
        parse_rubric(GOOD.replace('"json_object"', '"labelled_lines"\nwhich = "first"'), "mine.md")
    questions = GOOD.replace('"json_object"', '"json_per_question"\nwhich = "last"')
    with pytest.raises(RefBenchError, match="json_per_question cannot tell which statement is the last"):
        parse_rubric(questions, "mine.md")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ('dialect = "json_object"', f"dialect = {'[' * 20_000}"),
        ('dialect = "json_object"', f"{'.'.join(['a'] * 20_000)} = 1"),
    ],
)
def test_a_rubric_nested_without_end_is_refused(tmp_path: Path, change: str, says: str) -> None:
    path = tmp_path / "rubric.md"
    path.write_text(GOOD.replace(change, says))
    with pytest.raises(RefBenchError, match=r"rubric\.md: what stands between its \+\+\+ lines .* more than"):
        load_rubric(path)
    path.write_bytes(GOOD.encode() + b"\xe9")
    with pytest.raises(RefBenchError, match=r"rubric\.md, line \d+ is not UTF-8"):
        load_rubric(path)
