"""Means of all cases from a part of them, against textbook formulas, enumeration and populations made on the spot."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from refbench.stats import Array
from refbench.stats.sample import Sample, Shares, regression_mean, residual_spread, sampled_number, slope

NOTHING = np.zeros((40, 0))


def population(seed: int = 1, n: int = 40) -> tuple[Array, Array, Array]:
    """Values, what is known of them, and four strata of unequal size and level."""
    rng = np.random.default_rng(seed)
    stratum = np.sort(rng.integers(0, 4, n)).astype(np.intp)
    known = 50 + 10 * stratum + rng.normal(0, 8, n)
    return known + rng.normal(0, 4, n), known[:, None], stratum


def estimated(values: Array, known: Array, sample: Sample, cluster: Array | None = None) -> tuple[float, Shares]:
    everyone = np.ones(len(values), dtype=bool)
    drawn = np.where(sample.drawn, values, np.nan)
    slopes = slope(np.nan_to_num(drawn - np.nanmean(drawn)), known, sample, everyone)
    found = regression_mean(drawn, known, sample, everyone, slopes)
    assert found is not None
    n = len(values)
    clusters = np.arange(n) if cluster is None else cluster
    return found.value, Shares(
        sample, everyone, np.full(n, 1 / n), found.left / n, found.plain / n, clusters, known.shape[1]
    )


def drawn_of(stratum: Array, each: int, rng: np.random.Generator) -> Sample:
    drawn = np.zeros(len(stratum), dtype=bool)
    for name in np.unique(stratum):
        here = np.flatnonzero(stratum == name)
        drawn[rng.choice(here, min(each, len(here)), replace=False)] = True
    return Sample(stratum, drawn)


def test_with_everything_drawn_it_is_the_plain_mean_without_error() -> None:
    values, known, stratum = population()
    values[[3, 17]] = np.nan  # failed
    value, shares = estimated(values, known, Sample(stratum, np.ones(40, dtype=bool)))
    assert value == pytest.approx(np.nanmean(values), abs=1e-12)
    assert sampled_number(value, [shares], 40).error == 0.0


def test_without_anything_known_it_is_the_textbooks_stratified_mean() -> None:
    values, _, stratum = population()
    sample = drawn_of(stratum, 4, np.random.default_rng(2))
    value, shares = estimated(values, NOTHING, sample)
    mean = variance = 0.0
    for name in range(4):
        here = stratum == name
        mine = values[here & sample.drawn]
        mean += here.sum() / 40 * mine.mean()
        variance += (here.sum() / 40) ** 2 * (1 - len(mine) / here.sum()) * mine.var(ddof=1) / len(mine)
    assert value == pytest.approx(mean)
    assert sampled_number(value, [shares], 40).error == pytest.approx(variance**0.5)


def test_the_error_estimate_is_right_on_average_over_every_possible_sample() -> None:
    values = np.array([3.0, 7, 4, 9, 12, 5, 8])
    stratum = np.zeros(7, dtype=np.intp)
    found = []
    for chosen in combinations(range(7), 3):
        drawn = np.isin(np.arange(7), chosen)
        value, shares = estimated(values, np.zeros((7, 0)), Sample(stratum, drawn))
        found.append((value, shares.of_sampling()[0].sum(), shares.of_cases()))
    means, errors, case_errors = np.array(found).T
    assert means.mean() == pytest.approx(values.mean())
    assert errors.mean() == pytest.approx(means.var())
    assert case_errors.mean() == pytest.approx(values.var(ddof=1) / 7)


def test_what_is_known_of_every_case_narrows_the_error_and_the_interval_still_holds() -> None:
    values, known, stratum = population(3, 300)
    rng = np.random.default_rng(4)
    hits, errors = {"with": 0, "without": 0}, {"with": 0.0, "without": 0.0}
    for _ in range(100):
        sample = drawn_of(stratum, 12, rng)
        for name, columns in (("with", known), ("without", known[:, :0])):
            value, shares = estimated(values, columns, sample)
            low, high = sampled_number(value, [shares], 300).interval() or (0.0, 0.0)
            hits[name] += low <= values.mean() <= high
            errors[name] += (value - values.mean()) ** 2 / 100
    assert min(hits.values()) >= 90
    assert errors["with"] < 0.4 * errors["without"]


@pytest.mark.parametrize("n_known", [60, 20, 40])
def test_what_is_known_of_a_part_of_the_cases_narrows_the_error_no_more_than_it_tells(n_known: int) -> None:
    """The drawn are among those that are known, as the first cases of two runs are: sampling twice (Neyman 1938)."""
    stratum, rng = np.zeros(60, dtype=np.intp), np.random.default_rng(3)
    known = rng.normal(50, 10, 60)
    values = known + rng.normal(0, 3, 60)
    drawn, gaps = np.arange(60) < 20, np.arange(60) >= n_known
    known[gaps] = known[~gaps].mean()
    sample, everyone = Sample(stratum, drawn), np.ones(60, dtype=bool)
    told = known[:, None]
    slopes = slope(np.where(drawn, values - values[drawn].mean(), 0.0), told, sample, everyone)
    found = regression_mean(np.where(drawn, values, np.nan), told, sample, everyone, slopes, gaps)
    assert found is not None
    shares = Shares(sample, everyone, np.full(60, 1 / 60), found.left / 60, found.plain / 60, np.arange(60))
    y, f = values[drawn], known[drawn]
    left = (y - np.polyval(np.polyfit(f, y, 1), f)).var(ddof=1)
    of_both = (1 / 20 - 1 / n_known) * left + (1 / n_known - 1 / 60) * y.var(ddof=1)
    assert shares.of_sampling()[0].sum() == pytest.approx(of_both, rel=1e-9)


def test_failed_cases_lower_what_the_mean_is_over_and_are_not_taken_to_be_like_the_others() -> None:
    values, known, stratum = population(5, 400)
    values[known[:, 0] < 58] = np.nan  # the hard ones are refused
    rng = np.random.default_rng(6)
    means = [estimated(values, known, drawn_of(stratum, 15, rng))[0] for _ in range(150)]
    assert np.mean(means) == pytest.approx(np.nanmean(values), abs=0.35)


def test_cases_of_a_cluster_count_together_for_what_is_said_of_other_cases() -> None:
    rng = np.random.default_rng(7)
    cluster = np.repeat(np.arange(30), 4)
    values = rng.normal(0, 5, 30)[cluster] + rng.normal(0, 1, 120)
    stratum = np.zeros(120, dtype=np.intp)
    sums = np.bincount(cluster, values - values.mean()) / 120
    mine = []
    for _ in range(150):
        sample = drawn_of(stratum, 60, rng)
        value, shares = estimated(values, np.zeros((120, 0)), sample, cluster)
        mine.append((shares.of_cases(), sampled_number(value, [shares], 120).error))
    together, of_sampling = np.mean(mine, axis=0)
    assert together == pytest.approx((sums**2).sum(), rel=0.1)
    # Drawn one by one, a cluster's cases say nothing more about how far off the mean of all is.
    assert of_sampling == pytest.approx(values.std(ddof=1) * (0.5 / 60) ** 0.5, rel=0.05)


def test_a_few_that_are_met_exactly_are_no_proof_that_all_are() -> None:
    values, _, stratum = population(8)
    value, shares = estimated(values, values[:, None], drawn_of(stratum, 6, np.random.default_rng(9)))
    number = sampled_number(value, [shares], 40)
    assert number.error > 0.1


def test_what_other_models_do_not_tell_is_smaller_than_what_they_differ_by() -> None:
    rng = np.random.default_rng(10)
    shared, stratum = rng.normal(0, 10, 500), rng.integers(0, 5, 500)
    models = shared + rng.normal(0, 3, (4, 500))
    assert residual_spread(models, stratum) == pytest.approx(3 * (1 + 1 / 3) ** 0.5, rel=0.1)
    assert residual_spread(models[:1], stratum) == pytest.approx(109**0.5, rel=0.1)


@pytest.mark.parametrize("mark", [0.0, 1.0])
def test_marks_that_are_all_at_an_end_of_the_scale_tell_more_the_more_there_are(mark: float) -> None:
    """Whatever rounding leaves of a spread that is none."""
    stratum = np.arange(300) % 5
    reach = []
    for n in (40, 45, 50, 160, 165, 285, 295):
        value, shares = estimated(np.full(300, mark), np.zeros((300, 0)), Sample(stratum, np.arange(300) < n))
        number = sampled_number(value, [shares], 300)
        low, high = number.interval((0.0, 1.0)) or (0.0, 1.0)
        reach.append(high - low)
        assert number.error == 0.0
        assert (number.df, number.effective) == (n - 5, n)
        assert number.interval() is None
    assert reach == sorted(reach, reverse=True)
    assert 0.08 < reach[0] < 0.10
    assert 0.010 < reach[-1] < 0.014


def with_rare_failures(n: int, rng: np.random.Generator) -> Array:
    return np.where(rng.random(n) < 0.05, 0.0, rng.uniform(0.9, 1.0, n))


@pytest.mark.parametrize(
    ("n_cases", "share"),
    [(300, 0.1), *(pytest.param(*design, marks=pytest.mark.slow) for design in ((300, 0.05), (300, 0.2), (900, 0.1)))],
)
def test_a_sample_that_rare_failures_are_not_in_leaves_room_for_them(n_cases: int, share: float) -> None:
    rng = np.random.default_rng(11)
    stratum, hits = np.arange(n_cases) % 5, 0
    for _ in range(100):
        values = with_rare_failures(n_cases, rng)
        sample = drawn_of(stratum, round(share * n_cases / 5), rng)
        value, shares = estimated(values, np.zeros((n_cases, 0)), sample)
        low, high = sampled_number(value, [shares], n_cases).interval((0.0, 1.0)) or (0.0, 0.0)
        hits += low <= values.mean() <= high
    assert hits >= 93


def test_the_room_for_what_was_not_drawn_vanishes_with_all_and_is_a_case_of_its_draw() -> None:
    rng = np.random.default_rng(12)
    stratum, values = np.zeros(200, dtype=np.intp), with_rare_failures(200, rng)
    value, shares = estimated(values, np.zeros((200, 0)), Sample(stratum, np.arange(200) < 49))
    assert sampled_number(value, [shares], 200).unseen == pytest.approx((151 / 200) ** 0.5 / 50)
    # Two parts drawn apart, each half of the number.
    halves = [replace(shares, weight=shares.weight / 2, left=shares.left / 2, plain=shares.plain / 2)] * 2
    assert sampled_number(value, halves, 200).unseen == pytest.approx((151 / 200 / 2) ** 0.5 / 50)
    value, shares = estimated(values, np.zeros((200, 0)), Sample(stratum, np.ones(200, dtype=bool)))
    assert sampled_number(value, [shares], 200).unseen == 0.0
