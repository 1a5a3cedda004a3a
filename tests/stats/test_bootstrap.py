"""Resampling against closed forms, intervals against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refbench.stats import Design, WeightedMeans, bca_interval, leave_one_out, resample

RNG = np.random.default_rng(5)


def all_weights(design: Design, draws: int, seed: int = 1) -> np.ndarray:
    return np.concatenate(list(resample(design, draws, seed)))


def test_every_draw_keeps_the_weight_of_each_stratum() -> None:
    strata = ["a"] * 7 + ["b"] * 30 + ["c"] * 2
    design = Design.of([str(i) for i in range(39)], strata)
    weights = all_weights(design, 50)
    for name in "abc":
        members = np.array(strata) == name
        assert np.allclose(weights[:, members].sum(axis=1), members.sum())


def test_cases_of_one_cluster_are_drawn_together() -> None:
    clusters = ["x", "y", "x", "z", "y", "x"]
    weights = all_weights(Design.of(clusters, [""] * 6), 20)
    assert np.array_equal(weights[:, 0], weights[:, 2])
    assert np.array_equal(weights[:, 0], weights[:, 5])
    assert np.array_equal(weights[:, 1], weights[:, 4])


def test_the_variance_is_the_stratified_one_of_the_textbook() -> None:
    sizes = [8, 15, 40]
    values = np.concatenate([RNG.normal(m, 1 + m, n) for m, n in enumerate(sizes)])
    strata = np.repeat(["a", "b", "c"], sizes)
    design = Design.of([str(i) for i in range(len(values))], list(strata))
    means = all_weights(design, 40_000) @ values / len(values)
    expected = (
        sum(n**2 * values[strata == s].var(ddof=1) / n for s, n in zip("abc", sizes, strict=True)) / len(values) ** 2
    )
    assert means.var() == pytest.approx(expected, rel=0.03)
    assert means.mean() == pytest.approx(values.mean(), abs=0.01)


def test_a_stratum_of_one_does_not_pass_for_certain() -> None:
    strata = ["a"] * 10 + ["lonely", "alone"]
    weights = all_weights(Design.of([str(i) for i in range(12)], strata), 200)
    assert weights[:, 10].std() > 0
    weights = all_weights(Design.of([str(i) for i in range(11)], ["a"] * 10 + ["lonely"]), 200)
    assert weights[:, 10].std() > 0


def test_draws_are_the_same_for_the_same_seed_and_differ_for_another() -> None:
    design = Design.of([str(i) for i in range(50)], [""] * 50)
    assert np.array_equal(all_weights(design, 30, 7), all_weights(design, 30, 7))
    assert not np.array_equal(all_weights(design, 30, 7), all_weights(design, 30, 8))


def test_leaving_one_out_is_the_jackknife() -> None:
    values = RNG.exponential(size=25)
    design = Design.of([str(i) for i in range(25)], [""] * 25)
    (_, weights), *more = leave_one_out(design)
    assert not more
    left = weights @ values / weights.sum(axis=1)
    assert np.allclose(left, [np.delete(values, i).mean() for i in range(25)])


def test_intervals_are_scipys_bca_up_to_the_small_sample_correction() -> None:
    values = RNG.exponential(size=200)
    design = Design.of([str(i) for i in range(200)], [""] * 200)
    drawn = all_weights(design, 20_000) @ values / 200
    left = np.concatenate([w for _, w in leave_one_out(design)]) @ values / 200
    found = bca_interval(values.mean(), drawn, values.mean() - left, 199)
    expected = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(3))
    assert found is not None
    assert found == pytest.approx((expected.confidence_interval.low, expected.confidence_interval.high), rel=0.012)


def test_skewed_scores_get_a_lopsided_interval() -> None:
    values = np.array([1.0] * 50 + [0.0] * 3)
    design = Design.of([str(i) for i in range(53)], [""] * 53)
    drawn = all_weights(design, 4000) @ values / 53
    left = np.concatenate([w for _, w in leave_one_out(design)]) @ values / 53
    low, high = bca_interval(values.mean(), drawn, values.mean() - left, 52) or (0, 0)
    assert values.mean() - low > high - values.mean()
    assert 0 < low < values.mean() < high <= 1


def test_where_nothing_varies_there_is_no_interval() -> None:
    assert bca_interval(1.0, np.ones(100), np.zeros(10), 9) is None
    assert bca_interval(1.0, RNG.normal(size=100), np.zeros(10), 0) is None
    assert bca_interval(1.0, np.where(RNG.random(100) < 0.3, np.nan, 1.0), np.zeros(10), 9) is None


def test_weighted_means_leave_out_what_has_no_value() -> None:
    values = {"m": np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])}
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 5.0, 0.0]])
    mean = WeightedMeans(values, weights)("m", np.array([True, True, True]))
    assert np.allclose(mean[0], [2.0, 1.0])
    assert np.isnan(mean[1]).all()
    only_first = WeightedMeans(values, weights)("m", np.array([True, False, False]))
    assert np.allclose(only_first[0], [1.0, 1.0])
