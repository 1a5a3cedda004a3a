"""Following a gap case by case: the betting argument exactly, by all sign patterns, and by simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from refbench.stats.sequential import SIGN_STAKES, STAKES, Parts, confidence_sequence, follow


def parts(values: np.ndarray, scale: float | None = 5.0) -> Parts:
    """Clusters of one size, and differences on a scale that ends where one of them can be."""
    values = np.asarray(values, dtype=np.float64)
    n = max(len(values), 1)
    return Parts(values / n, values / n, np.full(len(values), 1 / n), 1 / n, scale)


SIZES = np.array([0.3, 0.0, 1.2, 0.7, 0.1, 2.0, 0.4])


def test_without_ends_the_expected_wealth_over_all_signs_is_exactly_one() -> None:
    wealth = [
        np.exp([parts(SIZES * signs, None).logs_above(0.0), parts(SIZES * signs, None).logs_below(0.0)])
        for signs in product((-1.0, 1.0), repeat=len(SIZES))
    ]
    assert np.mean(wealth, axis=0) == pytest.approx(np.ones((2, len(SIZES))), rel=1e-12)


def test_with_ends_the_expected_wealth_is_exactly_one_whatever_the_shape() -> None:
    """A difference of 1 with probability .2, else -.25: as skewed as any, and its mean is not zero but .3 moved."""
    values, chances, gap = np.array([1.3, 0.05]), np.array([0.2, 0.8]), 0.3
    total = np.zeros((2, 6))
    for places in product((0, 1), repeat=6):
        one = parts(values[list(places)], 1.3)
        total += np.prod(chances[list(places)]) * np.exp([one.logs_above(gap), one.logs_below(gap)])
    assert total == pytest.approx(np.ones((2, 6)), rel=1e-12)


def test_wealth_is_that_of_the_product_written_out() -> None:
    values = np.random.default_rng(3).uniform(-0.8, 1, 40)
    shares = np.random.default_rng(4).uniform(0.2, 1, 40)
    one = Parts(values * shares, values * shares, shares, 1.0, 1.0)
    gap = 0.1
    wealth = [
        np.prod([1 + stake * share * (value - gap) / (1 + gap) for value, share in zip(values, shares, strict=True)])
        for stake in STAKES
    ]
    assert one.logs_above(gap)[-1] == pytest.approx(np.log(np.mean(wealth)), rel=1e-10)


def test_without_ends_wealth_is_that_of_the_product_written_out() -> None:
    values = np.random.default_rng(3).normal(0.2, 1, 40)
    wealth = dict.fromkeys(SIGN_STAKES, 1.0)
    squares = 0.0
    for seen, value in enumerate(values):
        unit = value / np.sqrt(squares / seen) if seen else 0.0
        wealth = {g: w * np.exp(g * unit) / np.cosh(g * unit) for g, w in wealth.items()}
        squares += value**2
    assert parts(values, None).logs_above(0.0)[-1] == pytest.approx(np.log(np.mean(list(wealth.values()))), rel=1e-10)


def test_without_ends_looking_after_every_case_claims_no_more_than_the_level() -> None:
    rng = np.random.default_rng(7)
    claimed = 0
    for _ in range(600):
        one = parts(rng.normal(size=300), None)
        claimed += max(one.logs_above(0.0).max(), one.logs_below(0.0).max()) >= np.log(2 / 0.05)
    assert 0 < claimed <= 600 * 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("change", "margin"), [(0.05, 0.05), (0.1, 0.1), (0.02, 0.02)])
def test_marks_of_pass_and_fail_a_margin_apart_are_not_found_equal_within_it(change: float, margin: float) -> None:
    """One always passes, the other fails in just so many cases that the gap is the margin: at first all are ties."""
    rng = np.random.default_rng(21)
    found = [
        follow(parts(rng.random(500) < change, 1.0), level=0.05, margin=margin).verdict == "within" for _ in range(300)
    ]
    assert np.mean(found) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("collapses", "by"), [(0.05, 0.7), (0.1, 0.6), (0.05, 0.8)])
def test_a_model_that_is_better_mostly_and_collapses_at_times_is_not_found_better(collapses: float, by: float) -> None:
    """The true gap is zero, and almost all differences are on one side of it."""
    rng = np.random.default_rng(22)
    wrong = 0
    for _ in range(300):
        values = rng.normal(collapses * by, 0.05, 300) - by * (rng.random(300) < collapses)
        wrong += follow(parts(np.clip(values, -1, 1), 1.0), level=0.05).verdict != "open"
    assert wrong / 300 <= 0.05


def test_the_confidence_sequence_holds_the_gap_at_every_look_and_shrinks() -> None:
    rng = np.random.default_rng(8)
    missed, widths = 0, []
    for _ in range(15):
        values = rng.normal(0.1, 0.2, 300)
        low, high = confidence_sequence(parts(values, 1.2), level=0.05)
        missed += not low <= 0.1 <= high
        widths.append(high - low)
    assert missed <= 2
    assert np.mean(widths) < 0.15


def test_it_stops_at_the_first_cluster_that_rules_zero_out() -> None:
    values = np.random.default_rng(9).normal(0.5, 1, 400)
    found = follow(parts(values), level=0.05)
    assert found.verdict == "above"
    assert found.interval[0] >= 0
    assert found.clusters < 200
    shorter = follow(parts(values).first(found.clusters - 1), level=0.05)
    assert shorter.verdict == "open"
    assert shorter.interval[0] < 0


def test_equal_models_are_found_to_be_within_the_margin_and_only_with_one() -> None:
    values = np.random.default_rng(12).normal(0, 1, 3000)
    values -= values.mean()
    assert follow(parts(values), level=0.05).verdict == "open"
    found = follow(parts(values), level=0.05, margin=0.3)
    assert found.verdict == "within"
    assert -0.3 <= found.interval[0] <= found.interval[1] <= 0.3


def test_ties_alone_say_that_models_are_equal_only_after_as_many_as_it_takes() -> None:
    """Where one case in twenty may differ by all, 59 ties in a row still come with a chance of 5 % (.95 ** 59)."""
    found = follow(parts(np.zeros(400), 1.0), level=0.05, margin=0.05)
    assert found.verdict == "within"
    assert found.clusters > 59


def test_without_ends_zero_is_all_that_is_asked_about() -> None:
    values = np.random.default_rng(9).normal(0.5, 1, 400)
    found = follow(parts(values, None), level=0.05)
    assert (found.verdict, found.interval) == ("above", (-np.inf, np.inf))
    with pytest.raises(ValueError, match="only a gap of zero"):
        follow(parts(values, None), level=0.05, margin=0.3)


def test_failures_are_never_dropped_to_decide() -> None:
    values = np.random.default_rng(11).normal(0.5, 1, 200)
    whole = parts(values)
    n = follow(whole, level=0.05).clusters
    low, high = values / 200, values / 200
    low[:n:4], high[:n:4] = -3.0 / 200, 3.0 / 200
    broken = follow(Parts(low, high, whole.share, whole.largest, 5.0), level=0.05)
    assert broken.verdict == "open" or broken.clusters > n
    low[0], high[0] = -np.inf, np.inf
    endless = follow(Parts(low, high, whole.share, whole.largest, 5.0), level=0.05)
    assert endless.verdict == "open"
    assert endless.interval == (-5.0, 5.0)
    assert follow(Parts(low, high, whole.share, whole.largest, None), level=0.05).verdict == "open"


def test_no_cases_say_nothing() -> None:
    for scale, ends in ((None, np.inf), (2.0, 2.0)):
        found = follow(parts(np.zeros(0), scale), level=0.05)
        assert (found.verdict, found.clusters) == ("open", 0)
        assert found.interval == (-ends, ends)
    assert follow(parts(np.zeros(20), None), level=0.05).verdict == "open"
    assert follow(parts(np.zeros(20), 1.0), level=0.05).verdict == "open"
