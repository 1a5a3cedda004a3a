"""Means of a sample corrected by a mark that all have: against closed forms, and how often their intervals hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from refbench.analysis.humans.sample import _drawn
from refbench.stats import Array, Design
from refbench.stats.corrected import (
    Linear,
    SampledMarks,
    corrected_mean,
    error_of,
    marks_alike,
    pooled_variance,
)
from refbench.stats.interval import Interval

N = 904


def population(seed: int, r: float = 0.8, slope: float = 8.0, n: int = N) -> tuple[Array, Array]:
    """People's marks, and those of a judge that correlates with them by r, with another scale and a bias."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n)
    return 3 + quality, 49 + slope * (r * quality + (1 - r**2) ** 0.5 * rng.normal(size=n))


def sampled(y: Array, f: Array, chosen: Array, chance: Array | float | None = None) -> SampledMarks:
    costly = np.full(len(y), np.nan)
    costly[chosen] = y[chosen]
    probability = np.broadcast_to(len(chosen) / len(y) if chance is None else chance, len(y)).astype(float)
    return SampledMarks(np.full(len(y), 1 / len(y)), f, costly, probability, np.zeros(len(y)), np.arange(len(y)))


def found(marks: SampledMarks, *, tuned: bool = True) -> Linear:
    made = corrected_mean(marks, len(marks.case), tuned=tuned)
    assert made is not None
    return made


def interval(marks: SampledMarks, *, these: bool, tuned: bool = True, strata: Array | None = None) -> Interval:
    n = len(marks.case)
    one = strata is None
    design = Design.of([str(i) for i in range(n)], [""] * n)
    labels = np.zeros(n, dtype=np.intp) if one else strata
    return error_of(found(marks, tuned=tuned), design, marks.probability, labels, these_cases=these).interval()


def test_it_is_the_ppi_mean_with_the_optimal_lambda() -> None:
    """Angelopoulos, Duchi and Zrnic (2023): lambda = cov / ((1 + n / N) var), with N outputs that are not rated."""
    y, f = population(1)
    chosen = np.random.default_rng(2).choice(N, 150, replace=False)
    rest = np.setdiff1d(np.arange(N), chosen)
    cov = np.cov(y[chosen], f[chosen])
    lam = cov[0, 1] / cov[1, 1] / (1 + len(chosen) / len(rest))
    theirs = y[chosen].mean() - lam * (f[chosen].mean() - f[rest].mean())
    assert found(sampled(y, f, chosen)).value == pytest.approx(theirs, rel=1e-12)


def test_its_error_on_these_cases_is_that_of_the_regression_estimator() -> None:
    """Cochran: (1 - n/N) / n times the residual variance over n - 2 degrees of freedom."""
    y, f = population(3)
    chosen = np.random.default_rng(4).choice(N, 300, replace=False)
    marks = sampled(y, f, chosen)
    slope, intercept = np.polyfit(f[chosen], y[chosen], 1)
    variance = np.sum((y[chosen] - slope * f[chosen] - intercept) ** 2) / (len(chosen) - 2)
    cochran = ((1 - len(chosen) / N) * variance / len(chosen)) ** 0.5
    design = Design.of([str(i) for i in range(N)], [""] * N)
    made = error_of(found(marks), design, marks.probability, np.zeros(N, dtype=np.intp), these_cases=True)
    assert made.error == pytest.approx(cochran, rel=2e-3)
    assert made.value == pytest.approx(intercept + slope * f.mean())


@pytest.mark.parametrize("change", [lambda f: 1000 - 0.01 * f, lambda f: 5 * f, lambda f: f + 40])
def test_the_judges_scale_and_bias_do_not_matter(change: Callable[[Array], Array]) -> None:
    y, f = population(5)
    chosen = np.random.default_rng(6).choice(N, 60, replace=False)
    plain, other = (interval(sampled(y, g, chosen), these=False) for g in (f, change(f)))
    assert other == pytest.approx(plain, rel=1e-6)


def test_a_judge_with_one_mark_for_all_leaves_peoples_own_mean() -> None:
    y, _ = population(7)
    chosen = np.arange(50)
    constant = sampled(y, np.full(N, 7.0), chosen)
    assert found(constant).value == pytest.approx(y[chosen].mean())
    assert interval(constant, these=False) == pytest.approx(interval(constant, these=False, tuned=False))


def test_where_all_are_rated_nothing_is_left_to_chance_about_these_cases() -> None:
    y, f = population(8, n=100)
    marks = sampled(y, f, np.arange(100))
    design = Design.of([str(i) for i in range(100)], [""] * 100)
    made = error_of(found(marks), design, marks.probability, np.zeros(100, dtype=np.intp), these_cases=True)
    assert (made.value, made.error) == (pytest.approx(y.mean()), 0.0)
    others = error_of(found(marks), design, marks.probability, np.zeros(100, dtype=np.intp), these_cases=False)
    assert others.error == pytest.approx(y.std(ddof=1) / 10, rel=0.01)


def test_unequal_chances_are_weighed() -> None:
    """Those with high marks were rated four times as often: the mean of the marks is far off, the weighed one is not."""
    y, f = population(9, n=20_000)
    rng = np.random.default_rng(10)
    chance = np.where(y > 3, 0.4, 0.1)
    chosen = np.flatnonzero(rng.random(len(y)) < chance)
    marks = sampled(y, f, chosen, chance)
    assert y[chosen].mean() > 3.4
    for tuned in (True, False):
        low, high = interval(marks, these=False, tuned=tuned) or (0, 0)
        assert low < 3.0 < high and high - low < 0.08


