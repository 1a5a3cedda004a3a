"""Distances of sets: a mergeable state, SciPy's root as the oracle, and no number without its N and its network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refbench.metrics import find_metric
from refbench.metrics.sets import (
    LEAST_FRECHET,
    GaussianState,
    frechet,
    frechet_distance,
    kid,
    merged,
    mmd_squared,
    set_label,
)
from refbench.record import RefBenchError


def vectors(seed: int, count: int, size: int = 12, shift: float = 0.0) -> Any:
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).normal(size=(size, size))
    return (rng.normal(size=(count, size)) @ mix + shift).astype(np.float32)


def test_merging_is_the_same_in_any_order_and_equals_all_at_once() -> None:
    # A large common offset: sums of squares would lose nine digits here.
    every = vectors(0, 3000).astype(np.float64) + 1e5
    whole = GaussianState.of("f", every)
    cuts = np.array_split(every, [3, 4, 700, 1500, 2999])
    states = [GaussianState.of("f", part) for part in cuts]
    rng = np.random.default_rng(1)
    for _ in range(5):
        order = rng.permutation(len(states))
        state = merged(states[i] for i in order)
        assert state.n == 3000
        np.testing.assert_allclose(state.mean, whole.mean, rtol=1e-12)
        np.testing.assert_allclose(state.covariance, whole.covariance, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(whole.covariance, np.cov(every.T), rtol=1e-9, atol=1e-9)


def test_frechet_distance_equals_scipys_matrix_root() -> None:
    from scipy.linalg import sqrtm

    a, b = GaussianState.of("f", vectors(0, 500)), GaussianState.of("f", vectors(1, 400, shift=0.3))
    root = np.real(sqrtm(a.covariance @ b.covariance))
    wanted = np.sum((a.mean - b.mean) ** 2) + np.trace(a.covariance + b.covariance - 2 * root)
    assert frechet_distance(a.mean, a.covariance, b.mean, b.covariance) == pytest.approx(wanted, rel=1e-9)


def test_frechet_distance_of_one_dimension_has_a_closed_form() -> None:
    one = np.array([[4.0]]), np.array([[9.0]])
    assert frechet_distance(np.array([1.0]), one[0], np.array([3.0]), one[1]) == pytest.approx(4 + (2 - 3) ** 2)


def test_nearly_singular_covariances_give_a_real_distance() -> None:
    """Fewer pictures than dimensions: both covariances have rank 5 of 40, and so has their product at most."""
    a = GaussianState.of("f", np.random.default_rng(0).normal(size=(6, 40)))
    b = GaussianState.of("f", np.random.default_rng(1).normal(size=(6, 40)))
    assert frechet_distance(a.mean, a.covariance, a.mean, a.covariance) == pytest.approx(0, abs=1e-9)
    distance = frechet_distance(a.mean, a.covariance, b.mean, b.covariance)
    traces = np.trace(a.covariance) + np.trace(b.covariance) + np.sum((a.mean - b.mean) ** 2)
    assert 0 < distance < traces


def test_frechet_refuses_few_pictures_unless_forced_and_then_says_so() -> None:
    few, enough = (
        GaussianState.of("inception_v3", vectors(0, 100)),
        GaussianState.of("inception_v3", vectors(1, LEAST_FRECHET)),
    )
    with pytest.raises(RefBenchError, match="FID of 100 pictures would be mostly bias"):
        frechet(few, enough)
    forced = frechet(few, enough, force=True)
    assert (forced.name, forced.n_output, forced.n_reference, forced.features) == ("FID", 100, 2048, "inception_v3")
    assert "forced" in forced.remark
    assert frechet(enough, enough).remark == ""
    assert "100 against 2048 pictures" in str(forced)


def test_one_picture_has_no_distance_even_by_force() -> None:
    """MultiRef-Bench prints a FID of one picture."""
    one = GaussianState.of("inception_v3", vectors(0, 1))
    with pytest.raises(RefBenchError, match="at least two"):
        frechet(one, one, force=True)


def test_only_inceptions_distance_is_called_fid() -> None:
    assert set_label("frechet", "inception_v3") == "FID"
    assert set_label("frechet", "mobilenet_v2") == "Frechet distance of mobilenet_v2"
    assert set_label("kernel", "inception_v3") == "KID"
    assert set_label("kernel", "mobilenet_v2") == "kernel distance of mobilenet_v2"


def test_features_of_two_networks_are_not_compared() -> None:
    a, b = GaussianState.of("one", vectors(0, 50)), GaussianState.of("other", vectors(0, 50))
    with pytest.raises(RefBenchError, match="cannot be compared"):
        frechet(a, b, force=True)
    with pytest.raises(RefBenchError, match="cannot be merged"):
        a.merge(b)


def test_features_that_are_not_finite_are_refused() -> None:
    bad = vectors(0, 5)
    bad[2, 3] = np.nan
    with pytest.raises(RefBenchError, match="not finite"):
        GaussianState.of("f", bad)


def test_mmd_equals_its_double_sum() -> None:
    x, y = vectors(0, 7, 3).astype(float), vectors(1, 9, 3).astype(float)

    def k(a: Any, b: Any) -> float:
        return float((a @ b / 3 + 1) ** 3)

    own = sum(k(a, b) for i, a in enumerate(x) for j, b in enumerate(x) if i != j) / (7 * 6)
    other = sum(k(a, b) for i, a in enumerate(y) for j, b in enumerate(y) if i != j) / (9 * 8)
    between = sum(k(a, b) for a in x for b in y) / (7 * 9)
    assert mmd_squared(x, y) == pytest.approx(own + other - 2 * between, rel=1e-9)


def test_kid_is_the_same_under_a_seed_and_near_zero_for_one_distribution() -> None:
    a, b = np.random.default_rng(0).normal(size=(600, 16)), np.random.default_rng(1).normal(size=(600, 16))
    value = kid(a, b, features="inception_v3", subsets=10, subset_size=150)
    assert value == kid(a, b, features="inception_v3", subsets=10, subset_size=150)
    assert value != kid(a, b, features="inception_v3", subsets=10, subset_size=150, seed=1)
    assert value.name == "KID" and value.spread is not None
    assert abs(value.value) < 4 * value.spread
    assert kid(a, b + 0.5, features="f", subsets=10, subset_size=150).value > 10 * abs(value.value)


def test_a_subset_that_is_the_whole_set_has_no_spread() -> None:
    value = kid(vectors(0, 30), vectors(1, 30), features="f")
    assert value.spread is None
    assert value.value == pytest.approx(mmd_squared(vectors(0, 30), vectors(1, 30)))
    assert "standard deviation" not in str(value)
    assert "of all 30 pictures at once, so there is no spread to estimate" in str(value)
    lopsided = kid(vectors(0, 30), vectors(1, 60), features="f", subsets=5)
    assert lopsided.spread is not None
    assert "all of the output's: the deviation is that of the other side alone" in lopsided.remark


def test_kid_of_few_pictures_says_how_few() -> None:
    value = kid(vectors(0, 30), vectors(1, 40), features="f", subsets=3)
    assert value.remark.startswith("subsets of 30 pictures")
    with pytest.raises(RefBenchError, match="at least two"):
        kid(vectors(0, 1), vectors(1, 40), features="f")


@pytest.mark.parametrize("name", ["fid", "kid", "frechet@mobilenet_v2"])
def test_a_measure_of_sets_is_never_taken_for_one_of_a_picture(name: str) -> None:
    """Beside `lpips`, `fid` is what people ask a run for; it is told where that is to be had."""
    with pytest.raises(
        RefBenchError, match=f"{name} compares two sets of pictures.*refbench measure {name} --output DIR"
    ):
        find_metric(name)
    assert find_metric("lpips").id == "lpips@lpips_alex"
