"""Gates, calls, means: the score of a case and of a table, against closed forms and the published tables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import pytest

from refbench.benchmarks.ideabench.benchmark import BENCHMARK
from refbench.benchmarks.ideabench.cases import (
    CALLS,
    CATEGORIES,
    LISTED,
    QUESTIONS,
    BinaryQuestion,
    Category,
    IdeaCase,
    IdeaDetails,
    groups,
    part,
)
from refbench.benchmarks.ideabench.table import (
    BY_GROUPS,
    CORRECTED,
    FAILURE_RATE,
    PAPER,
    SCORE,
    call_score,
    derived,
    failure_table,
    gated,
    notes,
    published,
)
from refbench.benchmarks.kit.published import TOTAL
from refbench.case import Request
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.output import DAGGER, Output, StoredPicture
from refbench.score import Score
from refbench.tables.scorer import score_evidence
from refbench.tables.table import Aggregate, Row, tabulate

REFUSED = Failure(kind="refused")
ABSENT = Failure(kind="missing_output")

Answer = float | Failure


def case(name: str = "c", category: str = "T2I", group: str = "poster", task: str = "t", uid: str = "0024") -> IdeaCase:
    return IdeaCase(
        id=name,
        request=Request(instruction=""),
        groups={"category": category, "group": group, "task": task},
        cluster=name,
        stratum=task,
        details=IdeaDetails(uid=uid, auto=tuple(BinaryQuestion(text="?") for _ in range(QUESTIONS))),
    )


def scores(
    of: IdeaCase, calls: Sequence[Sequence[Answer]], protocol: str, model: str = "m", judge: str = "j"
) -> list[Score]:
    """All scores of a case from the answers of three calls."""
    found = {}
    for c, q in itertools.product(range(CALLS), range(QUESTIONS)):
        said = calls[c][q]
        state = {"failure": said} if isinstance(said, Failure) else {"value": said}
        name = part(q + 1, c + 1)
        place = {"case": of.id, "model": model, "judge": judge, "protocol": protocol, "metric": name}
        found[name] = Score.model_validate({**place, **state})
    for metric, said in derived(of, protocol, found).items():
        key = "failure" if isinstance(said, Failure) else "not_applicable" if isinstance(said, str) else "value"
        place = {"case": of.id, "model": model, "judge": judge, "protocol": protocol, "metric": metric}
        found[metric] = Score.model_validate({**place, key: said})
    return list(found.values())


def of_case(calls: Sequence[Sequence[Answer]], protocol: str, metric: str = "score") -> float | Failure | str | None:
    (one,) = [score for score in scores(case(), calls, protocol) if score.metric == metric]
    return one.value if one.value is not None else one.failure or one.not_applicable


# --- one call -------------------------------------------------------------------------------------------------


def test_gates_are_the_released_ones_for_all_64_answers() -> None:
    for answers in itertools.product((0.0, 1.0), repeat=QUESTIONS):
        a, b, c, d, e, f = answers
        # In words: both of the first pair open the second, both of that open the third.
        opened = a * b
        expected = (a + b + opened * (c + d) + opened * c * d * (e + f)) / 6
        for protocol in ("paper", "corrected"):
            assert call_score(answers, protocol) == pytest.approx(expected)  # type: ignore[arg-type]


def test_more_than_a_sixth_needs_the_first_pair() -> None:
    possible = {call_score(a, "corrected") for a in itertools.product((0.0, 1.0), repeat=QUESTIONS)}
    assert possible == {n / 6 for n in range(7)}


def test_an_answer_behind_a_shut_gate_is_not_needed_in_corrected() -> None:
    assert gated([1.0, 0.0, None, None, None, None]) == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert call_score([1.0, 0.0, None, 1.0, None, 1.0], "corrected") == pytest.approx(1 / 6)
    assert call_score([1.0, 1.0, 0.0, 1.0, None, None], "corrected") == pytest.approx(3 / 6)
    assert call_score([1.0, 0.0, None, 1.0, None, 1.0], "paper") is None


@pytest.mark.parametrize(
    "answers", [[None, 1, 1, 1, 1, 1], [None, 0, 1, 1, 1, 1], [1, 1, None, 0, 0, 0], [1] * 5 + [None]]
)
def test_a_missing_answer_that_counts_leaves_the_call_without_a_score(answers: list[float | None]) -> None:
    assert call_score(answers, "corrected") is None
    assert call_score(answers, "paper") is None


def test_paper_lets_digits_above_one_inflate_the_sum_as_the_released_scorer_does() -> None:
    assert call_score([5.0, 9.0, 1.0, 1.0, 0.0, 2.0], "paper") == pytest.approx(18 / 6)


# --- three calls ----------------------------------------------------------------------------------------------

FULL: list[Answer] = [1.0] * 6
FIRST_LOST: list[Answer] = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_gates_apply_to_each_call_before_the_mean(protocol: str) -> None:
    # Averaged first, q1 would be 2/3 and pass the gate: the case would have (2/3 + 5) / 6.
    assert of_case([FULL, FULL, FIRST_LOST], protocol) == pytest.approx((1 + 1 + 1 / 6) / 3)


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_calls_without_a_score_are_left_to_the_others(protocol: str) -> None:
    broken: list[Answer] = [1.0, REFUSED, 1.0, 1.0, 1.0, 1.0]
    assert of_case([broken, FULL, FIRST_LOST], protocol) == pytest.approx((1 + 1 / 6) / 2)
    assert of_case([broken, broken, FULL], protocol) == 1.0
    assert of_case([broken, broken, broken], protocol) == REFUSED


def test_a_shut_gate_decides_a_call_in_corrected_only() -> None:
    shut: list[Answer] = [0.0, 1.0, REFUSED, REFUSED, REFUSED, REFUSED]
    assert of_case([shut] * 3, "corrected") == pytest.approx(1 / 6)
    assert of_case([shut] * 3, "paper") == REFUSED


def test_a_question_has_failed_when_no_reply_of_three_is_0_or_1() -> None:
    once: list[Answer] = [REFUSED, 1.0, 1.0, 1.0, 1.0, 1.0]
    five: list[Answer] = [5.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert of_case([once, FULL, FULL], "paper", "failure_rate") == 0.0
    assert of_case([once, once, once], "paper", "failure_rate") == pytest.approx(1 / 6)
    assert of_case([once, five, five], "paper", "failure_rate") == pytest.approx(1 / 6), "5 is no 0 and no 1"
    assert isinstance(of_case([[ABSENT] * 6] * 3, "paper", "failure_rate"), str)
    declined = Failure(kind="refused", by_model=True)
    assert isinstance(of_case([[declined] * 6] * 3, "corrected", "failure_rate"), str), "the model's, not the judge's"
    away: list[Answer] = [Failure(kind="timeout"), *FULL[1:]]
    assert of_case([away] * 3, "paper", "failure_rate") == Failure(kind="timeout"), "the next run asks again"


def test_an_incomplete_set_is_not_made_a_zero_in_paper() -> None:
    """Only a case without any picture is `missing_output`, which the paper's leaderboards count as 0."""
    some: list[Answer] = [1.0, 1.0, 1.0, 1.0, ABSENT, 1.0]
    said = of_case([some] * 3, "paper")
    assert isinstance(said, Failure)
    assert said.kind == "missing_reply"
    assert of_case([[ABSENT] * 6] * 3, "paper") == ABSENT


