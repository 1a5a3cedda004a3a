"""Figures of agreement against scipy, and against other libraries' and papers' numbers written down here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from refbench.stats import Array, Bins, kendall, pearson, spearman
from refbench.stats.agreement import (
    FIGURES,
    AlphaLevel,
    Forms,
    IccForm,
    agreement_draws,
    alpha_draws,
    icc_draws,
    kappa_draws,
    mae_draws,
    mse_draws,
    quadratic_kappa_draws,
)
from refbench.stats.correlation import Values, kendall_draws, number, once


def cohen_kappa(x: Values, y: Values, bins: Bins) -> float | None:
    return once(kappa_draws(bins), x, y)


def quadratic_kappa(x: Values, y: Values) -> float | None:
    return once(quadratic_kappa_draws, x, y)


def mean_squared_error(x: Values, y: Values) -> float | None:
    return once(mse_draws, x, y)


def mean_absolute_error(x: Values, y: Values) -> float | None:
    return once(mae_draws, x, y)


def krippendorff_alpha(ratings: Sequence[Sequence[float]] | Array, level: AlphaLevel = "interval") -> float | None:
    values = np.asarray(ratings, dtype=np.float64)
    return number(alpha_draws(values, np.ones((1, values.shape[-1])), level)[0])


def icc(ratings: Sequence[Sequence[float]] | Array, form: IccForm = "2,1") -> float | None:
    values = np.asarray(ratings, dtype=np.float64)
    return number(icc_draws(values, np.ones((1, values.shape[-1])), form)[0])


NONE = float("nan")
FIRST = [1, 2, 3, 3, 2, 1, 4, 1, 2, 5, 4, 3, 5, 2, 1, 4]
SECOND = [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 4, 4, 5, 1, 2, 3]
# The worked example of reliability with missing marks: four observers, twelve units.
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3],
    [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE],
]
CONTINUOUS = [
    [8.8, -0.8, 4.8, 3.5, 4.6, 4.3, 1.9, 4.3, 3.3, 13.2, 6.0, 3.8],
    [9.4, 0.9, 8.3, 4.1, 4.4, 6.1, 0.6, 4.7, 4.7, 12.7, 6.0, 5.5],
    [5.8, 0.4, 4.4, 1.7, 3.9, 4.8, 0.0, 3.0, 2.8, 11.1, 6.4, 4.5],
    [10.3, 2.0, 6.6, 3.9, 5.7, 6.2, 1.7, 4.8, 4.5, 10.2, 7.1, 5.8],
]
# Table 2 of Shrout and Fleiss (1979), judges x targets.
SHROUT_FLEISS = [[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]]

marks = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=40)


@settings(max_examples=30, deadline=None)
@given(marks)
def test_correlations_are_scipys_with_any_ties(pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert pearson(x, y) is spearman(x, y) is kendall(x, y) is None
        return
    assert pearson(x, y) == pytest.approx(scipy_stats.pearsonr(x, y)[0], abs=1e-12)
    assert spearman(x, y) == pytest.approx(scipy_stats.spearmanr(x, y)[0], abs=1e-12)
    assert kendall(x, y) == pytest.approx(scipy_stats.kendalltau(x, y)[0], abs=1e-12)


def test_kappa_is_scikit_learns() -> None:
    bins = Bins.marks(np.array(FIRST, float), np.array(SECOND, float))
    assert bins is not None
    assert bins.said == "whole marks 1 to 5"
    assert cohen_kappa(FIRST, SECOND, bins) == pytest.approx(0.6039603960396039)  # scikit-learn 1.9.1
    assert quadratic_kappa(FIRST, SECOND) == pytest.approx(0.911504424778761)  # weights="quadratic"


def test_kappa_of_bins_is_kappa_of_their_numbers() -> None:
    x, y = np.array(CONTINUOUS[0]), np.array(CONTINUOUS[1])
    bins = Bins.equal(4, 0, 12)
    assert bins.edges == (3, 6, 9)
    whole = Bins.marks(np.arange(4.0))
    assert whole is not None
    codes = np.digitize(x, [3, 6, 9]), np.digitize(y, [3, 6, 9])
    assert cohen_kappa(x, y, bins) == pytest.approx(cohen_kappa(codes[0].astype(float), codes[1].astype(float), whole))


def test_quadratic_kappa_of_any_marks_is_lins_concordance() -> None:
    x, y = np.array(CONTINUOUS[0]), np.array(CONTINUOUS[3])
    lin = 2 * np.cov(x, y, bias=True)[0, 1] / (x.var() + y.var() + (x.mean() - y.mean()) ** 2)
    assert quadratic_kappa(x, y) == pytest.approx(lin)


@pytest.mark.parametrize(
    ("level", "observers", "continuous"),
    [  # krippendorff 0.9.0; the first column is also Krippendorff's own worked example (.743, .815, .849)
        ("nominal", 0.743421052631579, 0.004177857356013059),
        ("ordinal", 0.8153875037548814, 0.7972035146160716),
        ("interval", 0.8491071428571428, 0.8589249205273894),
    ],
)
def test_alpha_is_krippendorffs(level: str, observers: float, continuous: float) -> None:
    assert krippendorff_alpha(OBSERVERS, level) == pytest.approx(observers)  # type: ignore[arg-type]
    assert krippendorff_alpha(CONTINUOUS, level) == pytest.approx(continuous)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("form", "classic", "continuous"),
    [  # pingouin 0.7.0; the first column is Shrout and Fleiss's own (.17, .29, .71, .44, .62, .91)
        ("1,1", 0.165742, 0.866730),
        ("2,1", 0.289764, 0.868440),
        ("3,1", 0.714841, 0.915422),
        ("1,k", 0.442797, 0.962982),
        ("2,k", 0.620051, 0.963509),
        ("3,k", 0.909316, 0.977423),
    ],
)
def test_icc_is_shrout_and_fleiss(form: str, classic: float, continuous: float) -> None:
    assert icc(SHROUT_FLEISS, form) == pytest.approx(classic, abs=1e-6)  # type: ignore[arg-type]
    assert icc(CONTINUOUS, form) == pytest.approx(continuous, abs=1e-6)  # type: ignore[arg-type]


def test_icc_takes_the_units_that_all_raters_marked() -> None:
    gapped = [*([*row, 1.0] for row in CONTINUOUS[:3]), [*CONTINUOUS[3], NONE]]
    assert icc(gapped) == pytest.approx(icc(CONTINUOUS))


def test_errors_are_means_of_differences() -> None:
    assert mean_squared_error([1, 2, 3], [1, 4, 0]) == pytest.approx(13 / 3)
    assert mean_absolute_error([1, 2, 3], [1, 4, 0]) == pytest.approx(5 / 3)
    assert mean_squared_error([2], [5]) == 9
    assert mean_absolute_error([], []) is None


@pytest.mark.parametrize("figure", [pearson, spearman, kendall, quadratic_kappa])
@pytest.mark.parametrize(
    ("x", "y"), [([1, 2], [1, 2]), ([], []), ([3, 3, 3, 3], [1, 2, 3, 4]), ([1, 2, 3], [0.1 + 0.2, 0.3, 0.3])]
)
def test_two_points_or_a_constant_rater_have_no_figure(figure: object, x: list[float], y: list[float]) -> None:
    assert figure(x, y) is None  # type: ignore[operator]


def test_a_rater_with_one_category_has_no_kappa() -> None:
    assert cohen_kappa([1, 1, 1, 1], [1, 1, 1, 1], Bins.at(1.5)) is None
    assert cohen_kappa([1, 1, 1, 1], [1, 2, 1, 2], Bins.at(1.5)) is None
    assert cohen_kappa([2, 1, 2, 1], [1, 2, 1, 2], Bins.at(1.5)) == pytest.approx(-1)


def test_alpha_and_icc_of_equal_marks_are_undefined() -> None:
    assert krippendorff_alpha([[2, 2, 2, 2], [2, 2, 2, 2]]) is None
    assert krippendorff_alpha([[1, NONE, 2, 3], [NONE, 2, NONE, NONE]]) is None
    assert icc([[2, 2, 2, 2], [2, 2, 2, 2]]) is None
    assert icc([[1, 2, 3, 4]]) is None
    assert icc([[1, 2], [2, 3]]) is None


def test_marks_that_are_not_whole_have_no_categories_of_their_own() -> None:
    assert Bins.marks(np.array([1.0, 2.5])) is None
    assert Bins.marks(np.array([0.0, 100.0])) is None
    with pytest.raises(ValueError, match="go up"):
        Bins.at(3, 2)


def test_a_weight_of_two_is_a_pair_seen_twice() -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(1, 6, 40).astype(float)
    y = np.clip(x + rng.integers(-2, 3, 40), 1, 5).astype(float)
    weights = rng.integers(0, 4, (6, 40)).astype(float)
    bins, forms = Bins.at(2.5, 3.5), Forms(alpha="ordinal", icc="1,1")
    drawn = agreement_draws(x, y, weights, same_scale=True, bins=bins, forms=forms)
    assert set(drawn) == set(FIGURES)
    for i, times in enumerate(weights.astype(int)):
        a, b = np.repeat(x, times), np.repeat(y, times)
        wanted = {
            "pearson": scipy_stats.pearsonr(a, b)[0],
            "spearman": scipy_stats.spearmanr(a, b)[0],
            "kendall": scipy_stats.kendalltau(a, b)[0],
            "kappa": cohen_kappa(a, b, bins),
            "qwk": quadratic_kappa(a, b),
            "alpha": krippendorff_alpha([list(a), list(b)], "ordinal"),
            "icc": icc([list(a), list(b)], "1,1"),
            "mse": mean_squared_error(a, b),
            "mae": mean_absolute_error(a, b),
        }
        for name, value in wanted.items():
            assert drawn[name][i] == pytest.approx(value, abs=1e-6), name


def test_values_of_each_draw_are_ranked_within_the_draw() -> None:
    rng = np.random.default_rng(6)
    x, y = rng.integers(0, 5, (2, 30, 9)).astype(float)
    weights = np.ones((30, 9))
    weights[3, 2] = 0
    drawn = agreement_draws(x, y, weights, same_scale=False, bins=None, forms=Forms())
    for i in range(30):
        there = weights[i] > 0
        for name, oracle in (("spearman", scipy_stats.spearmanr), ("kendall", scipy_stats.kendalltau)):
            assert drawn[name][i] == pytest.approx(oracle(x[i][there], y[i][there])[0], abs=1e-9)


def test_kendall_of_very_many_distinct_marks_has_a_value_and_no_draws() -> None:
    x = np.arange(6001.0)
    assert kendall(x, -x) == pytest.approx(-1)
    assert np.isnan(kendall_draws(x, x, np.ones((2, 6001)))).all()
