"""Flips, Holm, effects and detectable differences, each against an implementation or a closed form that is not ours."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refbench.stats import Design, WeightedMeans, detectable, flip_p, flips, holm, is_exhaustive, paired_effect


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
    ours = flip_p(float((a - b).mean()), mean_gaps(a, b, alone(9), 10_000, 0), exhaustive=True)
    theirs = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True, n_resamples=np.inf
    )  # fmt: skip
    assert ours == pytest.approx(theirs.pvalue, abs=1e-12)


def test_random_flips_agree_with_scipy_to_simulation_error() -> None:
    a, b = paired(80, 3, shift=0.25)
    ours = flip_p(float((a - b).mean()), mean_gaps(a, b, alone(80), 20_000, 5), exhaustive=False)
    theirs = stats.permutation_test(
        (a, b), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True, n_resamples=20_000, rng=np.random.default_rng(9)
    )  # fmt: skip
    assert 0.005 < theirs.pvalue < 0.3
    assert ours == pytest.approx(theirs.pvalue, abs=5 * np.sqrt(2 * theirs.pvalue / 20_000))


def test_p_is_never_zero_and_ties_count_against_the_claim() -> None:
    assert flip_p(5.0, np.zeros(999), exhaustive=False) == pytest.approx(1 / 1000)
    assert flip_p(0.3, np.array([0.1 + 0.2, -0.3, 0.1]), exhaustive=False) == pytest.approx(3 / 4)
    assert flip_p(0.0, np.zeros(10), exhaustive=False) == 1.0


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


def test_the_effect_is_the_paired_t_statistic_over_the_root_of_n() -> None:
    a, b = paired(60, 1)
    t = stats.ttest_rel(a, b).statistic
    assert paired_effect(a - b, np.arange(60)) == pytest.approx(t / np.sqrt(60))
    assert paired_effect(np.ones(5), np.arange(5)) is None
    assert paired_effect(np.array([1.0, 2.0]), np.zeros(2, dtype=np.intp)) is None


@pytest.mark.parametrize("family", [1, 6, 28])
def test_the_detectable_difference_is_found_four_times_in_five(family: int) -> None:
    """For a normal estimate with a known standard error, by scipy's distribution."""
    error = 0.7
    shift = detectable(stats.norm.ppf(0.975) * error, family)
    reach = stats.norm.ppf(1 - 0.025 / family)
    assert stats.norm.sf(reach - shift / error) == pytest.approx(0.80, abs=1e-6)