# --- the table ------------------------------------------------------------------------------------------------


def calls_for(value: int) -> list[list[Answer]]:
    """Answers whose score is so many sixths in every call."""
    answers: Mapping[int, list[Answer]] = {0: [0.0] * 6, 2: [1.0, 1.0, *[0.0] * 4], 4: [*[1.0] * 4, 0.0, 0.0], 6: FULL}
    return [answers[value]] * 3


def value(rows: Sequence[Row], metric: str = "score", **where: str) -> Row:
    (row,) = [row for row in rows if row.metric == metric and dict(row.slice) == where]
    return row


def table(cells: Sequence[tuple[IdeaCase, int | Failure]], protocol: str) -> list[Row]:
    found = [
        score
        for of, said in cells
        for score in scores(of, [[said] * 6] * 3 if isinstance(said, Failure) else calls_for(said), protocol)
    ]
    aggregate = PAPER if protocol == "paper" else CORRECTED
    return tabulate(protocol, aggregate, found, [of for of, _ in cells], draws=0)


def test_tasks_weigh_alike_in_a_category_and_categories_alike_overall() -> None:
    cells = [
        (case("a1", task="a"), 6),
        (case("a2", task="a"), 0),
        (case("a3", task="a"), 0),
        (case("b1", task="b", group="logo", uid="0026"), 6),
        (case("c1", "I2I", "blur", "c", "0063"), 4),
    ]
    for protocol in ("paper", "corrected"):
        rows = table(cells, protocol)
        assert value(rows, level="task", category="T2I", group="poster", task="a").value == pytest.approx(100 / 3)
        assert value(rows, level="category", category="T2I").value == pytest.approx(200 / 3)
        assert value(rows, level="overall").value == pytest.approx((200 / 3 + 400 / 6) / 2)


