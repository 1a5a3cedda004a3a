"""Ranks from all pairs: how often they hold the truth, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from refbench.stats.ranks import ranks_of


def test_clear_gaps_have_one_rank_each_and_near_ties_share_theirs() -> None:
    rng = np.random.default_rng(1)
    point = np.array([9.0, 5.0, 5.1, 1.0])
    found = ranks_of(point, point[:, None] + rng.normal(0, 0.3, (4, 2000)), 200, 199)
    assert found is not None
    assert list(zip(found.low, found.high, strict=True)) == [(1, 1), (2, 3), (2, 3), (4, 4)]


def test_the_chance_to_be_best_is_that_of_two_normals() -> None:
    point = np.array([0.5, 0.0])
    draws = np.random.default_rng(2).normal(0, 1, (2, 200_000)) + point[:, None]
    found = ranks_of(point, draws, 100, 99)
    assert found is not None
    assert found.best[0] == pytest.approx(norm.cdf(0.5 / 2**0.5), abs=0.005)
    assert found.best.sum() == pytest.approx(1)


def test_equal_systems_share_their_ranks_and_first_place() -> None:
    point = np.array([1.0, 1.0, 0.0])
    found = ranks_of(point, np.repeat(point[:, None], 100, axis=1), 100, 99)
    assert found is not None
    assert found.low.tolist() == [1, 1, 3]
    assert found.high.tolist() == [2, 2, 3]
    assert found.best.tolist() == [0.5, 0.5, 0]


def test_so_few_clusters_that_nothing_can_be_told_leave_every_rank_open() -> None:
    point = np.array([9.0, 1.0])
    found = ranks_of(point, np.repeat(point[:, None], 100, axis=1), 5, 4)
    assert found is not None
    assert (found.low.tolist(), found.high.tolist()) == ([1, 1], [2, 2])


def test_draws_without_a_value_are_left_out_while_they_are_few() -> None:
    point = np.array([1.0, 0.0])
    values = np.repeat(point[:, None], 100, axis=1)
    values[0, :3] = np.nan
    found = ranks_of(point, values, 100, 99)
    assert found is not None
    assert found.best.tolist() == [1, 0]
    values[0, :20] = np.nan
    assert ranks_of(point, values, 100, 99) is None


def test_near_equal_systems_have_intervals_that_hold_their_true_ranks() -> None:
    """Eight systems a fifth of a standard error apart: ranks read off draws missed that of the worst in a third."""
    rng = np.random.default_rng(3)
    truth, n = np.arange(8)[::-1] * 0.02, 100
    held = np.zeros(8)
    for _ in range(200):
        cases = truth[:, None] + rng.normal(0, 1, (8, n))
        draws = cases @ rng.multinomial(n, [1 / n] * n, 200).T / n
        found = ranks_of(cases.mean(axis=1), draws, n, n - 1)
        assert found is not None
        held += (found.low <= np.arange(1, 9)) & (np.arange(1, 9) <= found.high)
    assert held.min() / 200 >= 0.95
