"""Ranks over draws, against scipy's ranks and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from refbench.stats.ranks import rank_draws


def test_intervals_are_the_quantiles_of_the_ranks_in_single_draws() -> None:
    values = np.random.default_rng(1).normal(0, 1, (5, 2000)) + np.arange(5)[:, None] * 0.8
    found = rank_draws(values)
    assert found is not None
    ranks = rankdata(-values, axis=0)
    assert found.low.tolist() == [sorted(row)[int(np.ceil(0.025 * 2000)) - 1] for row in ranks]
    assert found.high.tolist() == [sorted(row)[int(np.ceil(0.975 * 2000)) - 1] for row in ranks]
    assert found.best.tolist() == pytest.approx((ranks == 1).mean(axis=1).tolist())


def test_the_chance_to_be_best_is_that_of_two_normals() -> None:
    values = np.random.default_rng(2).normal(0, 1, (2, 200_000)) + np.array([[0.5], [0.0]])
    found = rank_draws(values)
    assert found is not None
    assert found.best[0] == pytest.approx(norm.cdf(0.5 / 2**0.5), abs=0.005)
    assert found.best.sum() == pytest.approx(1)


def test_equal_systems_share_their_ranks_and_first_place() -> None:
    found = rank_draws(np.array([[1.0] * 100, [1.0] * 100, [0.0] * 100]))
    assert found is not None
    assert found.low.tolist() == [1, 1, 3]
    assert found.high.tolist() == [2, 2, 3]
    assert found.best.tolist() == [0.5, 0.5, 0]


def test_draws_without_a_value_are_left_out_while_they_are_few() -> None:
    values = np.array([[1.0] * 100, [0.0] * 100])
    values[0, :3] = np.nan
    found = rank_draws(values)
    assert found is not None
    assert found.best.tolist() == [1, 0]
    values[0, :20] = np.nan
    assert rank_draws(values) is None
