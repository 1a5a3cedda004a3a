"""The replies that are known to trip the releases: `paper` reads each as its release does, without drawing marks;
`corrected` reads it or says why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refbench.benchmarks import benchmark
from refbench.benchmarks.kit import case
from refbench.evidence import Evidence, Purpose
from refbench.tables.scorer import score_evidence

GROUPS = {"language": "en", "task": "single_object", "type": "add", "category": "animal", "prompt": "imaginative"}
CASE = case("a", "do", {}, groups=GROUPS)


def read(name: str, part: str, reply: str, protocol: str) -> Mapping[str, Any]:
    """Each measure of a part: a value, or the kind of the failure."""
    bench = benchmark(name)
    act = Evidence(kind="chat", request={}, reply=reply)
    purpose = Purpose(case="a", model="A", judge="J", part=part)
    scores = {score.metric: score for score in score_evidence(bench, [CASE], [(purpose, act)], [protocol])}
    found = {measure: scores[measure] for measure in bench.asking.parts[part]}
    return {
        name: one.value if one.value is not None else one.failure and one.failure.kind for name, one in found.items()
    }


@pytest.mark.parametrize(
    ("reply", "paper", "corrected"),
    [
        ('{"score": [8, 6], "reasoning": "x"}', 6, 6),
        ('{"score": [8], "reasoning": "x"}', 8, "unparsable"),
        ('{"score": 8}', 8, "unparsable"),
        ('{"score": [12, 11]}', 11, "out_of_range"),
        ('{"score": [8, 6], "reasoning": "a "quoted" word"}', "unparsable", 6),
        ('{"score": [8, 6],}', "unparsable", 6),
        ('{"score": "8"}', "unparsable", "unparsable"),
        ('{"score": []}', "unparsable", "unparsable"),
        ("[8, 6]", 6, 6),
        ("7", 7, "unparsable"),
        ("I'm sorry, I can't.", "unparsable", "refused"),
        ("", "empty_reply", "empty_reply"),
    ],
)
def test_gedit(reply: str, paper: Any, corrected: Any) -> None:
    for part in ("SC", "PQ"):
        assert read("gedit", part, reply, "paper") == {part: paper}
        assert read("gedit", part, reply, "corrected") == {part: corrected}


def test_a_failure_in_paper_says_that_the_release_draws_a_mark_there() -> None:
    for name, part in (("gedit", "SC"), ("omnicontext", "PF")):
        bench = benchmark(name)
        found = bench.scoring.protocols["paper"].read(
            CASE,
            Purpose(case="a", model="A", judge="J", part=part),
            Evidence(kind="chat", request={}, reply="It is a lovely picture."),
        )
        assert [score.failure is not None and "draws a mark at random" in score.failure.detail for score in found] == [
            True
        ]


LINES = "Prompt Compliance: {}\nVisual Naturalness: {}\nPhysical & Detail Integrity: {}"


@pytest.mark.parametrize(
    ("reply", "paper", "corrected"),
    [
        (LINES.format(5, 4, 3), 4.0, 4.0),
        ("**Prompt Compliance:** 5\n**Visual Naturalness:** 4\n**Integrity:** 3", "unparsable", 4.0),
        (LINES.format("5/5", 4, 3), 3.5, 4.0),
        (LINES.format(4.5, 4, 3), 3.5, "out_of_range"),
        (LINES.format("**5**", 4, 3), 3.5, 4.0),
        ("A:5\nB:4\nC:3", "unparsable", 4.0),
        ("Number of objects: 12\n" + LINES.format(5, 4, 3), 6.0, "unparsable"),
        (LINES.format(9, 4, 3), 5.33, "out_of_range"),
        ("Prompt Compliance: 2", 2.0, "unparsable"),
        ("No marks at all.", "unparsable", "unparsable"),
    ],
)
def test_imgedit(reply: str, paper: Any, corrected: Any) -> None:
    assert read("imgedit", "marks", reply, "paper")["score"] == paper
    assert read("imgedit", "marks", reply, "corrected")["score"] == corrected


def test_imgedit_caps_what_the_rubric_caps_beside_the_score() -> None:
    for protocol in ("paper", "corrected"):
        marks = read("imgedit", "marks", LINES.format(2, 5, 4), protocol)
        assert (marks["capped"], round(marks["score"], 2)) == (2.0, 3.67)


@pytest.mark.parametrize(
    ("reply", "paper", "corrected"),
    [
        ('{"score": 8, "reasoning": "fine"}', 8, 8),
        ("{score: 8, reasoning: fine}", 8, 8),
        ('{"score": [8]}', 8, 8),
        ('{"score": [8, 7]}', "unparsable", "unparsable"),
        ('{"score": 80}', 80, "out_of_range"),
        ("8", 8, 8),
        ("[8, 7]", "unparsable", "unparsable"),
        ("rate_limit_exceeded", "unparsable", "unparsable"),
    ],
)
def test_omnicontext(reply: str, paper: Any, corrected: Any) -> None:
    for part in ("PF", "SC"):
        assert read("omnicontext", part, reply, "paper") == {part: paper}
        assert read("omnicontext", part, reply, "corrected") == {part: corrected}


@pytest.mark.parametrize(
    ("reply", "paper", "corrected"),
    [
        ("Alike.\n\nScore: 3", 3, 3),
        ("**Score:** 3", "unparsable", 3),
        ("Score: [3]", "unparsable", 3),
        ("Score: **3**", "unparsable", 3),
        ("Score: 2, I thought first.\nScore: 3", "unparsable", 3),
        ("Score: 10", 10, "out_of_range"),
        ("Score: three", "unparsable", "unparsable"),
    ],
)
def test_dreambenchplus(reply: str, paper: Any, corrected: Any) -> None:
    for part in ("CP", "PF"):
        assert read("dreambenchplus", part, reply, "paper") == {part: paper}
        assert read("dreambenchplus", part, reply, "corrected") == {part: corrected}


PIECES = st.sampled_from(
    ['{"score": ', "[8, 7]", "[", "]", "{", "}", '"', ",", "Score: ", "A: ", "5", "\u00b2", "9" * 5000, "NaN", "true",
     "\n", " ", "||V^=^V||", "score: 8, reasoning: fine", "\\", "[8"]
)  # fmt: skip


@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=12).map("".join))
@settings(max_examples=150, deadline=None)
def test_no_reply_makes_a_reader_raise(reply: str) -> None:
    for name in ("gedit", "imgedit", "omnicontext", "dreambenchplus"):
        bench = benchmark(name)
        for part in bench.asking.parts:
            for protocol in bench.scoring.protocols if part != "derived" else ():
                read(name, part, reply, protocol)


@pytest.mark.parametrize("name", ["gedit", "imgedit", "omnicontext", "dreambenchplus"])
@pytest.mark.parametrize("beginning", ["Score:", "{score:", '{"score": 8, "reasoning": a', "A: ", "[8,", "||V^=^V||"])
def test_a_reply_of_blanks_does_not_cost_the_square_of_its_length(name: str, beginning: str) -> None:
    bench = benchmark(name)
    for part in (part for part in bench.asking.parts if part != "derived"):
        for protocol in bench.scoring.protocols:
            read(name, part, beginning + " " * 200_000 + "x", protocol)


def test_numbers_of_the_sheets() -> None:
    """GEdit and OmniContext: the root of the product; DreamBench++: quarters of marks, and the product of two means."""
    for name, measure in (("gedit", "O"), ("omnicontext", "overall")):
        marks = dict(zip(benchmark(name).asking.parts, ('{"score": [9, 9]}', '{"score": [4, 4]}'), strict=True))
        if name == "omnicontext":
            marks = {part: reply.replace("[9, 9]", "9").replace("[4, 4]", "4") for part, reply in marks.items()}
        assert table(name, [marks])[measure] == pytest.approx(6.0)
    quarters = table("dreambenchplus", [{"CP": f"Score: {mark}", "PF": f"Score: {mark}"} for mark in (4, 3, 0)])
    assert quarters["CP"] == pytest.approx(0.583, abs=0.0005)
    assert quarters["CP_PF"] == pytest.approx(quarters["CP"] ** 2)
    assert quarters["both"] == pytest.approx((1 + 9 / 16) / 3)


def table(name: str, replies: list[dict[str, str]]) -> dict[str, float | None]:
    from refbench.tables.scoring import result_of

    bench = benchmark(name)
    cases = [case(f"a{n}", "do", {}, groups=GROUPS) for n in range(len(replies))]
    told = [
        (
            Purpose(case=one.id, model="A", judge="J", part=part),
            Evidence(kind="chat", request={"case": one.id, "part": part}, reply=reply),
        )
        for one, marks in zip(cases, replies, strict=True)
        for part, reply in marks.items()
    ]
    result = result_of(bench, cases, score_evidence(bench, cases, told, ["corrected"]), draws=0)
    return {row.metric: row.value for row in result.table.rows if row.slice == {"level": "overall"}}


@pytest.mark.parametrize(("name", "part"), [("gedit", "SC"), ("omnicontext", "SC")])
def test_a_mark_that_has_no_root_is_a_failure_and_no_hole(name: str, part: str) -> None:
    for protocol in ("paper", "corrected"):
        reply = '{"score": [-1, 5]}' if name == "gedit" else '{"score": -1}'
        assert read(name, part, reply, protocol)[part] == "out_of_range"
