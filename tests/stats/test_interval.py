"""Intervals and tests of single numbers, against scipy and by how often they hold what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from refbench.benchmarks.creval.table import released_scores
from refbench.stats import Contrast, Design, bounded_interval, draws_of, effective_n, error_and_skew, interval_for
from refbench.stats.interval import SYMMETRIC_BELOW
from refbench.stats.quantiles import t_quantile


def alone(n: int) -> Design:
    return Design.of([str(i) for i in range(n)], [""] * n)


def contrast(x: np.ndarray) -> Contrast:
    n = len(x)
    error, skew = error_and_skew((x - x.mean()) / n, alone(n))
    return Contrast(float(x.mean()), error, skew, n, n - 1)


@pytest.mark.parametrize("level", [0.95, 0.99])
@pytest.mark.parametrize(("yes", "n"), [(3, 10), (0, 12), (12, 12), (47, 50), (899, 904)])
def test_of_answers_yes_or_no_the_bounded_interval_is_clopper_and_pearsons(yes: int, n: int, level: float) -> None:
    share = yes / n
    error = float(np.sqrt(share * (1 - share) / n))
    found = bounded_interval(10 + 5 * share, 5 * error, n, 10**7, 10, 15, level)
    exact = stats.binomtest(yes, n).proportion_ci(level, method="exact")
    assert found == pytest.approx((10 + 5 * exact.low, 10 + 5 * exact.high), abs=1e-4)


def test_fewer_degrees_of_freedom_widen_the_bounded_interval() -> None:
    narrow, wide = (bounded_interval(0.7, 0.05, 40, df, 0, 1) for df in (39, 3))
    assert narrow is not None
    assert wide is not None
    assert wide[0] < narrow[0] < 0.7 < narrow[1] < wide[1]


def test_scores_all_in_the_middle_have_no_interval_and_all_at_the_end_have_one() -> None:
    assert bounded_interval(0.5, 0.0, 10, 9, 0, 1) is None
    low, high = bounded_interval(1.0, 0.0, 10, 10**7, 0, 1) or (0, 0)
    assert (low, high) == (pytest.approx(0.025 ** (1 / 10), abs=1e-4), 1.0)


def test_clusters_are_worth_as_many_as_their_weights_let_them() -> None:
    assert effective_n([1] * 7) == effective_n([3.0] * 7 + [0]) == pytest.approx(7)
    assert effective_n([40] + [1] * 19) == pytest.approx(59**2 / 1619)
    assert effective_n([]) == 0


def test_an_error_is_known_as_well_as_that_of_the_stratum_it_comes_from() -> None:
    design = Design.of([str(i) for i in range(100)], ["a"] * 5 + ["b"] * 95)
    even = Design.of([str(i) for i in range(100)], ["a"] * 50 + ["b"] * 50)
    assert even.weighted_degrees_of_freedom(np.ones(100)) == even.degrees_of_freedom(np.ones(100, dtype=bool)) == 98
    macro = np.array([1 / 5] * 5 + [1 / 95] * 95)
    assert design.weighted_degrees_of_freedom(macro) == 4
    assert alone(1).weighted_degrees_of_freedom(np.ones(1)) == 0


@pytest.mark.parametrize("n", [2, 3, 4])
def test_of_fewer_than_five_clusters_the_interval_is_students(n: int) -> None:
    x = np.random.default_rng(n).normal(3, 1, n)
    drawn, influence = draws_of(lambda w: w @ x / w.sum(axis=1), alone(n), 4000, 1)
    found = interval_for(x.mean(), drawn, influence, n=n, df=n - 1)
    exact = stats.ttest_1samp(x, 0).confidence_interval()
    assert found == pytest.approx((exact.low, exact.high), rel=0.1, abs=0.1 * (exact.high - exact.low))


@pytest.mark.parametrize("n", [3, 12, 20])
def test_intervals_of_small_samples_of_bounded_scores_cover(n: int) -> None:
    """Released VQ marks of a model near the top of the scale, where resamples alone miss its rare failures."""
    _, scores = released_scores()
    marks = np.array([s.value for s in scores if (s.model, s.metric) == ("seedream4-0", "VQ")], dtype=float)
    rng = np.random.default_rng(7)
    hits = []
    for _ in range(300):
        x = rng.choice(marks, n)
        drawn, influence = draws_of(lambda w, x=x: w @ x / w.sum(axis=1), alone(n), 300, 1)  # type: ignore[misc]
        low, high = interval_for(x.mean(), drawn, influence, n=n, df=n - 1, ends=(0, 1)) or (1, 0)
        hits.append(low <= marks.mean() <= high)
    assert np.mean(hits) >= 0.95 - 2.6 * np.sqrt(0.05 * 0.95 / 300)


def test_without_skew_p_and_interval_are_those_of_the_t_test() -> None:
    x = np.random.default_rng(3).normal(0.4, 1, SYMMETRIC_BELOW - 1)
    found, exact = contrast(x), stats.ttest_1samp(x, 0)
    assert found.p == pytest.approx(exact.pvalue, rel=1e-9)
    assert found.interval() == pytest.approx(tuple(exact.confidence_interval()), rel=1e-6)
    assert found.effect == pytest.approx(exact.statistic / np.sqrt(len(x)))


def test_the_skew_is_that_of_scipy_over_the_root_of_n() -> None:
    x = np.random.default_rng(4).exponential(size=40)
    assert contrast(x).skew == pytest.approx(stats.skew(x, bias=False) / np.sqrt(40))


@given(st.floats(-4, 4), st.floats(0.1, 3), st.floats(-0.9, 0.9), st.integers(2, 200))
def test_p_is_below_a_level_exactly_where_the_interval_leaves_out_zero(
    value: float, error: float, skew: float, n: int
) -> None:
    found = Contrast(value, error, skew, n, n - 1)
    p, interval = found.p, found.interval()
    assert p is not None
    assert interval is not None
    if abs(p - 0.05) > 1e-6:
        assert (p < 0.05) == (interval[0] > 0 or interval[1] < 0)
    assert found.effect is not None
    assert found.effect * value >= 0


@given(st.floats(-9, 9), st.floats(-3, 3), st.integers(SYMMETRIC_BELOW, 200))
def test_whatever_the_skew_a_wider_level_has_a_wider_interval_around_the_value_that_the_test_agrees_with(
    value: float, skew: float, n: int
) -> None:
    found = Contrast(value, 1.0, skew, n, n - 1)
    levels = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
    ends = [found.interval(level) or (0.0, 0.0) for level in levels]
    assert all(low < value < high for low, high in ends)
    lows, highs = zip(*ends, strict=True)
    assert list(lows) == sorted(lows, reverse=True) and list(highs) == sorted(highs)
    p = found.p
    assert p is not None
    for level, (low, high) in zip(levels, ends, strict=True):
        plain = stats.t.ppf((1 + level) / 2, n - 1)
        assert max(value - low, high - value) <= max(plain, 3 / abs(skew) if skew else np.inf) + 1e-9
        if min(abs(low), abs(high), abs(p - 1 + level)) > 1e-6:
            assert (p < 1 - level) == (low > 0 or high < 0)


@pytest.mark.parametrize("n", [20, 50])
def test_skewed_differences_are_claimed_no_more_often_than_said(n: int) -> None:
    """Exponential differences with mean zero: the plain t test claims 8 % of them at 20."""
    rng = np.random.default_rng(11)
    samples = rng.exponential(size=(2000, n)) - 1
    noise = 2.6 * np.sqrt(0.05 * 0.95 / 2000)
    assert np.mean([(contrast(x).p or 0) <= 0.05 for x in samples]) <= 0.05 + noise
    assert n > 20 or np.mean(stats.ttest_1samp(samples, 0, axis=1).pvalue <= 0.05) > 0.05 + noise


def test_without_spread_there_is_no_p_and_no_interval() -> None:
    found = contrast(np.full(30, 0.1))
    assert (found.p, found.interval(), found.effect) == (None, None, None)
    assert Contrast(1.0, 0.5, 0.0, 1, 0).p is None


@pytest.mark.parametrize("spread", [1e-5, 1e-6, 2e-7, 5e-9, 1e-9, 1e-10, 3e-12])
@pytest.mark.parametrize("value", [1e-6, 0.2681918243637645, 0.5, 0.8002074556343963, 1 - 1e-6])
def test_scores_that_are_all_but_equal_have_an_interval_around_their_mean(value: float, spread: float) -> None:
    ends = bounded_interval(value, spread, 20, 19, 0.0, 1.0)
    assert ends is not None
    assert 0 <= ends[0] <= value <= ends[1] <= 1
    if spread < value / 100 and spread < (1 - value) / 100:
        assert (ends[1] - ends[0]) / 2 == pytest.approx(t_quantile(0.975, 19) * spread, rel=0.05)
