"""The one constructor: what follows from marks, macro means, totals of pictures and of means, further protocols."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.benchmarks.kit import (
    Benchmark,
    Call,
    Derive,
    Measured,
    Total,
    Variant,
    asks,
    benchmark,
    case,
    last_mark,
    rows,
    split_slices,
)
from refbench.case import AnyCase
from refbench.chat import ChatText
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.tables.result import Result
from refbench.tables.scorer import score_evidence
from refbench.tables.scoring import result_of
from refbench.tables.table import Measure, left_out

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


def test_a_formula_is_taken_in_each_repeat_and_a_rule_of_the_means_over_them() -> None:
    """The example of docs/add-a-benchmark.md."""
    said = [{"edit": 4, "look": 9}, {"edit": 9, "look": 4}]
    evidence = [
        (
            Purpose(case="a1", model="A", judge="J", part=part, repeat=repeat),
            Evidence(kind="chat", request={"part": part, "repeat": repeat}, reply=f"Score: {mark}"),
        )
        for repeat, marks in enumerate(said)
        for part, mark in marks.items()
    ]

    def root(marks: Any) -> float:
        return math.sqrt(marks["edit"] * marks["look"])

    for further, value in (
        ({"total": Total("geometric_mean", name="root")}, 6.5),
        ({"total": Total(root, name="root", range=(0, 10))}, 6.0),
        ({"derived": {"root": Derive(root, (0, 10))}}, 6.0),
    ):
        bench = declared(**further)
        scores = score_evidence(bench, CASES[:1], evidence, ["corrected"])
        found = result_of(bench, CASES[:1], scores, draws=0)
        assert found.value(metric="root", level="overall") == pytest.approx(value)


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


def test_a_part_of_a_part_that_nothing_was_scored_in_is_named_where_it_is_left_out() -> None:
    bench = declared(macro=("category", "task"))
    (row,) = table(bench, [[("none", "2")], *MARKS[1:]]).rows(metric="edit", level="overall")
    assert row.value == pytest.approx((3 + 9) / 2)
    assert row.remark == "nothing scored in x"
    (row,) = table(bench, [[("none", "2")]] * 3 + [MARKS[3]]).rows(metric="edit", level="overall")
    assert row.remark == "nothing scored in a", "and not in each of its tasks as well"
    two = [case(f"{lang}{task}", "do", {}, groups={"lang": lang, "task": task}) for lang in "pq" for task in "xy"]
    overall, *_ = split_slices(two, "lang", "task")
    scored = np.array([True, True, False, True])
    said = left_out(lambda metric, members: bool((scored & members).any()), Measure("edit", ("edit",)), overall)
    assert said == "nothing scored in q / x", "x has marks in the other language"


def test_a_case_without_the_group_of_a_macro_mean_is_an_error() -> None:
    with pytest.raises(RefBenchError, match=r"averaged by .season., which a1 does not have"):
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


@pytest.mark.parametrize(
    ("total", "said"),
    [
        ("product", "there is no rule 'product': there are mean, weighted_mean, geometric_mean, minimum"),
        ("geometricmean", "there is no rule 'geometricmean': did you mean geometric_mean?"),
        ("weighted_mean", "the total has no weight for edit, look: give weights="),
        (Total("weighted_mean", weights={"edit": 1, "lok": 3}), "weights of the total: no 'lok'; did you mean look?"),
        (Total("weighted_mean", weights={"edit": 1}), "the total has no weight for look"),
        (Total("weighted_mean", ("edit",), {"edit": 1, "look": 1}), "a weight for look, which is not in its over="),
        (Total("minimum", weights={"edit": 1, "look": 3}), "is a minimum, in which weights do not count"),
        (Total(over=("edit", "lok")), "over of the total: no 'lok'; did you mean look?"),
        (Total(over="edit"), "over of the total is one word: write ('edit',)"),  # type: ignore[arg-type]
        (Total(lambda means: 0, over=("lok",), of_means=True), "over of the total: no 'lok'"),
    ],
)
def test_a_total_that_is_none_is_refused_when_it_is_declared(total: Any, said: str) -> None:
    with pytest.raises(RefBenchError, match=re.escape(said)):
        declared(total=total)
    with pytest.raises(RefBenchError, match=re.escape(said)):
        declared(total="mean", protocols={"paper": Variant(total=total)})


def test_criteria_are_not_combined_by_a_rule_that_is_none() -> None:
    with pytest.raises(RefBenchError, match="edit: combined: there is no rule 'min': did you mean minimum"):
        asks("edit", reads=last_mark("Score", 0, 10), combined="min")  # type: ignore[arg-type]
    with pytest.raises(RefBenchError, match="has no weights here"):
        asks("edit", reads=last_mark("Score", 0, 10), combined="weighted_mean")


def test_cases_of_one_id_are_refused_when_they_are_loaded(tmp_path: Path) -> None:
    bench = benchmark(name="mine", load=lambda root: [*CASES, *CASES[:2]], judge=[edit])
    with pytest.raises(RefBenchError, match="mine: more than one case has the id a1, a2: give each its own"):
        bench.data.load(tmp_path, None)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        (lambda marks: marks["edit"] * marks["lok"], "there is no mark 'lok'; did you mean look?"),
        (lambda marks: None, "returned None: it must return a number"),
        (lambda marks: marks["edit"] + "1", "raised TypeError: unsupported operand"),
        (lambda marks: {0: 1.0}[marks["edit"]], "raised KeyError: 10.0"),
    ],
)
def test_a_formula_that_is_wrong_is_refused_when_it_is_declared(formula: Any, said: str) -> None:
    for further in ({"derived": {"both": formula}}, {"total": formula}, {"derived": {"both": Derive(formula, (0, 1))}}):
        with pytest.raises(RefBenchError, match=f"mine: the formula of (both|total):? {re.escape(said)}"):
            declared(**further)


def test_a_formula_over_means_is_tried_with_arrays() -> None:
    for formula, said in (
        (lambda means: means["edit"] * means["lok"], "no mark 'lok'; did you mean look?"),
        (lambda means: min(means["edit"], means["look"]), "cannot take arrays of means"),
    ):
        with pytest.raises(RefBenchError, match=re.escape(said)):
            declared(total=Total(formula, of_means=True))
        with pytest.raises(RefBenchError, match=re.escape(said)):
            declared(protocols={"paper": Variant(total=Total(formula, of_means=True))})


@pytest.mark.parametrize("formula", [lambda marks: 1 / marks["edit"], lambda marks: math.log(marks["edit"])])
def test_a_formula_that_some_marks_leave_undefined_is_no_mistake(formula: Any) -> None:
    assert declared(derived={"both": formula})
    assert declared(total=Total(lambda means: means["edit"] / means["look"], of_means=True))


@pytest.mark.parametrize(
    ("further", "said"),
    [
        ({"macro": "category"}, "macro='category' is one word: write ('category',)"),
        ({"groups": "task"}, "groups='task' is one word"),
        ({"lower": "edit"}, "lower='edit' is one word"),
    ],
)
def test_one_word_is_not_taken_letter_by_letter(further: dict[str, Any], said: str) -> None:
    with pytest.raises(RefBenchError, match=re.escape(said)):
        declared(**further)


@pytest.mark.parametrize(
    ("further", "said"),
    [
        ({"macro": ("categori",)}, "averaged by 'categori', which a1 does not have: did you mean category?"),
        (
            {"protocols": {"paper": Variant(macro=("tsk",))}},
            "averaged by 'tsk', which a1 does not have: did you mean task?",
        ),
        ({"groups": ("tusk",)}, "groups: no case has a 'tusk'; did you mean task?"),
    ],
)
def test_groups_that_no_case_has_are_refused_when_cases_are_loaded(
    further: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(RefBenchError, match=re.escape(f"mine: {said}" if "groups" in further else said)):
        declared(**further).data.load(tmp_path, None)


def test_a_metric_is_given_pictures_of_the_case_not_their_names(tmp_path: Path) -> None:
    bench = benchmark(
        name="mine",
        load=lambda root: CASES,
        measure=lambda case: [Measured("likeness", "lpips", {"source": "a.png"})],  # type: ignore[dict-item]
        measured={"likeness": "lpips"},
    )
    with pytest.raises(RefBenchError, match=r"likeness gives lpips.* 'a.png' as .*: give a picture of the case"):
        bench.data.load(tmp_path, None)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ("Is it good?", "edit is a text alone: return a list"),
        (None, "edit is a NoneType: return a list"),
        (["Is it?", CASES[0]], r"edit has a Case.* among its parts: only texts and the pictures of `shown`"),
    ],
)
def test_a_judge_is_sent_texts_and_pictures_and_nothing_letter_by_letter(parts: Any, said: str) -> None:
    call = asks("edit", reads=last_mark("Score", 0, 10))(lambda case, shown: parts)
    with pytest.raises(RefBenchError, match=said):
        call.request(CASES[0], None)  # type: ignore[arg-type]


def test_targets_may_have_roles_as_pictures_have() -> None:
    for targets, role in ({"truth": "gold.png"}, "truth"), (["gold.png"], "target"), ("gold.png", "target"):
        one = case("a", "do", {}, targets=targets)  # type: ignore[arg-type]
        assert [(picture.name, picture.role) for picture in one.targets] == [("gold.png", role)]


def test_a_part_is_measured_once_of_each_output(tmp_path: Path) -> None:
    pictures = {"subject": ["a.png", "b.png"]}
    bench = benchmark(
        name="mine",
        load=lambda root: [case("a1", "do", pictures)],
        measure=lambda case: [Measured("likeness", "lpips", {"source": picture}) for picture in case.request.pictures],
        measured={"likeness": "lpips"},
    )
    with pytest.raises(RefBenchError, match="a1 is measured 2 times as likeness: give each a part of its own"):
        bench.data.load(tmp_path, None)