def test_the_mean_over_groups_is_another_number_than_that_over_leaf_tasks() -> None:
    cells = [
        (case("a", "I2I", "blur", "blur_field", "0063"), 6),
        (case("b", "I2I", "blur", "blur_motion", "0072"), 6),
        (case("c", "I2I", "couple icon", "couple", "0050"), 0),
    ]
    rows = table(cells, "corrected")
    assert value(rows, level="category", category="I2I").value == pytest.approx(200 / 3)
    assert value(rows, BY_GROUPS, level="category", category="I2I").value == pytest.approx(50)
    assert value(rows, level="group", category="I2I", group="blur").value == pytest.approx(100)


def test_paper_averages_the_listed_tasks_only_and_still_shows_the_others() -> None:
    cells = [(case("a", task="a"), 6), (case("b", task="b", uid="0099"), 0)]
    rows = table(cells, "paper")
    assert value(rows, level="category", category="T2I").value == 100
    assert value(rows, level="task", category="T2I", group="poster", task="b").value == 0
    assert value(table(cells, "corrected"), level="category", category="T2I").value == 50


def test_paper_takes_the_category_from_the_scorers_list_and_corrected_from_the_flags() -> None:
    """As with 0063, which the list has under I2I, should its flags say Is2I."""
    cells = [(case("a", "Is2I", "blur", "a", "0063"), 6), (case("b", "I2I", "style", "b", "0064"), 0)]
    for protocol, expected in (("paper", {"I2I": 100, "Is2I": 0}), ("corrected", {"I2I": 0, "Is2I": 100})):
        found = {
            r.slice["category"]: r.value
            for r in table(cells, protocol)
            if r.slice["level"] == "category" and r.metric == SCORE
        }
        assert found == expected


def two_of_five() -> list[tuple[IdeaCase, int | Failure]]:
    return [
        (case("a", "T2I", "poster", "a", "0024"), 6),
        (case("b", "I2I", "blur", "b", "0063"), 2),
        (case("c", "Is2I", "panorama", "c", "0064"), ABSENT),
        (case("d", "T2Is", "movie shots", "d", "0014"), ABSENT),
        (case("e", "I(s)2Is", "same pose", "e", "0044"), ABSENT),
    ]


def test_a_model_with_two_of_five_categories_is_scored_with_zeros_in_paper() -> None:
    row = value(table(two_of_five(), "paper"), level="overall")
    assert row.value == pytest.approx((100 + 100 / 3) / 5)
    assert (row.n_expected, row.n_scored, row.n_imputed) == (5, 2, 3)
    assert row.failures == {"missing_output": 3}
    assert value(table(two_of_five(), "paper"), level="category", category="T2Is").value == 0


