"""Readers of the forms that public benchmarks ask for: strict ones, and what releases make of the same replies."""

from __future__ import annotations

from typing import Any

import pytest

from refbench.benchmarks.kit import Total, benchmark, case, mark_lines, number_pair, score_object, yes_or_no
from refbench.benchmarks.kit.aggregate import split_slices
from refbench.benchmarks.kit.published import table_said
from refbench.benchmarks.kit.replies import viescore_marks
from refbench.failure import Failure
from refbench.judges import Contract
from refbench.record import RefBenchError
from refbench.score import Score
from refbench.tables.scoring import result_of

PAIR = score_object(("done", "kept"), 0, 10)
ONE = score_object(("score",), 0, 10)
LINES = mark_lines(("first", "second", "third"), 1, 5)


def told(contract: Contract, reply: str) -> list[Any]:
    """Marks as they are, failures by their kind."""
    return [mark.kind if isinstance(mark, Failure) else mark for mark in contract.marks(reply).values()]


@pytest.mark.parametrize(
    ("reply", "marks"),
    [
        ('{"score": [8, 7], "reasoning": "fine"}', [8, 7]),
        ('||V^=^V||\n{"reasoning": "fine", "score": [8, 7.5]}\n||V^=^V||', [8, 7.5]),
        ('```json\n{"score": ["8", "7/10"]}\n```', [8, 7]),
        ('{"reasoning": he said "good", "score": [8, 7]}', [8, 7]),
        ("[8, 7]", [8, 7]),
        ('{"score": [8], "reasoning": "short"}', ["unparsable", "unparsable"]),
        ('{"score": 8}', ["unparsable", "unparsable"]),
        ('{"score": []}', ["unparsable", "unparsable"]),
        ('{"score": [12, 7]}', ["out_of_range", 7]),
        ('{"score": [8, 7]} {"score": [3, 7]}', ["unparsable", 7]),
        ("I'm sorry, I cannot judge this.", ["refused", "refused"]),
        ("", ["empty_reply", "empty_reply"]),
        ("They scored well, 8 and 7 I would say.", ["unparsable", "unparsable"]),
    ],
)
def test_a_list_of_scores_has_bounds_and_a_length(reply: str, marks: list[Any]) -> None:
    assert told(PAIR, reply) == marks


@pytest.mark.parametrize(
    ("reply", "mark"),
    [
        ('{"score": 8}', 8),
        ('{"score": [8]}', 8),
        ("7", 7),
        ("{score: 8, reasoning: fine}", 8),
        ('{"score": [8, 7]}', "unparsable"),
        ('{"score": 11}', "out_of_range"),
    ],
)
def test_one_score_is_a_number_or_a_list_of_one(reply: str, mark: Any) -> None:
    assert told(ONE, reply) == [mark]


@pytest.mark.parametrize(
    ("reply", "marks"),
    [
        ("It is fine.\nPrompt Compliance: 5\nVisual Naturalness: 4\nPhysical & Detail Integrity: 3", [5, 4, 3]),
        ("**Prompt Compliance:** 5\n**Naturalness**: 4/5\n- Integrity:3.", [5, 4, 3]),
        ("Prompt Compliance: 5\nNaturalness: 4", ["unparsable"] * 3),
        ("Number of objects: 12\nA: 5\nB: 4\nC: 3", ["unparsable"] * 3),
        ("A: 5\nB: 6\nC: 3", [5, "out_of_range", 3]),
        ("A: 4.5\nB: 4\nC: 3", ["out_of_range", 4, 3]),
        ("Reasoning: 3 trees were removed\nA: 5\nB: 4\nC: 3", [5, 4, 3]),
        ("nothing", ["unparsable"] * 3),
    ],
)
def test_marked_lines_are_exactly_as_many_as_were_asked_for(reply: str, marks: list[Any]) -> None:
    assert told(LINES, reply) == marks


def test_pairs_and_words() -> None:
    pair = number_pair(("following", "likeness"), 0, 10)
    assert told(pair, "So: [8/10, 7/10]") == [8, 7]
    assert told(pair, "[8]") == ["unparsable", "unparsable"]
    assert told(yes_or_no("kept"), "Yes.") == [1]
    assert told(yes_or_no("kept"), "It is hard to say, yes and no") == ["unparsable"]


