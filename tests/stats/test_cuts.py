"""Cuts that hold what they promise: by another library's bound, by hand, and over calibrations drawn by chance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from refbench.stats.cuts import BOUND, Cut, highest, least_n, lower_bound


def test_the_bound_is_clopper_and_pearsons() -> None:
    for wrong, n in [(0, 29), (1, 46), (2, 61), (3, 40), (40, 400), (5, 5)]:
        low = binomtest(n - wrong, n, alternative="greater").proportion_ci(0.95, "exact").low
        assert lower_bound(wrong, n) == pytest.approx(low, abs=1e-9)


def test_it_takes_29_without_an_error_46_with_one_and_61_with_two() -> None:
    assert [least_n(wrong) for wrong in range(3)] == [29, 46, 61]


def cut(good: list[tuple[float, int, int]], group: list[int] | None = None) -> Cut | None:
    """Of so many right and wrong answers at each score."""
    score = np.concatenate([np.full(right + wrong, at) for at, right, wrong in good])
    right = np.concatenate([np.arange(yes + no) < yes for _, yes, no in good])
    return highest(score, right, np.arange(len(score)) if group is None else np.array(group))


def test_the_lowest_cut_that_holds_is_found() -> None:
    assert cut([(5, 40, 0), (4, 40, 1), (3, 10, 10)]) == (4, 81, 1, lower_bound(1, 81))
    assert cut([(5, 29, 0), (1, 0, 40)]) == (5, 29, 0, lower_bound(0, 29))


def test_without_enough_or_with_too_many_wrong_no_cut_holds() -> None:
    assert cut([(5, 28, 0)]) is None
    assert cut([(5, 45, 2), (4, 100, 0)]) is None, "a cut below one that fails is not tried"
    assert highest(np.zeros(0), np.zeros(0, bool), np.zeros(0, np.intp)) is None


def test_equal_scores_are_never_cut_apart() -> None:
    assert cut([(5, 200, 0), (4, 30, 30)]) == (5, 200, 0, lower_bound(0, 200))


def test_references_of_one_original_are_one_answer() -> None:
    assert cut([(5, 40, 0)], [n // 2 for n in range(40)]) is None
    found = cut([(5, 100, 1)], [n // 2 for n in range(101)])
    assert found == (5, 51, 1, lower_bound(1, 51))


def test_the_share_in_the_sample_counts_beside_the_bound() -> None:
    assert lower_bound(60, 1000) > BOUND
    assert cut([(5, 940, 60)]) is None


def promised(seed: int, size: int, levels: int | None) -> float:
    """Calibrations of a judge whose marks go with the truth more or less: the share whose cut keeps its promise."""
    rng = np.random.default_rng(seed)
    held = made = 0
    for _ in range(500):
        score = rng.normal(3.6, 1.0, size).clip(1, 5)
        score = score if levels is None else np.round(score)
        found = highest(score, rng.random(size) < truth(score), np.arange(size))
        population = rng.normal(3.6, 1.0, 20_000).clip(1, 5)
        population = population if levels is None else np.round(population)
        made += found is not None
        held += found is None or truth(population[population >= found.at]).mean() >= BOUND
    assert made > 50, "no cut at all would promise nothing"
    return held / 500


def truth(score: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-2.2 * (score - 2.9)))


@pytest.mark.slow
@pytest.mark.parametrize("size", [60, 150, 600, 3000])
@pytest.mark.parametrize("levels", [5, None])
def test_the_promised_precision_holds_in_95_of_100_calibrations(size: int, levels: int | None) -> None:
    assert promised(size, size, levels) >= 0.95