def test_unsupported_categories_are_left_out_and_named_in_corrected() -> None:
    row = value(table(two_of_five(), "corrected"), level="overall")
    assert row.value == pytest.approx((100 + 100 / 3) / 2)
    assert row.n_imputed == 0
    assert row.remark is not None
    assert "nothing scored in Is2I, T2Is, I(s)2Is" in row.remark
    assert row.bounds is not None
    assert row.bounds == (pytest.approx((100 + 100 / 3) / 5), pytest.approx((100 + 100 / 3 + 300) / 5))


def test_what_the_judge_failed_at_is_no_zero_in_either_protocol() -> None:
    cells = [(case("a", task="a"), 6), (case("b", task="b", uid="0026"), REFUSED)]
    for protocol in ("paper", "corrected"):
        row = value(table(cells, protocol), level="category", category="T2I")
        assert row.value == 100
        assert row.failures == {"refused": 1}
        assert row.remark is not None
        assert "nothing scored in b" in row.remark


Regime = Literal["native", "unsupported", "always"]


def regime_of(label: str) -> Regime:
    """How the model of a printed row was fed: as it is, rephrased where it cannot take the case, or always.

    Table 13 has both regimes for the same models; the page writes `+ GPT-4o` where the paper has a dagger.
    """
    if label.rstrip(DAGGER).endswith("-T2I"):
        return "always"
    return "unsupported" if label.endswith((DAGGER, "+ GPT-4o")) else "native"


HUMAN = replace(CORRECTED, measures=tuple(m for m in CORRECTED.measures if m.name == BY_GROUPS), imputed=PAPER.imputed)
"""The leaderboard of people's marks: leaf tasks to groups, groups to categories, all tasks, what is absent is 0."""


Cells = Mapping[tuple[str, str], float]
"""(label, column) to the printed number; what is not there was printed as a dash."""


def category_from_groups(cells: Cells, category: Category, groups: Sequence[str]) -> dict[str, float]:
    """A category of the human tables from its groups, by our aggregate of people's marks: each group is one case."""
    cases = [printed_case(category, group, group) for group in groups]
    return _values(_rows(HUMAN, cases, cells), BY_GROUPS, {"level": "category", "category": category})


def overall_from_categories(cells: Cells) -> dict[str, float]:
    """The overall number from five categories, by the aggregate of `paper`: each category is one case of a listed
    task, and a category without a number is one without outputs."""
    cases = [printed_case(name, name, name) for name in CATEGORIES]
    return _values(_rows(PAPER, cases, cells), SCORE, {"level": "overall"})


def printed_case(category: Category, group: str, name: str) -> IdeaCase:
    questions = tuple(BinaryQuestion(text="") for _ in range(QUESTIONS))
    return IdeaCase(
        id=name,
        request=Request(instruction=""),
        groups={"category": category, "group": group, "task": name},
        cluster=name,
        stratum=category,
        details=IdeaDetails(uid=min(LISTED[category]), auto=questions),
    )


def _rows(aggregate: Aggregate, cases: Sequence[IdeaCase], cells: Cells) -> list[Row]:
    absent = Failure(kind="missing_output", detail="the table has no number")
    scores = []
    for label in dict.fromkeys(label for label, _ in cells):
        for case in cases:
            printed = cells.get((label, case.id))
            state = {"failure": absent} if printed is None else {"value": printed / 100}
            place = {"case": case.id, "model": label, "protocol": "paper"}
            scores.append(Score.model_validate({**place, "metric": SCORE, **state}))
            scores.append(Score.model_validate({**place, "metric": FAILURE_RATE, "not_applicable": "no output"}))
    return tabulate("paper", aggregate, scores, cases, draws=0)


