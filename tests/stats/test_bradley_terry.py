"""Bradley and Terry's strengths against a closed form, scipy's maximum of the likelihood, and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from refbench.stats import Design
from refbench.stats.bradley_terry import bradley_terry, fit, groups_of, wins_of


def test_two_systems_have_the_log_odds() -> None:
    strengths = fit(np.array([[0.0, 30.0], [10.0, 0.0]]))
    assert strengths == pytest.approx([np.log(3) / 2, -np.log(3) / 2], abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_strengths_are_where_scipy_finds_the_likelihood_largest(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wins = rng.integers(0, 12, (6, 6)).astype(float)
    np.fill_diagonal(wins, 0)

    def loss(s: np.ndarray) -> float:
        return float((wins * np.logaddexp(0, s[None, :] - s[:, None])).sum())

    theirs = optimize.minimize(loss, np.zeros(6), method="BFGS", options={"gtol": 1e-9}).x
    assert fit(wins) == pytest.approx(theirs - theirs.mean(), abs=1e-5)


def test_a_tie_counts_half_for_either() -> None:
    one, two = np.array([0, 0], dtype=np.intp), np.array([1, 1], dtype=np.intp)
    wins = wins_of(one, two, np.array([1.0, 0.5]), np.ones((1, 2)), 2)
    assert wins[0].tolist() == [[0.0, 1.5], [0.5, 0.0]]
    level = bradley_terry(one, two, np.array([0.5, 0.5]), 2, draws=0)
    assert level.values == pytest.approx([0, 0], abs=1e-12)


def test_where_some_never_lose_to_the_others_nobody_is_placed() -> None:
    unbeaten = np.array([[0.0, 3, 2], [0, 0, 4], [0, 5, 0]])
    assert groups_of(unbeaten).tolist() == [0, 1, 1]
    apart = np.array([[0.0, 3, 0, 0], [1, 0, 0, 0], [0, 0, 0, 2], [0, 0, 2, 0]])
    assert groups_of(apart).tolist() == [0, 0, 1, 1]
    for wins in (unbeaten, apart):
        assert np.isnan(fit(wins)).all()
    first, second = np.array([0, 0], dtype=np.intp), np.array([1, 2], dtype=np.intp)
    found = bradley_terry(first, second, np.array([1.0, 1.0]), 3)
    assert not found.connected
    assert found.intervals == ()


def test_a_chain_of_close_and_lopsided_pairs_converges() -> None:
    wins = np.zeros((12, 12))
    for i in range(11):
        wins[i, i + 1], wins[i + 1, i] = 1000, 1
    strengths = fit(wins)
    assert np.diff(strengths) == pytest.approx(-np.log(1000) * np.ones(11), rel=1e-6)


def marks(rng: np.random.Generator, truth: np.ndarray, cases: int, each: int) -> tuple[np.ndarray, ...]:
    """Every case is marked `each` times, alike as far as they share its mood."""
    case = np.repeat(np.arange(cases), each)
    first = rng.integers(0, len(truth), len(case))
    second = (first + rng.integers(1, len(truth), len(case))) % len(truth)
    mood = rng.normal(0, 0.7, (cases, len(truth)))[case]
    rows = np.arange(len(case))
    ahead = truth[first] - truth[second] + mood[rows, first] - mood[rows, second]
    return case, first, second, (rng.random(len(case)) < 1 / (1 + np.exp(-ahead))).astype(float)


def test_whole_clusters_are_drawn_so_their_intervals_are_wider() -> None:
    rng = np.random.default_rng(3)
    case, first, second, won = marks(rng, np.array([0.4, 0.0, -0.4]), 40, 10)
    design = Design(case, np.zeros(40, dtype=np.intp))
    clustered = bradley_terry(first, second, won, 3, clusters=design, draws=200)
    alone = bradley_terry(first, second, won, 3, draws=200)
    widths = [[ends[1] - ends[0] for ends in one.intervals if ends] for one in (clustered, alone)]
    assert np.mean(widths[0]) > 1.1 * np.mean(widths[1])
    for value, ends in zip(clustered.values, clustered.intervals, strict=True):
        assert ends is not None
        assert ends[0] < value < ends[1]


@pytest.mark.slow
def test_intervals_hold_the_strengths_in_nineteen_of_twenty() -> None:
    rng = np.random.default_rng(4)
    truth = np.array([0.5, 0.1, -0.6])
    held = []
    for _ in range(60):
        first = rng.integers(0, 3, 150)
        second = (first + rng.integers(1, 3, 150)) % 3
        won = (rng.random(150) < 1 / (1 + np.exp(truth[second] - truth[first]))).astype(float)
        found = bradley_terry(first, second, won, 3, draws=150)
        held += [e is not None and e[0] <= t <= e[1] for e, t in zip(found.intervals, truth, strict=True)]
    assert np.mean(held) >= 0.90
