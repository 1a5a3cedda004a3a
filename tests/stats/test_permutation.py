"""Flips, Holm and detectable differences, each against an implementation or a closed form that is not ours."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refbench.stats import (
    Design,
    OneSwapMeans,
    WeightedMeans,
    clusters_needed,
    detectable,
    flip_p,
    flips,
    holm,
    is_exhaustive,
    smallest_p,
    sum_flip_p,
)


def alone(n: int) -> Design:
    return Design.of([str(i) for i in range(n)], [""] * n)


def mean_gaps(a: np.ndarray, b: np.ndarray, design: Design, draws: int, seed: int) -> np.ndarray:
    rows = {"m": np.stack([np.concatenate([a, b]), np.concatenate([b, a])])}
    everything = np.ones(2 * len(a), dtype=np.bool_)
    value = np.concatenate([WeightedMeans(rows, w)("m", everything) for w in flips(design, draws, seed)], axis=1)
    return value[0] - value[1]


def paired(n: int, seed: int, shift: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    return common + rng.normal(size=n) + shift, common + rng.normal(size=n)


@pytest.mark.parametrize("seed", range(6))
def test_all_flips_give_the_exact_p_of_scipy(seed: int) -> None:
    a, b = paired(9, seed)
    ours = flip_p(float((a - b).mean()), mean_gaps(a, b, alone(9), 10_000, 0), exhaustive=True).p
    theirs = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True, n_resamples=np.inf
    )  # fmt: skip
    assert ours == pytest.approx(theirs.pvalue, abs=1e-12)


def test_random_flips_agree_with_scipy_to_simulation_error() -> None:
    a, b = paired(80, 3, shift=0.25)
    ours = flip_p(float((a - b).mean()), mean_gaps(a, b, alone(80), 20_000, 5), exhaustive=False).p
    theirs = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True, n_resamples=20_000, rng=np.random.default_rng(9)
    )  # fmt: skip
    assert 0.005 < theirs.pvalue < 0.3
    assert ours == pytest.approx(theirs.pvalue, abs=5 * np.sqrt(2 * theirs.pvalue / 20_000))


def test_p_is_never_zero_and_ties_count_against_the_claim() -> None:
    none = flip_p(5.0, np.zeros(999), exhaustive=False)
    assert (none.p, none.bound) == (pytest.approx(1 / 1000), True)
    tied = flip_p(0.3, np.array([0.1 + 0.2, -0.3, 0.1]), exhaustive=False)
    assert (tied.p, tied.bound) == (pytest.approx(3 / 4), False)
    assert flip_p(0.0, np.zeros(10), exhaustive=False).p == 1.0


def test_all_flips_are_tried_when_they_are_few_and_a_cluster_flips_as_a_whole() -> None:
    design = Design.of(["a", "a", "b", "c"], [""] * 4)
    assert is_exhaustive(3, 7)
    assert not is_exhaustive(3, 6)
    (weights,) = flips(design, 99, 0)
    assert weights.shape == (8, 8)
    assert len(np.unique(weights, axis=0)) == 8
    assert (weights[:, 0] == weights[:, 1]).all()
    assert (weights[:, :4] + weights[:, 4:] == 1).all()


def test_flips_are_fair_seeded_and_independent_of_blocks() -> None:
    design = alone(4000)
    drawn = np.concatenate(list(flips(design, 1200, 7)))
    assert drawn.shape == (1200, 8000)  # more than one block
    assert drawn[:, 4000:].mean() == pytest.approx(0.5, abs=0.002)
    assert (np.concatenate(list(flips(design, 1200, 7))) == drawn).all()
    assert not (np.concatenate(list(flips(design, 1200, 8))) == drawn).all()


def test_holm_of_a_known_example() -> None:
    """Worked by hand: 4 x .005, 3 x .01, then 2 x .03, which the last one may not undercut."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


@pytest.mark.parametrize("seed", range(4))
def test_flips_of_sums_give_the_exact_p_of_scipy(seed: int) -> None:
    a, b = paired(10, seed)
    (ours,) = sum_flip_p((a - b)[None], 10_000, 0)
    theirs = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True, n_resamples=np.inf
    )  # fmt: skip
    assert ours.p == pytest.approx(theirs.pvalue, abs=1e-12)
    assert not ours.bound


