"""Quantiles against scipy."""

from __future__ import annotations

import pytest
from scipy import stats

from refbench.stats.quantiles import beta_cdf, beta_quantile, normal_cdf, normal_quantile, t_quantile, t_tails


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 8, 11, 12, 29, 30, 31, 50, 120, 895, 100_000])
@pytest.mark.parametrize("p", [0.005, 0.025, 0.2, 0.5, 0.9, 0.975, 0.995])
def test_t_quantiles_are_scipys(df: int, p: float) -> None:
    assert t_quantile(p, df) == pytest.approx(stats.t.ppf(p, df), rel=2e-6, abs=1e-9)


def test_normal_functions_are_scipys() -> None:
    for z in (-3.0, -1.0, 0.0, 0.5, 2.5):
        assert normal_cdf(z) == pytest.approx(stats.norm.cdf(z), abs=1e-12)
        assert normal_quantile(normal_cdf(z)) == pytest.approx(z, abs=1e-9)


def test_no_degree_of_freedom_is_an_error() -> None:
    with pytest.raises(ValueError, match="degree of freedom"):
        t_quantile(0.975, 0)


@pytest.mark.parametrize("df", [1, 2, 7, 30, 895, 100_000])
@pytest.mark.parametrize("t", [0.0, 0.3, 1.96, 5.0, 12.0, 40.0])
def test_t_tails_are_scipys_also_far_out(df: int, t: float) -> None:
    assert t_tails(-t, df) == t_tails(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("p", [0.025, 0.5, 0.975])
@pytest.mark.parametrize(("a", "b"), [(0.5, 30), (3, 1), (0.01, 5), (47, 4), (900.5, 12.25), (30_000, 9_000)])
def test_beta_functions_are_scipys(a: float, b: float, p: float) -> None:
    x = float(stats.beta.ppf(p, a, b))
    assert beta_cdf(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), rel=1e-10)
    assert beta_quantile(p, a, b) == pytest.approx(x, rel=1e-8, abs=1e-15)


def test_a_beta_distribution_without_one_side_is_at_its_end() -> None:
    assert (beta_quantile(0.025, 0, 5), beta_quantile(0.975, 5, 0)) == (0.0, 1.0)
    assert (beta_cdf(-0.1, 2, 2), beta_cdf(1.1, 2, 2)) == (0.0, 1.0)