def _values(rows: Iterable[Row], metric: str, where: Mapping[str, str]) -> dict[str, float]:
    mine = (row for row in rows if row.metric == metric and dict(row.slice) == dict(where))
    return {row.model: row.value for row in mine if row.value is not None}


# --- published ------------------------------------------------------------------------------------------------


def cells_of(level: str, table: str, category: str | None = None) -> dict[tuple[str, str], float]:
    """Printed numbers by label and by the last name of their slice."""
    return {
        (p.label, list(p.slice.values())[-1]): p.value
        for p in published()
        if p.slice["level"] == level and p.table == table and category in (None, p.slice.get("category"))
    }


def test_human_categories_follow_from_their_printed_groups() -> None:
    checked = 0
    for category in ("T2I", "I2I", "Is2I", "T2Is", "I(s)2Is"):
        cells = cells_of("group", "human per category (page)", category)
        names = [group.name for group in groups() if group.category == category]
        printed = cells_of("category", "human per category (page)", category)
        found = category_from_groups(cells, category, names)  # type: ignore[arg-type]
        assert set(found) == {label for label, _ in printed}
        for (label, _), number in printed.items():
            assert found[label] == pytest.approx(number, abs=0.0065), (label, category)
            checked += 1
    assert checked == 33


def test_table_13_follows_from_its_categories_but_for_one_misprint() -> None:
    """OmniGen with rephrasing is printed as 14.32; its five categories have the mean 15.32."""
    found = overall_from_categories(cells_of("category", "13"))
    printed = {label: number for (label, _), number in cells_of("overall", "13").items()}
    assert len(printed) == 10
    wrong = {
        label: (printed[label], round(found[label], 2))
        for label in printed
        if abs(found[label] - printed[label]) > 0.0051
    }
    assert wrong == {"OmniGen†": (14.32, 15.32)}


@pytest.mark.parametrize(
    ("name", "rows", "wrong"),
    [
        ("MLLM leaderboard (page)", 8, {}),
        ("human overall (page)", 9, {"Emu2": (6.81, 6.8)}),
    ],
)
def test_leaderboards_count_unsupported_categories_as_zero(
    name: str, rows: int, wrong: dict[str, tuple[float, float]]
) -> None:
    found = overall_from_categories(cells_of("category", name))
    printed = {label: number for (label, _), number in cells_of("overall", name).items()}
    assert len(printed) == rows
    assert {k: (v, round(found[k], 2)) for k, v in printed.items() if abs(found[k] - v) > 0.0061} == wrong


def test_the_readme_prints_another_number_for_flux_than_its_row_gives() -> None:
    found = overall_from_categories(cells_of("category", "MLLM leaderboard (page)"))["FLUX-1 + GPT-4o"]
    ((_, printed),) = cells_of("overall", "MLLM leaderboard (README)").items()
    assert (round(found, 2), printed) == (37.34, 37.48)


def test_the_printed_is2i_column_does_not_come_from_the_three_listed_tasks() -> None:
    """With three calls a task of k cases is a multiple of 1/18k. No three tasks of up to five cases give the printed
    cells (to 0.01); four do, for example of 2, 2, 2 and 3 cases: the released list is not the one that was used."""
    cells = [v for (_, name), v in cells_of("category", "MLLM leaderboard (page)").items() if name == "Is2I"]

    def fit(n_tasks: int) -> list[tuple[int, ...]]:
        sizes = itertools.combinations_with_replacement(range(1, 6), n_tasks)
        return [k for k in sizes if all(abs(v - _nearest(v, math.lcm(*k) * 18 * n_tasks)) <= 0.0101 for v in cells)]

    assert not fit(3)
    assert (2, 2, 2, 3) in fit(4)


def _nearest(printed: float, parts: int) -> float:
    return 100 * round(printed / 100 * parts) / parts


