"""Ranks from which systems were found better than which, and how often each is first."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from refbench.stats.ranks import ranks_of

OPEN = np.zeros((2, 2), dtype=np.bool_)


def test_clear_gaps_have_one_rank_each_and_near_ties_share_theirs() -> None:
    point = np.array([9.0, 5.0, 5.1, 1.0])
    found = ranks_of(point[:, None] - point > 0.5, point[:, None])
    assert list(zip(found.low, found.high, strict=True)) == [(1, 1), (2, 3), (2, 3), (4, 4)]


def test_the_chance_to_be_best_is_that_of_two_normals() -> None:
    draws = np.random.default_rng(2).normal(0, 1, (2, 200_000)) + np.array([[0.5], [0.0]])
    found = ranks_of(OPEN, draws)
    assert found.best is not None
    assert found.best[0] == pytest.approx(norm.cdf(0.5 / 2**0.5), abs=0.005)
    assert found.best.sum() == pytest.approx(1)


def test_equal_systems_share_first_place() -> None:
    point = np.array([1.0, 1.0, 0.0])
    found = ranks_of(np.zeros((3, 3), dtype=np.bool_), np.repeat(point[:, None], 100, axis=1))
    assert found.best is not None
    assert found.best.tolist() == [0.5, 0.5, 0]


def test_draws_without_a_value_are_left_out_while_they_are_few() -> None:
    values = np.repeat(np.array([[1.0], [0.0]]), 100, axis=1)
    values[0, :3] = np.nan
    found = ranks_of(OPEN, values)
    assert found.best is not None
    assert found.best.tolist() == [1, 0]
    values[0, :20] = np.nan
    assert ranks_of(OPEN, values).best is None
