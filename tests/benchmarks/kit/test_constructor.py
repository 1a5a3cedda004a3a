"""The one constructor: what follows from marks, macro means, totals of pictures and of means, further protocols."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from refbench.benchmarks.kit import Benchmark, Call, Derive, Total, Variant, asks, benchmark, case, last_mark, rows
from refbench.case import AnyCase
from refbench.chat import ChatText
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.tables.result import Result
from refbench.tables.scorer import score_evidence
from refbench.tables.scoring import result_of

CASES: list[AnyCase] = [
    case("a1", "do", {}, groups={"category": "a", "task": "x"}),
    case("a2", "do", {}, groups={"category": "a", "task": "y"}),
    case("a3", "do", {}, groups={"category": "a", "task": "y"}),
    case("b1", "do", {}, groups={"category": "b", "task": "z"}),
]


@asks("edit", reads=last_mark("Score", 0, 10))
def edit(case: AnyCase, shown: Any) -> list[Any]:
    return ["How well was it done?"]


@asks("look", reads=last_mark("Score", 0, 10))
def look(case: AnyCase, shown: Any) -> list[Any]:
    return ["How well does it look?"]


def declared(**further: Any) -> Benchmark:
    return benchmark(name="mine", load=lambda root: CASES, judge=[edit, look], **further)


def table(bench: Benchmark, replies: Sequence[Sequence[tuple[str, str]]]) -> Result:
    """Replies to both calls, seed by seed, for each case in turn."""
    evidence = [
        (
            Purpose(case=one.id, model="A", judge="J", part=part, seed=seed),
            Evidence(kind="chat", request={"case": one.id, "part": part, "seed": seed}, reply=f"Hm.\nScore: {reply}"),
        )
        for one, seeds in zip(CASES, replies, strict=True)
        for seed, pair in enumerate(seeds)
        for part, reply in zip(("edit", "look"), pair, strict=True)
    ]
    scores = score_evidence(bench, CASES, evidence, list(bench.scoring.protocols))
    return result_of(bench, CASES, scores, draws=0)


MARKS = [[("10", "2")], [("4", "4")], [("2", "4")], [("9", "1")]]


def test_a_measure_that_follows_from_others_is_taken_before_seeds_are_averaged() -> None:
    bench = declared(derived={"both": Derive(lambda marks: marks["edit"] * marks["look"], (0, 100))})
    two_seeds = [
        [("10", "0"), ("0", "10")],
        [("5", "5"), ("5", "5")],
        [("5", "5"), ("5", "5")],
        [("1", "1"), ("1", "1")],
    ]
    assert table(bench, two_seeds).value(metric="both", level="overall") == pytest.approx((0 + 25 + 25 + 1) / 4)


def test_a_mark_that_failed_leaves_no_derived_measure_but_its_bounds() -> None:
    bench = declared(derived={"both": Derive(lambda marks: marks["edit"] * marks["look"], (0, 100))})
    (row,) = table(bench, [[("none", "2")], *MARKS[1:]]).rows(metric="both", level="overall")
    assert (row.value, row.n_scored, dict(row.failures)) == (pytest.approx((16 + 8 + 9) / 3), 3, {"unparsable": 1})
    assert row.bounds == pytest.approx(((16 + 8 + 9) / 4, (16 + 8 + 9 + 100) / 4))


def test_a_derived_measure_that_cannot_be_computed_is_undefined() -> None:
    bench = declared(derived={"ratio": lambda marks: marks["edit"] / marks["look"]})
    result = table(bench, [[("10", "0")], *MARKS[1:]])
    (failure,) = [score.failure for score in result.scores if score.metric == "ratio" and score.failure]
    assert isinstance(failure, Failure) and failure.kind == "undefined"


def test_a_formula_for_a_total_ranks_the_models() -> None:
    bench = declared(total=Total(lambda marks: min(marks["edit"], marks["look"]), range=(0, 10)))
    result = table(bench, MARKS)
    assert result.value(metric="total", level="overall") == pytest.approx((2 + 4 + 2 + 1) / 4)
    assert result.summary("corrected") == "total"


def test_an_overall_number_may_be_a_mean_over_categories_or_over_tasks_within_them() -> None:
    category_a, category_b = (10 + 4 + 2) / 3, 9
    flat = table(declared(macro=("category",)), MARKS)
    assert flat.value(metric="edit", level="overall") == pytest.approx((category_a + category_b) / 2)
    assert flat.value(metric="edit", slice={"level": "category", "category": "a"}) == pytest.approx(category_a)
    nested = table(declared(macro=("category", "task")), MARKS)
    over_tasks = (10 + (4 + 2) / 2) / 2
    assert nested.value(metric="edit", slice={"level": "category", "category": "a"}) == pytest.approx(over_tasks)
    assert nested.value(metric="edit", level="overall") == pytest.approx((over_tasks + 9) / 2)
    assert nested.value(metric="edit", slice={"level": "task", "task": "y"}) == pytest.approx(3)


def test_a_case_without_the_group_of_a_macro_mean_is_an_error() -> None:
    with pytest.raises(RefBenchError, match=r"averaged by .season., which a1 does not have; the cases have"):
        table(declared(macro=("season",)), MARKS)


def test_another_protocol_says_only_what_it_does_in_its_own_way() -> None:
    product = Total(lambda means: means["edit"] * means["look"] / 100, range=(0, 1), of_means=True)
    bench = declared(
        total="geometric_mean",
        macro=("category",),
        protocols={"paper": Variant(total=product, imputed={"unparsable": 0})},
    )
    result = table(bench, [[("none", "2")], *MARKS[1:]])
    corrected = {row.metric: row.value for row in result.rows(protocol="corrected", level="overall")}
    paper = {row.metric: row.value for row in result.rows(protocol="paper", level="overall")}
    assert corrected["edit"] == pytest.approx(((4 + 2) / 2 + 9) / 2)
    assert paper["edit"] == pytest.approx(((0 + 4 + 2) / 3 + 9) / 2)
    assert paper["total"] == pytest.approx(paper["edit"] * paper["look"] / 100)
    assert corrected["total"] == pytest.approx(((16**0.5 + 8**0.5) / 2 + 3) / 2)


def test_a_protocol_may_read_replies_its_own_way_unchecked() -> None:
    bench = declared(protocols={"paper": Variant(read=lambda case, part, reply: {part: 77.0})})
    result = table(bench, MARKS)
    assert result.rows(protocol="paper", metric="edit", level="overall")[0].value == 77
    assert result.rows(protocol="corrected", metric="edit", level="overall")[0].value == pytest.approx(25 / 4)


def test_numbers_may_be_in_per_cent() -> None:
    assert table(declared(scale=10.0), MARKS).value(metric="edit", level="overall") == pytest.approx(62.5)


def test_a_call_states_the_form_of_the_reply_that_it_reads() -> None:
    asked = edit.request(CASES[0], None)  # type: ignore[arg-type]
    (text,) = [part.text for part in asked.parts if isinstance(part, ChatText)]
    assert text.startswith("How well was it done?\n\n") and "Score" in text
    assert edit.read(CASES[0], "Score: 3, no.\nScore: 4") == {"edit": 4}
    assert edit.measures == {"edit": (0, 10)}


def test_two_calls_cannot_give_one_measure() -> None:
    again = Call("again", {"edit": (0, 10)}, lambda case, shown: [], lambda case, reply: {})
    with pytest.raises(RefBenchError, match="two parts give the measure edit"):
        benchmark(name="mine", load=lambda root: CASES, judge=[edit, again])


def test_a_benchmark_needs_a_loader() -> None:
    with pytest.raises(RefBenchError, match="mine: give load="):
        benchmark(name="mine", judge=[edit])


def test_rows_come_from_json_lists_too_and_say_where_they_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "cases.json").write_text('[{"id": "a"}, {"id": "b"}]')
    assert [row["id"] for row in rows(tmp_path / "cases.json")] == ["a", "b"]
    (tmp_path / "wrong.json").write_text('{"id": "a"}')
    with pytest.raises(RefBenchError, match="a list of objects is wanted"):
        list(rows(tmp_path / "wrong.json"))


def test_what_is_for_scorers_is_not_in_the_request() -> None:
    one = case("a", "do", {"source": "a.png", "reference": ["b.png", "c.png"]}, targets=["gold.png"], answer="secret")
    assert [(picture.name, picture.role) for picture in one.request.pictures] == [
        ("a.png", "source"),
        ("b.png", "reference"),
        ("c.png", "reference"),
    ]
    assert "secret" not in one.request.model_dump_json() and "gold" not in one.request.model_dump_json()
    assert (one.details, one.cluster) == ({"answer": "secret"}, "a")