def test_failure_rates_have_the_shape_and_totals_of_table_11() -> None:
    """Questions and failures that give the printed cells; SD3 under GPT-4o is printed as 52.95, 162 of 306 are 52.94."""
    sizes = {"FLUX-1": 306, "DALL-E 3": 306, "SD3": 306, "Pixart": 306}
    sizes |= {"InstructPix2Pix": 30, "MagicBrush": 30, "Emu2": 150, "OmniGen": 150}
    failed = {"Gemini 1.5 pro": (1, 5, 6, 0, 0, 0, 1, 2), "GPT-4o": (160, 167, 162, 174, 5, 8, 81, 80)}
    found = []
    for judge, counts in failed.items():
        for (model, size), lost in zip(sizes.items(), counts, strict=True):
            for number in range(size // QUESTIONS):
                bad = min(max(lost - number * QUESTIONS, 0), QUESTIONS)
                answers: list[Answer] = [REFUSED] * bad + [1.0] * (QUESTIONS - bad)
                found += scores(case(f"c{number}"), [answers] * 3, "paper", model, judge)
            if size < 306:  # categories that the model cannot do were never asked about
                found += scores(case("absent"), [[ABSENT] * 6] * 3, "paper", model, judge)
    rows = {(row.judge, row.model): row for row in failure_table(found)}
    printed = {(p.judge, p.label): p.value for p in published() if p.metric == "failure_rate"}
    assert set(rows) == set(printed)
    for place, number in printed.items():
        slip = 0.011 if place == ("GPT-4o", "SD3") else 0.0051
        assert rows[place].rate == pytest.approx(number, abs=slip), place
    assert (rows["GPT-4o", TOTAL].failed, rows["GPT-4o", TOTAL].questions) == (837, 1584)
    assert (rows["Gemini 1.5 pro", TOTAL].failed, rows["Gemini 1.5 pro", TOTAL].questions) == (15, 1584)


# --- daggers --------------------------------------------------------------------------------------------------


def test_labels_tell_the_two_rephrasing_regimes_apart() -> None:
    labels = {p.label: regime_of(p.label) for p in published()}
    assert labels["OmniGen-T2I†"] == "always"
    assert labels["OmniGen†"] == labels["FLUX-1 + GPT-4o"] == "unsupported"
    assert labels["OmniGen"] == labels["FLUX-1"] == "native"


def test_a_rephrased_model_is_marked_by_category() -> None:
    cases = [case("a"), case("b", "Is2I", "panorama", "p", "0064"), case("c", "Is2I", "panorama", "p", "0064")]
    picture = StoredPicture(sha256="0" * 64, format="png", width=1, height=1)
    outputs = [
        Output(case="a", model="flux", pictures=(picture,), provenance={"rephrased": "no"}),
        Output(case="b", model="flux", pictures=(picture,), provenance={"rephrased": "unsupported"}),
        Output(case="c", model="flux", pictures=(picture,), provenance={"rephrased": "unsupported"}),
        Output(case="a", model="omni", pictures=(picture,)),
    ]
    assert notes(cases, outputs) == ["flux† was given rewritten prompts (unsupported): cases by category Is2I 2"]


def test_a_gate_is_open_or_shut_in_each_repeat_of_the_judge() -> None:
    """In one repeat the first question failed, so that five answers count 0; a gate half open would let them in."""
    of, evidence = case(), []
    for repeat, first in enumerate(("0", "1")):
        for q, call in itertools.product(range(1, QUESTIONS + 1), range(1, CALLS + 1)):
            purpose = Purpose(case=of.id, model="m", judge="j", part=part(q, call), repeat=repeat)
            said = first if q == 1 else "1"
            act = Evidence(kind="chat", request={"of": [q, call, repeat]}, reply=f'{{"score": {said}}}')
            evidence.append((purpose, act))
    found = score_evidence(BENCHMARK, [of], evidence, ["corrected"])
    (score,) = [s.value for s in found if s.metric == "score"]
    assert score == pytest.approx((1 / 6 + 1) / 2)
