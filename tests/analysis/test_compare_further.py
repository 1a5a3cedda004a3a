"""Equivalence, intervals that hold together, and p corrected for all that was looked at."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from refbench.analysis.compare import Comparison, Further, Systems, compare_columns
from refbench.benchmarks.creval.table import PAPER, released_scores
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.stats import Contrast, holm
from refbench.tables.table import Columns

N = 120


def cases() -> list[AnyCase]:
    released, _ = released_scores()
    return [*released][:: len(released) // N][:N]


def compared(shift: float, noise: float = 0.03, seed: int = 1, models: int = 2, **asked: object) -> Comparison:
    rng = np.random.default_rng(seed)
    shared = rng.uniform(0.3, 0.7, N)
    rows = [shared + rng.normal(0, noise, N) + shift * k for k in range(models)]
    columns = Columns.of_values(
        [(f"m{k}", "j") for k in range(models)], {m: np.clip(np.stack(rows), 0, 1) for m in ("IF", "VC", "VQ")}
    )
    systems = Systems(PAPER, columns, cases(), "creval", "CREval", "paper")
    return compare_columns(systems, metric="avg", draws=200, further=Further(**asked))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-0.8, 0.0, 0.7])
def test_two_one_sided_tests_are_those_of_scipy(value: float) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=15)
    x += value - x.mean()
    error = float(x.std(ddof=1) / np.sqrt(len(x)))
    ours = Contrast(float(x.mean()), error, 0.0, 15, 14).p_within(1.0)
    theirs = max(
        stats.ttest_1samp(x, -1.0, alternative="greater").pvalue, stats.ttest_1samp(x, 1.0, alternative="less").pvalue
    )
    assert ours == pytest.approx(theirs, rel=1e-9)


def test_near_equal_models_are_called_equal_only_within_a_margin_that_was_named() -> None:
    (without,) = compared(0.0).pairs
    assert not without.equal
    assert without.p_equal is None
    assert "equal" not in without.sentence
    (within,) = compared(0.0, margin=2.0).pairs
    assert within.equal
    assert within.sentence.startswith("m0 and m1 are equal within 2 points on CREval avg")
    assert "two one-sided tests" in within.sentence
    (too_small,) = compared(0.0, noise=0.2, margin=0.1).pairs
    assert not too_small.equal
    assert "nor find them equal within 0.1 points" in too_small.sentence


@pytest.mark.parametrize(("margin", "equal"), [(3.0, True), (1.0, False)])
def test_models_that_never_differ_are_equal_within_what_so_many_cases_exclude(margin: float, equal: bool) -> None:
    """Of 120 that are alike, 2.5 in 100 may be as far apart as the scale goes (Clopper and Pearson, one-sided)."""
    (pair,) = compared(0.0, noise=0.0, margin=margin).pairs
    assert pair.gap == 0 and pair.ci95 is None
    assert pair.equal is equal
    assert pair.p_equal == pytest.approx(stats.binom.cdf(0, N, margin / 100), rel=0.05)


def test_a_difference_that_is_real_and_small_is_said_to_be_both() -> None:
    (pair,) = compared(0.02, margin=5.0).pairs
    assert pair.resolved
    assert pair.equal
    assert "below m1, which is within 5 points on" in pair.sentence


def test_a_gap_at_the_margin_is_called_equal_no_more_often_than_the_level() -> None:
    rng = np.random.default_rng(11)
    found = 0
    for _ in range(1000):
        x = rng.normal(0.5, 1, 25)
        p = Contrast(float(x.mean()), float(x.std(ddof=1) / 5), 0.0, 25, 24).p_within(0.5)
        found += p is not None and p <= 0.05
    assert 20 < found < 50 + 2 * np.sqrt(1000 * 0.05 * 0.95)


def test_a_margin_is_a_difference_above_zero() -> None:
    with pytest.raises(RefBenchError, match="above 0"):
        compared(0.0, margin=-1.0)


def test_intervals_of_a_family_are_wider_and_hold_together() -> None:
    found = compared(0.0, models=4)
    assert found.family == 6
    for pair in found.pairs:
        assert pair.ci95 is not None
        assert pair.ci95_family is not None
        assert pair.ci95_family[0] < pair.ci95[0] < pair.ci95[1] < pair.ci95_family[1]
    (alone,) = compared(0.0).pairs
    assert alone.ci95_family == alone.ci95


def test_over_all_measures_the_family_is_larger_and_so_are_its_ps() -> None:
    pairs = compared(0.008)
    (plain,), (wide,) = pairs.pairs, compared(0.008, over_measures=True).pairs
    assert (wide.family, wide.measures) == (4, 4)
    assert plain.p == wide.p
    assert plain.p_adjusted is not None
    assert wide.p_adjusted is not None
    assert wide.p_adjusted >= plain.p_adjusted
    assert "Holm over 4 tests in 4 measures" in wide.sentence


def test_slices_have_a_p_that_is_corrected_over_all_of_their_level() -> None:
    (pair,) = compared(0.02).pairs
    dimensions = [driver for driver in pair.drivers if driver.slice["level"] == "dimension"]
    assert len(dimensions) == 9
    assert [d.p_adjusted for d in dimensions] == pytest.approx(holm([d.p or 0.0 for d in dimensions]))


def test_p_of_a_slice_is_never_below_that_of_all_flips_of_its_clusters() -> None:
    """Where five cases lie one way by much the same, Student's p is near zero: chance does so in one of sixteen."""
    rng = np.random.default_rng(0)
    low, high = rng.choice([0.0, 0.3, 1 / 3], N), rng.choice([2 / 3, 0.7, 1.0], N)
    members = {tuple(where.label.items()): where.members for where in PAPER.slices(cases())}
    small = next(chosen for chosen in members.values() if chosen.sum() == 5)
    swapped = (rng.random(N) < 0.5) & ~small
    rows = np.stack([np.where(swapped, high, low), np.where(swapped, low, high)])
    columns = Columns.of_values([("a", "j"), ("b", "j")], dict.fromkeys(("IF", "VC", "VQ"), rows))
    systems = Systems(PAPER, columns, cases(), "creval", "CREval", "paper")
    (pair,) = compare_columns(systems, metric="avg", draws=200).pairs
    exact = {}
    for driver in pair.drivers:
        chosen = members[tuple(driver.slice.items())]
        if driver.slice["level"] == "dimension" and chosen.sum() <= 12:
            signs = 1 - 2 * ((np.arange(2 ** chosen.sum())[:, None] >> np.arange(chosen.sum())) & 1)
            apart = (rows[0] - rows[1])[chosen]
            exact[len(apart)] = np.mean(np.abs(signs @ apart) >= abs(apart.sum()) - 1e-9)
            assert driver.p is not None
            assert driver.p >= 0.9 * exact[len(apart)], "to the error of random flips"
            if len(apart) == 5:
                assert driver.p == exact[5] == 2 / 32
    assert len(exact) > 1


def test_a_margin_is_said_as_it_was_given() -> None:
    (pair,) = compared(0.0, noise=1e-5, margin=0.0149).pairs
    assert pair.sentence.startswith("m0 and m1 are equal within 0.0149 points on")


@pytest.mark.slow
def test_intervals_of_a_family_hold_together_in_nineteen_of_twenty() -> None:
    together = sum(
        all(p.ci95_family is not None and p.ci95_family[0] <= 0 <= p.ci95_family[1] for p in compared(0.0, seed=s, models=4, by_slice=False).pairs)
        for s in range(100)
    )  # fmt: skip
    assert together >= 90