def test_cases_of_one_cluster_are_no_independent_witnesses() -> None:
    y, f = population(11, n=100)
    y, f = np.repeat(y, 5), np.repeat(f, 5)
    marks = sampled(y, f, np.arange(0, 500))
    alone, together = (
        error_of(
            found(marks),
            Design.of(names, [""] * 500),
            marks.probability,
            np.zeros(500, dtype=np.intp),
            these_cases=False,
        ).error
        for names in ([str(i) for i in range(500)], [str(i // 5) for i in range(500)])
    )
    assert together == pytest.approx(alone * 5**0.5, rel=0.02)


def test_strata_of_the_benchmark_do_not_stretch_what_was_sampled_across_them() -> None:
    """36 strata of 4 cases that differ in nothing, 20 of the 144 rated: marks alone have the t interval about."""
    no_strata = np.zeros(144, dtype=np.intp)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y, f = population(seed, n=144)
        y = np.round(y)
        chosen = rng.choice(144, 20, replace=False)
        marks = sampled(y, f, chosen)
        names = [str(i) for i in range(144)]
        for tuned in (True, False):
            flat, fine = (
                error_of(
                    found(marks, tuned=tuned), Design.of(names, strata), marks.probability, no_strata, these_cases=False
                )
                for strata in ([""] * 144, [str(i // 4) for i in range(144)])
            )
            assert fine.error == pytest.approx(flat.error, rel=0.02 if not tuned else 0.2)
            assert abs(fine.skew - flat.skew) < (1e-9 if not tuned else 0.3)
        student = stats.ttest_1samp(y[chosen], 0).confidence_interval()
        low, high = fine.interval() or (0, 0)
        assert low == pytest.approx(student.low, abs=0.6 * (student.high - student.low))
        assert high - low < 1.5 * (student.high - student.low)


def test_the_gap_of_two_models_counts_what_their_cases_share() -> None:
    y, f = population(12)
    chosen = np.random.default_rng(13).choice(N, 100, replace=False)
    first, second = found(sampled(y, f, chosen)), found(sampled(y + 0.1, f, chosen))
    design = Design.of([str(i) for i in range(N)], [""] * N)
    gap = error_of(second - first, design, np.full(N, 100 / N), np.zeros(N, dtype=np.intp), these_cases=False)
    assert gap.value == pytest.approx(0.1) and gap.error < 1e-9


def test_a_judge_of_correlation_eight_tenths_is_worth_as_many_marks_again() -> None:
    """Of 904 cases with 200 marks: 1 / (1 - r^2 + r^2 n / N) times the marks, 399 in all; about these cases alone the
    number of marks alone that leave 0.36 of the variance."""
    error = (1 - 0.64 + 0.64 * 200 / N) ** 0.5
    assert marks_alike(error, 1.0, 200, N, these_cases=False) == pytest.approx(399, abs=1)
    alike = marks_alike(0.6, 1.0, 200, N, these_cases=True)
    assert (1 / alike - 1 / N) / (1 / 200 - 1 / N) == pytest.approx(0.36)


def test_raters_noise_is_pooled_over_outputs_with_several() -> None:
    assert pooled_variance([[1.0, 3.0], [2.0], [5.0, 5.0, 5.0]]) == pytest.approx(2 / 3)
    assert pooled_variance([[1.0], [2.0]]) == 0


def test_fewer_than_five_rated_cases_have_no_corrected_mean() -> None:
    y, f = population(14)
    assert corrected_mean(sampled(y, f, np.arange(4)), N) is None


@pytest.mark.slow
@pytest.mark.parametrize(("these", "widest"), [(True, 0.62), (False, 0.72)])
def test_a_biased_judge_is_corrected_and_saves_as_much_as_it_can(these: bool, widest: float) -> None:
    """200 marks on 904 cases, a judge of correlation 0.8 with planted bias and slope: the least possible share of the
    width of people's marks alone is 0.60 about these cases, 0.708 about cases of their kind."""
    rng = np.random.default_rng(20251115)
    held, shares = [], []
    for _ in range(1500):
        y, f = population(int(rng.integers(1 << 31)))
        marks = sampled(y, f, rng.choice(N, 200, replace=False))
        (low, high), (least, most) = (interval(marks, these=these, tuned=t) or (0, 0) for t in (True, False))
        held.append(low <= (y.mean() if these else 3.0) <= high)
        shares.append((high - low) / (most - least))
    assert 0.93 <= np.mean(held) <= 0.97
    assert np.mean(shares) <= widest


@pytest.mark.slow
@pytest.mark.parametrize("these", [True, False])
def test_the_intervals_of_a_list_drawn_by_the_judges_uncertainty_hold(these: bool) -> None:
    """People differ from the judge more where the list has more; strata and chances as `refbench sample` draws them."""
    rng = np.random.default_rng(7)
    held = []
    for _ in range(1000):
        f = rng.normal(size=N)
        size = 0.5 + np.abs(rng.normal(size=N))
        y = f + size * rng.normal(size=N)
        places, chances, strata = _drawn(size / size.mean(), 150, rng)
        chance = np.ones(N)
        chance[places] = chances
        ends = interval(sampled(y, f, np.array(places), chance), these=these, strata=np.array(strata))
        assert ends is not None
        held.append(ends[0] <= (y.mean() if these else 0.0) <= ends[1])
    assert 0.93 <= np.mean(held) <= 0.97