@pytest.mark.parametrize("contract", [PAIR, ONE, LINES])
def test_what_is_asked_for_is_what_is_read(contract: Contract) -> None:
    assert all(isinstance(mark, float) for mark in contract.marks(contract.example()).values())
    assert "10" in contract.format_text() or "5" in contract.format_text()


@pytest.mark.parametrize(
    ("reply", "marks"),
    [
        ('{"score": [8, 7], "reasoning": "fine"}', [8, 7]),
        ('before ||V^=^V||{"score": [8]}||V^=^V|| behind', [8]),
        ('{"score": [8, 70]}', [8, 70]),
        ("[8, 7]", [8, 7]),
        ("7", [7]),
        ("{score: 8, reasoning: fine}", [8]),
        ('{"score": 8, "reasoning": not bad}', [8]),
        ('{"score": [8, 7], "reasoning": "a "quoted" word"}', None),
        ('{"score": [8, 7],}', None),
        ('{"score": [8, 7]} and {"score": [1, 1]}', None),
        ('{"score": "8"}', None),
        ('{"score": []}', None),
        ("I'm sorry", None),
        ("11", None),
    ],
)
def test_the_released_viescore_reader_takes_and_loses_what_it_is_known_to(
    reply: str, marks: list[float] | None
) -> None:
    found = viescore_marks(reply)
    assert (None if isinstance(found, Failure) else found) == marks


def numbers(bench: Any, cases: list[Any], values: list[float]) -> Any:
    scores = [
        Score(case=one.id, model="A", judge="J", metric="edit", protocol="corrected", value=value)
        for one, value in zip(cases, values, strict=True)
    ]
    return result_of(bench, cases, scores, draws=20)


@pytest.fixture
def cases() -> list[Any]:
    return [
        case("1", "do", {}, groups={"task": "a", "language": "en"}),
        case("2", "do", {}, groups={"task": "a", "language": "en"}).model_copy(update={"tags": ("both",)}),
        case("3", "do", {}, groups={"task": "b", "language": "en"}).model_copy(update={"tags": ("both",)}),
        case("4", "do", {}, groups={"task": "b", "language": "cn"}),
    ]


def made(cases: list[Any], **further: Any) -> Any:
    from refbench.benchmarks.kit import asks, last_mark

    call = asks("edit", reads=last_mark("Score", 0, 10))(lambda case, shown: ["?"])
    return benchmark(name="mine", load=lambda root: cases, judge=[call], **further)


def test_languages_are_told_apart_and_so_are_tags_within_them(cases: list[Any]) -> None:
    bench = made(cases, slices=lambda some: split_slices(some, "language", "task", ("both",)))
    result = numbers(bench, cases, [2, 6, 8, 5])
    value = {tuple(row.slice.items()): row.value for row in result.table.rows}
    assert value[("level", "language"), ("language", "en")] == pytest.approx((4 + 8) / 2)
    assert value[("level", "language"), ("language", "cn")] == pytest.approx(5)
    assert value[("level", "both"), ("language", "en"), ("tag", "both")] == pytest.approx((6 + 8) / 2)
    assert value[("level", "task"), ("language", "en"), ("task", "a")] == pytest.approx(4)
    assert value[(("level", "overall"),)] == pytest.approx((6 + 5) / 2)


def test_the_means_of_groups_may_have_fixed_weights(cases: list[Any]) -> None:
    bench = made(cases, macro=("task",), weights={"a": 3})
    assert numbers(bench, cases, [2, 6, 8, 4]).value(metric="edit", level="overall") == pytest.approx((3 * 4 + 6) / 4)
    with pytest.raises(RefBenchError, match="weights= are of the values of a macro= group"):
        made(cases, weights={"a": 3}, total=Total("mean"))


@pytest.mark.parametrize(
    ("table", "said"),
    [("S1", "Table S1"), ("3", "Table 3"), ("project page", "project page"), ("leaderboard", "leaderboard")],
)
def test_a_table_is_named_by_its_number_or_as_it_is_called(table: str, said: str) -> None:
    assert table_said(table) == said
