"""A measure of which less is better is ranked with the least first, everywhere."""

from __future__ import annotations

from dataclasses import replace

from refbench.analysis.precision import ranking
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.published import released_scores
from refbench.report.leaderboard import leaderboard
from refbench.result import Result
from refbench.scoring import result_of

MODELS = ("seedream4-0", "Bagel", "gpt-image-1")


def turned() -> tuple[Result, Result]:
    """The released figures of three models, once as they are and once as if they were errors."""
    cases, scores = released_scores("paper874")
    kept = [score for score in scores if score.model in MODELS]
    bench = benchmark("creval")
    return tuple(result_of(one, cases, kept, draws=0) for one in (bench, replace(bench, lower=frozenset({"avg"}))))  # type: ignore[return-value]


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
