"""The leaderboard in the terminal and in Markdown: whose marks a line has, and in as many digits as its scale asks for."""

from __future__ import annotations

import pytest

from refbench import Failure, Score
from refbench.analysis.precision.variance import ranking
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.record import RefBenchError
from refbench.report import print_result, to_markdown
from refbench.report.leaderboard import leaderboard, leaderboards
from refbench.tables.result import Result
from refbench.tables.scoring import result_of
from refbench.tables.table import Row, ranked


def two_judges() -> Result:
    """The released scores of two models, and the same by a judge who gives half as much and failed once."""
    cases, scores = released_scores("paper874")
    kept = [score for score in scores if score.model in ("Bagel", "seedream4-0")]
    strict = [score.model_copy(update={"judge": "strict", "value": (score.value or 0) / 2}) for score in kept]
    failed = {"value": None, "failure": Failure(kind="refused")}
    strict = [s.model_copy(update=failed) if (s.case, s.model) == (cases[0].id, "Bagel") else s for s in strict]
    return result_of(benchmark("creval"), cases, [*kept, *strict], draws=0)


def test_lines_of_two_judges_say_whose_they_are_and_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    found = two_judges()
    order = [(line.judge, line.model) for line in leaderboard(found, {"level": "overall"})]
    by = [(judge, model) for judge in ("gpt-4o", "strict") for model in ("seedream4-0", "Bagel")]
    assert order == by
    lines = to_markdown(found).splitlines()
    assert lines[2].startswith("| model | judge | avg")
    assert [tuple(line.split(" | ")[:2]) for line in lines[4:8]] == [(f"| {model}", judge) for judge, model in by]
    print_result(found)
    assert "Bagel (strict): 1 of 874 cases failed (1 refused by the judge)" in capsys.readouterr().out


def test_what_is_the_same_of_two_judges_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    cases, scores = released_scores("paper874")
    failed = {"value": None, "failure": Failure(kind="refused")}
    one = [s.model_copy(update=failed if s.case == cases[0].id else {}) for s in scores if s.model == "Bagel"]
    two = [s.model_copy(update={"judge": "twin"}) for s in one]
    print_result(result_of(benchmark("creval"), cases, [*one, *two], draws=0))
    said = [line for line in capsys.readouterr().out.splitlines() if "1 of 874 cases failed" in line]
    assert len(said) == 1
    assert said[0].startswith("Bagel (gpt-4o, twin): 1 of 874 cases failed (1 refused by the judge), 1 of them")


def test_one_judge_needs_no_column() -> None:
    cases, scores = released_scores("paper874")
    one = result_of(benchmark("creval"), cases, [s for s in scores if s.model == "Bagel"], draws=0)
    assert to_markdown(one).splitlines()[2].startswith("| model | avg")


