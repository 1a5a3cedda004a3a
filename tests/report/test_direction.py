"""A measure of which less is better is ranked with the least first, everywhere."""

from __future__ import annotations

from dataclasses import replace

from refbench.analysis.precision.conditional import conditional
from refbench.analysis.precision.variance import ranking
from refbench.analysis.precision.weights import WeightSweep, weight_sweep
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.benchmarks.kit.definition import Condition
from refbench.report.leaderboard import leaderboard
from refbench.tables.result import Result
from refbench.tables.scoring import result_of

MODELS = ("seedream4-0", "Bagel", "gpt-image-1")


def turned() -> tuple[Result, Result]:
    """The released figures of three models, once as they are and once as if they were errors."""
    cases, scores = released_scores("paper874")
    kept = [score for score in scores if score.model in MODELS]
    bench = benchmark("creval")
    return tuple(
        result_of(one, cases, kept, draws=0)
        for one in (bench, replace(bench, scoring=replace(bench.scoring, lower=frozenset({"avg"}))))
    )  # type: ignore[return-value]


def test_leaderboard_ranks_and_sentences_follow_the_direction_of_the_measure() -> None:
    higher, lower = turned()
    best_first = [line.model for line in leaderboard(higher, {"level": "overall"})]
    assert best_first == ["seedream4-0", "gpt-image-1", "Bagel"]
    assert [line.model for line in leaderboard(lower, {"level": "overall"})] == best_first[::-1]
    up, down = (ranking(result, "paper", "gpt-4o", draws=200) for result in (higher, lower))
    assert [rank.model for rank in up] == [rank.model for rank in down][::-1]
    assert down[0].rank95 == (1, 1)
    assert "lower is better" in lower.compare("Bagel", "gpt-image-1", draws=200).pairs[0].sentence
    assert "lower is better" not in higher.compare("Bagel", "gpt-image-1", draws=200).pairs[0].sentence


def test_the_winner_of_a_weighting_is_the_model_with_the_least_of_such_a_measure() -> None:
    higher, lower = (weight_sweep(result, "paper", "gpt-4o", ["0:0:1"]) for result in turned())
    assert isinstance(higher, WeightSweep)
    assert isinstance(lower, WeightSweep)
    assert lower.default.ranking == higher.default.ranking[::-1]
    assert lower.given[0].ranking == higher.given[0].ranking[::-1]
    assert next(iter(higher.winners)) == "seedream4-0"
    assert "seedream4-0" not in lower.winners


def test_outputs_that_meet_a_condition_are_listed_in_the_direction_of_the_measure() -> None:
    asked = Condition("avg", "IF", 80.0)
    up, down = (conditional(result, asked, protocol="paper", judge="gpt-4o", draws=100) for result in turned())
    assert [row.model for row in up] == [row.model for row in down][::-1]