def test_a_gap_that_no_flip_reaches_is_bounded_and_the_bound_is_above_the_exact_p() -> None:
    """All 2^18 flips written out, beside 99 random ones."""
    parts = np.random.default_rng(1).normal(1.5, 0.5, (1, 18))
    signs = 1 - 2 * ((np.arange(2**18)[:, None] >> np.arange(18)) & 1)
    exact = np.mean(np.abs(signs @ parts[0]) >= parts.sum() - 1e-9)
    (found,) = sum_flip_p(parts, 99, 3)
    assert found.bound
    assert exact <= found.p < 1 / 100
    assert found.p == pytest.approx(2 * np.exp(-(parts.sum() ** 2) / (2 * (parts**2).sum())))


def test_a_clear_gap_of_many_clusters_has_a_p_that_no_family_lifts_above_the_level() -> None:
    (found,) = sum_flip_p(np.ones((1, 300)), 999, 0)
    assert found.p * 10**6 < 0.05


def test_p_of_a_bound_too_small_for_any_number_is_not_zero() -> None:
    (found,) = sum_flip_p(np.full((1, 1600), 1 / 1600), 1999, 0)
    assert found.bound
    assert 0 < found.p < 1e-300


def test_means_with_one_cluster_swapped_are_those_under_such_weights() -> None:
    rng = np.random.default_rng(0)
    cluster = np.unique(rng.integers(0, 9, 40), return_inverse=True)[1].astype(np.intp)
    values = rng.normal(size=(6, 80))
    values[rng.random(values.shape) < 0.3] = np.nan
    values[2, :40] = np.nan
    members = rng.random(80) < 0.7
    swapped = np.arange(cluster.max() + 1)[:, None] == cluster[None, :]
    weights = np.concatenate([~swapped, swapped], axis=1).astype(np.float64)
    expected = WeightedMeans({"m": values}, weights)("m", members)
    chosen = np.array([4, 0, 7], dtype=np.intp)
    np.testing.assert_allclose(OneSwapMeans({"m": values}, cluster, chosen)("m", members), expected[:, chosen])


@pytest.mark.parametrize("clusters", [1, 2, 5, 8])
def test_the_smallest_p_is_that_of_a_model_that_is_better_everywhere(clusters: int) -> None:
    (found,) = sum_flip_p(np.ones((1, clusters)), 10_000, 0)
    assert found.p == smallest_p(clusters)


def test_clusters_needed_are_the_fewest_that_can_reach_the_level() -> None:
    assert [clusters_needed(family) for family in (1, 28)] == [6, 11]
    assert smallest_p(6) <= 0.05 < smallest_p(5)
    assert 28 * smallest_p(11) <= 0.05 < 28 * smallest_p(10)


@pytest.mark.parametrize(("family", "n"), [(1, 6), (1, 7), (1, 10), (1, 40), (3, 8), (28, 12), (28, 14), (28, 40)])
def test_the_detectable_difference_is_found_four_times_in_five(family: int, n: int) -> None:
    """By both tests, of normal differences whose spread is known."""
    shift = detectable(float(stats.t.ppf(0.975, n - 1)) / n**0.5, clusters=n, df=n - 1, family=family)
    assert shift is not None
    rng = np.random.default_rng(n)
    x = rng.normal(shift, 1, (600, n))
    signs = (np.arange(2**n)[:, None] >> np.arange(n)) & 1 if n <= 12 else rng.integers(0, 2, (6000, n))
    flipped = np.abs(x @ (2 * signs - 1).T) >= np.abs(x.sum(axis=1))[:, None] - 1e-9
    found = np.maximum(stats.ttest_1samp(x, 0, axis=1).pvalue, flipped.mean(axis=1)) <= 0.05 / family
    assert 0.77 <= found.mean() <= 0.93


def test_of_thousands_of_clusters_the_detectable_difference_shrinks_on_as_their_root() -> None:
    """2 to the power of minus their number is no number any more from 1,075 on."""
    found = [detectable(n**-0.5, clusters=n, df=n - 1) for n in (900, 1040, 1100, 3769, 100_000)]
    scaled = [shift * n**0.5 for shift, n in zip(found, (900, 1040, 1100, 3769, 100_000), strict=True) if shift]
    assert len(scaled) == 5
    assert scaled == pytest.approx([scaled[-1]] * 5, rel=5e-3)


def test_nothing_is_detectable_where_no_flip_can_reach_the_level() -> None:
    assert detectable(1.0, clusters=5, df=4) is None
    assert detectable(1.0, clusters=10, df=9, family=28) is None