def test_bounds_have_the_digits_of_the_scale(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where nothing is scored, and only the bounds tell the scale."""
    cases, scores = released_scores("paper874")
    none = [
        Score(
            case=s.case,
            model=s.model,
            judge="j",
            metric=s.metric,
            protocol="corrected",
            failure=Failure(kind="refused"),
        )
        for s in scores
        if s.model == "Bagel"
    ]
    print_result(result_of(benchmark("creval"), cases, none, draws=0))
    assert "avg would be between 0.00 and 100.00." in capsys.readouterr().out


def test_markdown_has_the_level_that_is_asked_for() -> None:
    found = two_judges()
    assert "### Customization" in to_markdown(found)
    by_dimension = to_markdown(found, by="dimension")
    assert "### Customization" not in by_dimension
    assert by_dimension.count("###") == 10


def test_a_level_that_is_not_there_is_said_before_anything_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RefBenchError, match="--by nothing: this table has the levels overall"):
        print_result(two_judges(), by="nothing")
    assert capsys.readouterr().out == ""


def row(
    model: str, value: float | None, scored: int, *, judge: str | None = "j", imputed: int = 0, not_asked: int = 0
) -> Row:
    return Row(
        model=model,
        judge=judge,
        protocol="corrected",
        metric="l1",
        slice={"level": "overall"},
        value=value,
        n_cases=904,
        n_seeds=1,
        n_expected=904,
        n_scored=scored,
        n_not_asked=not_asked,
        n_not_applicable=0,
        n_imputed=imputed,
        failures={"refused": 904 - scored - not_asked} if scored + not_asked < 904 else {},
        ci95=None,
        bounds=None,
    )


def test_a_model_with_one_of_904_cases_stands_below_the_ranked_ones_with_its_count() -> None:
    rows = [
        row("lucky", 100.0, 1),
        row("none", None, 0),
        row("best", 90.0, 452),
        row("same", 90.0, 904),
        row("c", 1.0, 904),
    ]
    found = ranked(rows, frozenset())
    assert [(one.row.model, one.rank) for one in found] == [
        ("best", 1),
        ("same", 1),
        ("c", 3),
        ("lucky", None),
        ("none", None),
    ]
    assert found[3].why_not == "not ranked: only 1 of 904 scored"
    assert found[4].why_not == "not ranked: no value (0 of 904 scored)"
    assert found[0].why_not is None


def test_ranks_follow_the_direction_and_stay_within_a_judge() -> None:
    rows = [row("a", 2.0, 904), row("b", 1.0, 904), row("a", 9.0, 904, judge="k"), row("b", 3.0, 904, judge="k")]
    assert [(r.row.judge, r.row.model, r.rank) for r in ranked(rows, frozenset({"l1"}))] == [
        ("j", "b", 1),
        ("j", "a", 2),
        ("k", "b", 1),
        ("k", "a", 2),
    ]


def test_a_run_that_was_stopped_ranks_its_models_and_a_model_that_was_hardly_asked_has_no_rank() -> None:
    stopped = [row("a", 2.0, 300, not_asked=604), row("b", 1.0, 290, not_asked=604)]
    assert [one.rank for one in ranked(stopped, frozenset())] == [1, 2]
    late = row("late", 9.0, 1, not_asked=903)
    assert [(one.row.model, one.rank) for one in ranked([late, *stopped], frozenset())][-1] == ("late", None)


def test_what_was_imputed_is_part_of_the_number() -> None:
    assert [one.rank for one in ranked([row("a", 2.0, 1, imputed=903), row("b", 1.0, 904)], frozenset())] == [1, 2]


def test_the_leaderboard_ranks_by_the_same_rule_and_says_who_is_left_out() -> None:
    cases, scores = released_scores("paper874")
    names = ("Bagel", "seedream4-0")
    kept = [s.model_copy(update={"protocol": "corrected"}) for s in scores if s.model in names]  # nothing is imputed
    failed = {"value": None, "failure": Failure(kind="refused")}
    few = [s if s.model == "Bagel" or s.case == cases[0].id else s.model_copy(update=failed) for s in kept]
    result = result_of(benchmark("creval"), cases, few, draws=0)
    board = leaderboards(result)[0]
    assert [(line.model, line.rank) for line in board.lines] == [("Bagel", 1), ("seedream4-0", None)]
    assert board.not_ranked() == ["seedream4-0 is not ranked: only 1 of 874 scored."]
    assert [rank.model for rank in ranking(result, "corrected", "gpt-4o", draws=50)] == ["Bagel"]


def without_quality(kind: str) -> Result:
    """The released scores of two models in `corrected`, with this failure instead of every VQ."""
    cases, scores = released_scores("paper874")
    kept = [s.model_copy(update={"protocol": "corrected"}) for s in scores if s.model in ("Bagel", "seedream4-0")]
    failed = {"value": None, "failure": Failure(kind=kind)}
    changed = [s.model_copy(update=failed) if s.metric == "VQ" else s for s in kept]
    return result_of(benchmark("creval"), cases, changed, draws=0)


def test_a_summary_that_failed_throughout_stays_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """A judge who refuses one part leaves nothing to rank by: no other measure takes its place unsaid."""
    result = without_quality("refused")
    assert result.summary("corrected") == "avg"
    print_result(result)
    printed = capsys.readouterr().out
    assert "avg (corrected)" in printed
    assert "Bagel is not ranked: no value (0 of 874 scored)" in printed
    assert result.compare("Bagel", "seedream4-0", draws=20).pairs[0].gap is None


def test_what_was_never_measured_is_no_summary() -> None:
    assert without_quality("not_measured").summary("corrected") == "VC"
